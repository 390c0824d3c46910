"""The helper thread looks after the agent."""

from __future__ import annotations

import os
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
