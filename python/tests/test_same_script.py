"""A script with a fixed name starts twice: the same outcome with the server up and away."""

from __future__ import annotations

import os
from typing import Any

import pytest

import kymogram

from .rig import Served


def life(**more: Any) -> str:
    """One start of the script, as a job of its own; the run's name."""
    for name in ("KYMOGRAM_ORCHESTRATION_ID", "METRANA_ORCHESTRATION_ID"):
        os.environ.pop(name, None)
    with kymogram.init(run_name="hello", **more) as run:
        run.log("loss", 1.0)
        return run.name


def names(served: Served) -> list[str]:
    return sorted(run.name for run in served.client.runs("default/default"))


def test_the_server_is_up(served: Served, capsys: pytest.CaptureFixture[str]) -> None:
    assert [life(), life(), life()] == ["hello", "hello-2", "hello-3"]
    said = capsys.readouterr().err
    assert said.count('resume_strategy="allow"') == 2
    assert "hello-2" in said
    served.sync()
    assert names(served) == ["hello", "hello-2", "hello-3"]


def test_the_server_is_away(served: Served) -> None:
    for _ in range(3):
        life(init_mode="offline")
    served.sync()
    assert names(served) == ["hello", "hello-2", "hello-3"]


def test_a_strategy_was_chosen(served: Served, monkeypatch: pytest.MonkeyPatch) -> None:
    """Metrana's error stays, by argument and by variable; "allow" joins."""
    life()
    with pytest.raises(kymogram.KymogramOrchestrationIdMismatchError):
        life(resume_strategy="never")
    assert life(resume_strategy="allow") == "hello"
    monkeypatch.setenv("METRANA_RESUME_STRATEGY", "never")
    with pytest.raises(kymogram.KymogramOrchestrationIdMismatchError):
        life()


def test_ranks_of_one_job_are_not_split(served: Served, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where each rank made up a job's id, a second run would be half of the job."""
    monkeypatch.setenv("RANK", "0")
    life()
    monkeypatch.setenv("RANK", "1")
    with pytest.raises(kymogram.KymogramOrchestrationIdMismatchError):
        life()
    assert life(orchestration_id="job-2") == "hello-2"
