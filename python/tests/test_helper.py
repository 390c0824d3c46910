"""The helper thread looks after the agent."""

from __future__ import annotations

import os
import struct
import threading
import time
from pathlib import Path

import pytest

import kymogram
from kymogram._delivery import agent
from kymogram._delivery.helper import Helper
from kymogram._say import voice
from kymogram._spool import folders
from kymogram._spool.writer import Writer

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
    monkeypatch.setattr(agent, "binary", lambda: "/bin/true")
    monkeypatch.setattr(agent, "start", lambda root, _path: started.append(root))
    helper = Helper(run, run._logger.writer)
    (folder,) = reader.writers(spool)
    deliver(folder, 0)
    lock = folders.flock(str(spool / "agent.lock"))
    assert lock is not None
    helper.look()
    assert started == []
    os.close(lock)
    helper.look()
    assert started == [str(spool)]
    helper.look()  # it takes a moment to come up
    assert started == [str(spool)]


def test_a_helper_outlives_what_it_could_not_make(
    run: kymogram.Run, spool: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It looks after the agent also where there was no memory for a segment made ahead."""

    def none(*_: object) -> None:
        raise MemoryError

    monkeypatch.setattr(Writer, "_make_ahead", none)
    helper = run._helper
    assert helper is not None
    assert run._logger is not None
    run._logger.writer.rotated.set()
    looked = threading.Event()
    monkeypatch.setattr(helper, "look", looked.set)
    assert looked.wait(10)  # in the next round
    assert helper._thread.is_alive()


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


def test_no_folder_can_hold_the_spool(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Said before the training has cost anything, with every folder and why."""
    file = tmp_path / "file"
    file.touch()
    places = [str(file), str(file / "below")]
    monkeypatch.setattr(folders, "candidates", lambda _environ: places)
    with pytest.raises(kymogram.KymogramLoggerInitError, match="KYMOGRAM_SPOOL_DIR") as error:
        kymogram.init(log_level="OFF")
    for path in places:
        assert path in str(error.value)


def test_want_of_room_is_said_once(
    run: kymogram.Run, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    assert run._helper is not None
    assert run._logger is not None
    run._helper.stop()
    run._helper._thread.join()
    writer = run._logger.writer
    monkeypatch.setattr(voice, "_least", 0)
    monkeypatch.setattr(voice, "_said", set())
    monkeypatch.setattr(writer, "_reserve", lambda need: None)
    monkeypatch.setattr(writer, "_ring_limit", 1 << 19)
    helper = Helper(run, writer)
    for n in (10_000, 20_000):
        for i in range(n):
            kymogram.log("a", float(i))
        helper.look()
        helper.look()
    said = capsys.readouterr().err
    assert said.count("new points wait in memory") == 1
    assert said.count("points dropped so far") == 1
    assert run.get_metrics().float_points_dropped > 0


def test_close_tells_of_a_taken_name(spool: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The open was answered between the helper's last look and the end."""
    run = kymogram.init(run_name="mine")
    assert run._helper is not None
    run._helper.stop()
    run._helper._thread.join()
    (folder,) = reader.writers(spool)
    deliver(folder, 1000, answer={"run": "R", "run_name": "mine-2", "linked_from": "mine"})
    run.close()
    assert (
        "the name 'mine' was taken; the points go to the new run 'mine-2'"
        in capsys.readouterr().err
    )
