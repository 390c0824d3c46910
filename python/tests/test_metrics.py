"""The metrics API: who gets what, under which name, and what a handler may not do."""

from __future__ import annotations

import asyncio
import io
import json
import math
import os
import re
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import kymogram
from kymogram import _say, metrics
from kymogram.metrics import _outlet, api, handlers

from . import reader
from .conftest import REPOSITORY


class Recorder(metrics.MetricHandler):
    """Remembers everything; the oracle of most tests."""

    def __init__(self) -> None:
        self.seen: list[metrics.MetricData] = []

    def emit(self, metric_data: metrics.MetricData) -> None:
        self.seen.append(metric_data)

    def pairs(self) -> list[tuple[str, float]]:
        assert metrics.flush()
        return [(one.name, one.value) for one in self.seen]

    def names(self) -> list[str]:
        return [name for name, _ in self.pairs()]


@pytest.fixture(autouse=True)
def unconfigured() -> Iterator[None]:
    """Groups go nowhere before and after a test, and warnings are heard."""
    _say.set_level("SUCCESS")
    api._groups.clear()
    metrics.configure(metrics.NullMetricHandler())
    yield
    api._groups.clear()
    metrics.configure(metrics.NullMetricHandler())


def test_nothing_is_published_until_a_handler_is_configured() -> None:
    metrics.put_metric("a", 1)
    metrics.put_metric("a", 1, "group")
    assert isinstance(metrics.getStream("group").handler, metrics.NullMetricHandler)
    assert metrics.counts() == []


def test_groups_have_their_own_handlers_and_the_rest_share_one() -> None:
    mine, others = Recorder(), Recorder()
    metrics.configure(mine, "mine")
    metrics.configure(others)
    metrics.put_metric("a", 1, "mine")
    metrics.put_metric("b", 2)
    metrics.put_metric("c", 3, metric_group="theirs")
    assert mine.pairs() == [("a", 1)]
    assert others.pairs() == [("b", 2), ("c", 3)]
    assert [one.group_name for one in others.seen] == [metrics.RESERVED_GROUP, "theirs"]
    metrics.configure(metrics.NullMetricHandler(), "mine")
    metrics.put_metric("a", 4, "mine")
    assert mine.pairs() == [("a", 1)]
    assert others.names() == ["b", "c"]


def test_put_metric_has_torchelastics_names_and_the_short_ones() -> None:
    seen = Recorder()
    metrics.configure(seen)
    metrics.put_metric(metric_name="a", metric_value=1, metric_group="g")
    metrics.put_metric(name="b", value=2, group="g")
    assert seen.pairs() == [("a", 1), ("b", 2)]
    assert {one.group_name for one in seen.seen} == {"g"}
    for wrong in ({}, {"metric_name": "a"}, {"value": 1}):
        with pytest.raises(TypeError, match="a name and a value"):
            metrics.put_metric(**wrong)


def test_configure_says_what_a_handler_is() -> None:
    for wrong in (None, "console", metrics.ConsoleMetricHandler):
        with pytest.raises(TypeError, match=r"emit\(metric_data\)"):
            metrics.configure(wrong)  # type: ignore[arg-type]


def test_the_console_prints_as_the_document_says(capsys: pytest.CaptureFixture[str]) -> None:
    """Seed 003: `[1574213883.4182858][my_app]: my_metric=<value>`."""
    metrics.configure(metrics.ConsoleMetricsHandler(), group="my_app")
    metrics.put_metric("my_metric", 7, "my_app")
    assert metrics.flush()
    assert re.fullmatch(r"\[\d+\.\d+\]\[my_app\]: my_metric=7\n", capsys.readouterr().out)
    assert metrics.ConsoleMetricsHandler is metrics.ConsoleMetricHandler


def test_the_documents_own_handler_works(capsys: pytest.CaptureFixture[str]) -> None:
    """The toy example of seed 003, with the name that it lost filled in."""

    class StdoutMetricHandler(metrics.MetricHandler):
        def emit(self, metric_data: metrics.MetricData) -> None:
            ts = metric_data.timestamp
            group = metric_data.group_name
            name = metric_data.name
            value = metric_data.value
            print(f"[{ts}][{group}]: {name}={value}")

    metrics.configure(StdoutMetricHandler(), group="my_app")
    metrics.put_metric("my_metric", 3, "my_app")
    assert metrics.flush()
    assert capsys.readouterr().out.endswith("][my_app]: my_metric=3\n")


@metrics.prof
def plain() -> str:
    """Its doc."""
    return "result"


@metrics.prof(group="agent")
def grouped() -> None:
    raise KeyError("passes through")


@metrics.prof("agent")
def short() -> None: ...


@metrics.profile
def old() -> None: ...


@metrics.profile("agent")
def old_grouped() -> None: ...


class Trainer:
    @metrics.prof
    def step(self, n: int, *, extra: int = 0) -> int:
        return n + extra

    @staticmethod
    @metrics.prof
    def still() -> None: ...


FIVE = ("", ".duration.ms", ".count", ".success")


def test_prof_names_a_plain_function_after_its_leaf_module() -> None:
    seen = Recorder()
    metrics.configure(seen)
    assert plain() == "result"
    assert plain.__name__ == "plain"
    assert plain.__doc__ == "Its doc."
    assert seen.names() == [f"test_metrics.plain{end}" for end in FIVE]
    assert all(one.group_name == "torchelastic" for one in seen.seen)


def test_prof_names_a_method_by_its_qualified_name() -> None:
    seen = Recorder()
    metrics.configure(seen)
    assert Trainer().step(1, extra=2) == 3
    Trainer.still()
    expected = [f"Trainer.step{end}" for end in FIVE] + [f"Trainer.still{end}" for end in FIVE]
    assert seen.names() == expected


def test_prof_passes_exceptions_on_and_counts_a_failure() -> None:
    seen, agent = Recorder(), Recorder()
    metrics.configure(seen)
    metrics.configure(agent, "agent")
    with pytest.raises(KeyError, match="passes through"):
        grouped()
    name = "test_metrics.grouped"
    assert agent.names() == [name, f"{name}.duration.ms", f"{name}.count", f"{name}.failure"]
    assert dict(agent.pairs())[f"{name}.failure"] == 1
    assert seen.seen == []


def test_prof_with_every_way_to_give_a_group() -> None:
    seen, agent = Recorder(), Recorder()
    metrics.configure(seen)
    metrics.configure(agent, "agent")
    short()
    old()
    old_grouped()
    assert seen.names() == [f"test_metrics.old{end}" for end in FIVE]
    expected = [f"test_metrics.{name}{end}" for name in ("short", "old_grouped") for end in FIVE]
    assert agent.names() == expected
    with pytest.raises(TypeError, match="decorates a function"):
        metrics.prof(group="agent")(3)  # type: ignore[type-var]


def test_prof_measures_the_call_in_milliseconds() -> None:
    seen = Recorder()
    metrics.configure(seen)
    waited = threading.Event()

    @metrics.prof
    def wait() -> None:
        waited.wait(0.05)

    @metrics.prof
    async def wait_async() -> None:
        await asyncio.sleep(0.05)

    wait()
    asyncio.run(wait_async())
    durations = [value for name, value in seen.pairs() if name.endswith(".duration.ms")]
    assert len(durations) == 2
    assert all(value >= 49 for value in durations)  # at least what it slept; never a limit above


class Stuck(metrics.MetricHandler):
    """Blocks until it is let go."""

    def __init__(self) -> None:
        self.entered = threading.Event()
        self.go = threading.Event()
        self.seen = 0

    def emit(self, metric_data: metrics.MetricData) -> None:
        self.entered.set()
        self.go.wait()
        self.seen += 1


def counts_of(handler: object) -> _outlet.Counts:
    (found,) = [one for one in metrics.counts() if one.handler is handler]
    return found


def test_a_handler_that_blocks_costs_metrics_and_never_the_caller() -> None:
    stuck, fine = Stuck(), Recorder()
    metrics.configure(stuck, "stuck")
    metrics.configure(fine)
    metrics.put_metric("a", 0, "stuck")
    assert stuck.entered.wait(10)
    for n in range(_outlet.CAPACITY + 5):
        metrics.put_metric("a", n, "stuck")
    metrics.put_metric("b", 1)
    assert not metrics.flush(0.01)
    counts = counts_of(stuck)
    assert (counts.emitted, counts.dropped, counts.waiting) == (0, 5, _outlet.CAPACITY + 1)
    stuck.go.set()
    assert metrics.flush(30)
    assert fine.names() == ["b"]
    assert stuck.seen == _outlet.CAPACITY + 1
    assert counts_of(stuck).emitted == _outlet.CAPACITY + 1


@pytest.mark.parametrize("kind", [OSError, SystemExit])
def test_a_handler_that_fails_is_counted_and_told_once(
    kind: type[BaseException], capsys: pytest.CaptureFixture[str]
) -> None:
    class Failing(metrics.MetricHandler):
        def emit(self, metric_data: metrics.MetricData) -> None:
            raise kind("no room")

    class FailingAtOnce(Failing):
        at_once = True

    for handler in (Failing(), FailingAtOnce()):
        metrics.configure(handler)
        for _ in range(3):
            metrics.put_metric("a", 1)
        assert metrics.flush()
        assert counts_of(handler).failed == 3
        told = capsys.readouterr().err
        assert told.count("no room") == 1
        assert "counts()" in told


def test_an_interrupt_is_the_users() -> None:
    class Interrupted(metrics.MetricHandler):
        at_once = True

        def emit(self, metric_data: metrics.MetricData) -> None:
            raise KeyboardInterrupt

    metrics.configure(Interrupted())
    with pytest.raises(KeyboardInterrupt):
        metrics.put_metric("a", 1)


def test_a_fan_out_holds_nobody_up() -> None:
    stuck, first, last = Stuck(), Recorder(), Recorder()

    class Failing(metrics.MetricHandler):
        def emit(self, metric_data: metrics.MetricData) -> None:
            raise RuntimeError

    metrics.configure(metrics.FanOutMetricHandler(first, Failing(), stuck, last))
    metrics.put_metric("a", 1)
    metrics.put_metric("b", 2)
    assert stuck.entered.wait(10)
    stuck.go.set()
    assert first.pairs() == last.pairs() == [("a", 1), ("b", 2)]
    with pytest.raises(TypeError, match="at least one"):
        metrics.FanOutMetricHandler()


def test_json_lines_are_read_back_exactly(tmp_path: Path) -> None:
    path = tmp_path / "metrics.jsonl"
    values = [1, 0.1, -1e300, 2**70, math.inf, -math.inf, math.nan, True]
    metrics.configure(metrics.JSONLinesMetricHandler(path), "g")
    for value in values:
        metrics.put_metric("näme\n", value, "g")
    assert metrics.flush()
    lines = [json.loads(line) for line in path.read_text("utf-8").splitlines()]
    assert all(line["group_name"] == "g" and line["name"] == "näme\n" for line in lines)
    read = [line["value"] for line in lines]
    assert read[:4] == values[:4]
    assert read[4:] == ["Infinity", "-Infinity", "NaN", True]
    stream = io.StringIO()
    metrics.configure(metrics.JSONLinesMetricHandler(stream), "g")
    metrics.put_metric("a", 1, "g")
    assert metrics.flush()
    assert json.loads(stream.getvalue())["name"] == "a"


def test_a_run_gets_metrics_as_series(run: kymogram.Run, spool: Path) -> None:
    metrics.configure(metrics.KymogramMetricHandler())
    metrics.put_metric("loss", 0.5, "train")
    metrics.put_metric("loss", 0.25, "train")
    metrics.put_metric("f.<locals>.g.count", 1)
    metrics.put_metric("50% a=b", 1, "odd group")
    (folder,) = reader.writers(spool)
    found: dict[str, tuple[dict[str, str], list[float]]] = {}
    for point in reader.points(reader.records(folder)):
        found.setdefault(point.metric, (point.labels, []))[1].append(float(point.value))
    assert found == {
        "train/loss": ({}, [0.5, 0.25]),
        "torchelastic/f._locals_.g.count": ({"exact_name": "torchelastic/f.<locals>.g.count"}, [1]),
        "odd_group/50%_a_b": ({"exact_name": "odd group/50%25 a%3Db"}, [1]),
    }


def test_series_names_are_those_of_go() -> None:
    table = json.loads((REPOSITORY / "testdata/metrics/names.json").read_text("utf-8"))
    for row in table:
        labels = {"exact_name": row["exact"]} if row["exact"] else None
        assert handlers.series_of(row["group"], row["name"]) == (row["series"], labels)


def test_without_a_run_metrics_are_counted_as_failed(capsys: pytest.CaptureFixture[str]) -> None:
    handler = metrics.KymogramMetricHandler()
    metrics.configure(handler)
    metrics.put_metric("a", 1)
    assert counts_of(handler).failed == 1
    assert "init()" in capsys.readouterr().err


def run_python(code: str) -> subprocess.CompletedProcess[str]:
    source = Path(kymogram.__file__).parents[1]
    environment = dict(os.environ, PYTHONPATH=str(source))
    return subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, timeout=60, env=environment
    )


def test_what_was_published_is_out_when_the_program_ends() -> None:
    done = run_python(
        "import kymogram.metrics as m\n"
        "m.configure(m.ConsoleMetricHandler())\n"
        "for n in range(100): m.put_metric('a', n)\n"
    )
    assert done.stdout.count("]: a=") == 100
    assert done.returncode == 0


def test_a_handler_that_blocks_for_ever_ends_with_the_program() -> None:
    done = run_python(
        "import threading, kymogram.metrics as m\n"
        "class H(m.MetricHandler):\n"
        "    def emit(self, data): threading.Event().wait()\n"
        "m.configure(H())\n"
        "for n in range(3): m.put_metric('a', n)\n"
    )
    assert done.returncode == 0
    assert "are lost" in done.stderr


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system has no fork")
def test_a_forked_child_publishes_its_own() -> None:
    done = run_python(
        "import os, kymogram.metrics as m\n"
        "m.configure(m.ConsoleMetricHandler())\n"
        "m.put_metric('before', 1); m.flush()\n"
        "pid = os.fork()\n"
        "m.put_metric('after', 1)\n"
        "m.flush()\n"
        "if pid: os.waitpid(pid, 0)\n"
        "else: os._exit(0)\n"
    )
    assert done.stdout.count("before=1") == 1
    assert done.stdout.count("after=1") == 2


def test_every_public_name_of_torchelastic_is_here() -> None:
    theirs: Any = pytest.importorskip(
        "torchelastic.metrics", reason="torchelastic is not installed: make .venv/.dev"
    )
    names = [name for name in vars(theirs) if not name.startswith("_")]
    assert [name for name in names if not hasattr(metrics, name)] == ["Optional"]
    public = [name for name in vars(theirs.api) if not name.startswith("_")]
    missing = [name for name in public if not hasattr(api, name)]
    assert missing == ["namedtuple", "Dict", "Optional"]
