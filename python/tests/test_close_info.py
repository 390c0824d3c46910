"""What close() says of other writers in the spool, with the real agent's own writer there."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

import kymogram
from kymogram._delivery import agent as _agent
from kymogram._spool import folders

from . import reader, rig
from .conftest import closed_port

pytestmark = pytest.mark.skipif(rig.BINARY is None, reason=rig.NO_BINARY)


@pytest.fixture
def agent(spool: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """The real agent; it is killed in the test, or ended with it."""
    monkeypatch.setattr(_agent, "binary", lambda: str(rig.BINARY))
    yield
    kill_agent(spool)


def kill_agent(spool: Path) -> None:
    """End the agent of a spool."""
    pid = folders.read_json(str(spool / "agent.json")).get("pid")
    if pid and _agent.held(str(spool)):
        os.kill(int(pid), signal.SIGKILL)
    until_free = time.monotonic() + 10
    while _agent.held(str(spool)) and time.monotonic() < until_free:
        time.sleep(0.01)


def test_the_machines_metrics_are_no_foreign_spool(
    agent: None, spool: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An agent that was killed leaves the writer that it made for this very run."""
    kymogram.init(
        run_name="r",
        server=f"http://127.0.0.1:{closed_port()}",
        capture_system_metrics=True,
        system_metrics_interval_secs=0.1,
        log_level="OFF",
    )
    kymogram.log("a", 1.0)
    end = time.monotonic() + 20
    while len(reader.writers(spool)) < 2 and time.monotonic() < end:
        time.sleep(0.02)
    monkeypatch.setattr(_agent, "binary", lambda: None)
    kill_agent(spool)
    over = folders.others(str(spool))
    assert len(over) == 1  # the agent's, which is over
    assert folders.read_json(os.path.join(over[0], "open.json"))["open"]["sdk"].startswith(
        "system/"
    )
    info = kymogram.close(0)
    assert info is not None
    assert info.has_undelivered_spool
    assert info.foreign_spools == []

    kymogram.init(run_name="another", init_mode="offline", log_level="OFF")
    second = kymogram.close(0)
    assert second is not None
    assert len(second.foreign_spools) == 2  # to another run they are foreign
