"""A script with a fixed name starts again: the same with the server up, away and slow."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any

import pytest

import kymogram
from kymogram._adapters import Door
from kymogram.tensorboard import SummaryWriter

from .rig import Proxy, Served

Script = Callable[[float], None]


def life(**more: Any) -> str:
    """One start of the script, as a job of its own; the run's name."""
    for name in ("KYMOGRAM_ORCHESTRATION_ID", "METRANA_ORCHESTRATION_ID"):
        os.environ.pop(name, None)
    with kymogram.init(run_name="hello", **more) as run:
        run.log("loss", 1.0)
        return run.name


def init(value: float) -> None:
    with kymogram.init(run_name="hello") as run:
        run.log("mark", value)


def summary_writer(value: float) -> None:
    with SummaryWriter("runs/hello") as writer:
        writer.add_scalar("mark", value, 0)


def door(value: float) -> None:
    """How the other adapters open a run."""
    found = Door({"run_name": "hello"})
    found.open()
    found.numbers({"mark": value}, 0)
    found.close()


def starts_again(
    served: Served, monkeypatch: pytest.MonkeyPatch, script: Script, weather: str
) -> None:
    """Three starts are three runs with their own points, however the server is."""
    proxy = Proxy(served.address, late=1.2 if weather == "slow" else 0)
    proxy.reached = weather != "away"
    monkeypatch.setenv("KYMOGRAM_SERVER", proxy.address)
    for value in (1.0, 2.0, 3.0):
        for name in ("KYMOGRAM_ORCHESTRATION_ID", "METRANA_ORCHESTRATION_ID"):
            os.environ.pop(name, None)
        script(value)
    proxy.reached, proxy.late = True, 0
    served.sync()
    found = {run.name: run for run in served.client.runs("default/default")}
    assert sorted(found) == ["hello", "hello-2", "hello-3"]
    for name, value in (("hello", 1.0), ("hello-2", 2.0), ("hello-3", 3.0)):
        assert found[name].status == "finished"
        assert served.values("mark", found[name]) == {0: value}
    proxy.close()


def names(served: Served) -> list[str]:
    return sorted(run.name for run in served.client.runs("default/default"))


@pytest.mark.parametrize("weather", ["up", "away", "slow"])
@pytest.mark.parametrize("script", [init, summary_writer, door])
def test_the_same_outcome(
    served: Served, monkeypatch: pytest.MonkeyPatch, script: Script, weather: str
) -> None:
    starts_again(served, monkeypatch, script, weather)


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
