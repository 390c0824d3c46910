"""What children of multiprocessing publish arrives, also right behind a fork."""

from __future__ import annotations

import multiprocessing
import sys
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from kymogram import metrics

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="needs fork")


def publish(child: int, path: str, configure: bool) -> None:
    """What a child does."""
    if configure:
        metrics.configure(metrics.JSONLinesMetricHandler(path))
    for value in range(100):
        metrics.put_metric(f"m{child}", value)


def lines(path: Path) -> Counter[str]:
    """How often each line of the file is there, without its time."""
    return Counter(line.partition(", ")[2] for line in path.read_text().splitlines())


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "metrics.jsonl"


@pytest.mark.parametrize("method", ["fork", "spawn", "forkserver"])
def test_children_publish_everything(method: str, path: Path) -> None:
    context: Any = multiprocessing.get_context(method)
    if method == "fork":
        metrics.configure(metrics.JSONLinesMetricHandler(path))
    children = [
        context.Process(target=publish, args=(i, str(path), method != "fork")) for i in range(4)
    ]
    for child in children:
        child.start()
    for child in children:
        child.join()
        assert child.exitcode == 0
    found = lines(path)
    assert (len(found), sum(found.values())) == (400, 400)


def test_a_fork_right_behind_a_metric(path: Path) -> None:
    """The thread that writes is in the middle of a line then."""
    for _ in range(100):
        path.unlink(missing_ok=True)
        metrics.configure(metrics.JSONLinesMetricHandler(path))
        for value in range(20):
            metrics.put_metric("parent", value)
        child = multiprocessing.get_context("fork").Process(
            target=publish, args=(0, str(path), False)
        )
        child.start()
        child.join()
        assert metrics.flush()
        found = lines(path)
        assert (len(found), sum(found.values())) == (120, 120)


def test_a_fork_does_not_wait_for_a_handler_that_blocks(path: Path) -> None:
    import threading
    import time

    blocked, go = threading.Event(), threading.Event()

    class Blocks(metrics.MetricHandler):
        def emit(self, metric_data: metrics.MetricData) -> None:
            blocked.set()
            go.wait(20)

    metrics.configure(Blocks())
    metrics.put_metric("a", 1)
    blocked.wait()
    begin = time.monotonic()
    child = multiprocessing.get_context("fork").Process(target=publish, args=(0, str(path), True))
    child.start()
    child.join()
    assert time.monotonic() - begin < 10
    go.set()
    assert sum(lines(path).values()) == 100
