"""get_last_step is right or it raises: a restart replaces no point of the life before."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from pathlib import Path
from threading import Timer

import pytest

import kymogram
from kymogram._exceptions import KymogramTimeoutError
from kymogram._points.series import Starts

from .test_agent import BINARY, Server, pytestmark, train  # noqa: F401

RESUME = """
last = kymogram.get_last_step('loss')
start = 0 if last is None else last + 1
for step in range(start, start + 10): kymogram.log('loss', 1.0, step=step)
"""


@pytest.fixture
def away(tmp_path: Path) -> Server:
    """A server that is not started yet."""
    return Server(tmp_path / "data")


@pytest.fixture
def resumed() -> Iterator[kymogram.Run]:
    """A run that may have points already; the server is away."""
    yield kymogram.init(run_name="r", resume_strategy="allow", close_timeout=0)
    kymogram.close()


def test_a_new_job_knows_without_the_server(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nobody else can have logged to its run, also where an earlier job's has the name."""
    for _ in range(2):
        for name in ("KYMOGRAM_ORCHESTRATION_ID", "METRANA_ORCHESTRATION_ID"):
            monkeypatch.delenv(name, raising=False)  # what init() hands to children
        kymogram.init(run_name="r", init_timeout_secs=60)
        began = time.monotonic()
        assert kymogram.get_last_step("loss") is None
        kymogram.log("loss", [1.0, 2.0])
        assert kymogram.get_last_step("loss") == 1
        assert time.monotonic() - began < 5
        kymogram.close(0)


def test_a_child_of_a_new_job_does_not_know() -> None:
    """Its parent may have logged."""
    parent = kymogram.init(run_name="r", init_timeout_secs=0.1)
    kymogram.log("loss", 1.0)
    if (child := os.fork()) == 0:
        try:
            kymogram.get_last_step("loss")
        except KymogramTimeoutError:
            os._exit(7)
        os._exit(0)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 7
    assert parent.get_last_step("loss") == 0
    kymogram.close(0)


def test_nobody_knows(resumed: kymogram.Run) -> None:
    """Without an answer there is none: the error says how long was waited and for what."""
    run = resumed
    run.settings.init_timeout = 0.3
    began = time.monotonic()
    with pytest.raises(KymogramTimeoutError, match="'loss'.*0.3 s.*init_timeout_secs"):
        run.get_last_step("loss")
    assert time.monotonic() - began >= 0.2
    kymogram.log("loss", 1.0)  # from a start that only the server knows
    with pytest.raises(KymogramTimeoutError, match="wait in the spool"):
        run.get_last_step("loss")
    kymogram.log("loss", 1.0, step=70)
    assert run.get_last_step("loss") == 70


def test_more_series_than_the_open_lists(resumed: kymogram.Run) -> None:
    """A series that an incomplete list lacks is not one without points."""
    run = resumed
    run.settings.init_timeout = 0.1
    run.logger().starts = Starts({"starts": [{"metric": "a", "scale": "ML_STEP", "next": 3}]})
    assert run.get_last_step("a") == 2
    with pytest.raises(KymogramTimeoutError):
        run.get_last_step("b")


def test_a_restart_waits_for_the_server(
    away: Server, spool: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Both lives begin without the server; the second goes on after the first."""
    monkeypatch.setenv("KYMOGRAM_RESUME_STRATEGY", "allow")
    train(away, "for i in range(1000): kymogram.log('loss', 0.0)")
    starter = Timer(2.0, away.start)
    starter.start()
    try:
        train(away, RESUME + "assert start == 1000, start\nassert kymogram.flush(30)")
        starter.join()
        points = away.points("loss", attempt="all")
        assert points["step"] == list(range(1010))
        assert points["value"] == [0.0] * 1000 + [1.0] * 10
        assert away.points("loss")["step"] == list(range(1010))
    finally:
        starter.join()
        away.stop()
