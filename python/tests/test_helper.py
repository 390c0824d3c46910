"""The helper thread looks after the agent."""

from __future__ import annotations

import os
import struct
import time
from pathlib import Path

import pytest

import kymogram
from kymogram import _agent, _spool
from kymogram._helper import Helper

from . import reader
from .test_run import deliver


def test_an_agent_that_died_just_now_is_started_again(
    run: kymogram.Run, spool: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its lock is free, though its last heartbeat is young."""
    assert run._helper is not None
    assert run._logger is not None
    run._helper.stop()
    run._helper._thread.join()
    started: list[str] = []
    monkeypatch.setattr(_agent, "binary", lambda: "/bin/true")
    monkeypatch.setattr(_agent, "start", lambda root, _path: started.append(root))
    helper = Helper(run, run._logger.writer)
    (folder,) = reader.writers(spool)
    deliver(folder, 0)
    lock = _spool.flock(str(spool / "agent.lock"))
    assert lock is not None
    helper.look()
    assert started == []
    os.close(lock)
    helper.look()
    assert started == [str(spool)]
    helper.look()  # it takes a moment to come up
    assert started == [str(spool)]


def test_a_heartbeat_of_the_future_is_no_life(run: kymogram.Run, spool: Path) -> None:
    """The clock was set back after it."""
    assert run._logger is not None
    writer = run._logger.writer
    (folder,) = reader.writers(spool)
    deliver(folder, 0)
    assert writer.status().alive
    for hours in (-1, 1):
        with (folder / "status").open("r+b") as file:
            file.seek(8)
            file.write(struct.pack("<Q", time.time_ns() + hours * 3_600_000_000_000))
        assert not writer.status().alive


@pytest.mark.parametrize("value", ["x", -1, float("nan")])
def test_a_timeout_is_a_number_of_seconds(value: float) -> None:
    with pytest.raises(kymogram.KymogramValidationError, match="close_timeout is a number of sec"):
        kymogram.init(close_timeout=value)
    run = kymogram.init(run_name="run", log_level="OFF")
    with pytest.raises(kymogram.KymogramValidationError, match="close_timeout is a number of sec"):
        run.close(value)
    kymogram.log("a", 1.0)  # it is open still
