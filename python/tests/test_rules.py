"""Steps that fall, steps that are given, environments that two processes log, names at the edge."""

from __future__ import annotations

import math
import multiprocessing
import os
from pathlib import Path
from typing import Any

import numpy
import pytest

import kymogram
from kymogram.utils.exceptions import MetranaValidationError

from . import reader


def axes(spool: Path, metric: str) -> list[tuple[Any, ...]]:
    names = ("rl_step", "episode", "env_step")
    return [
        (point.labels["env_id"], *(point.axes.get(name) for name in names), point.value)
        for point in reader.all_points(spool)
        if point.metric == metric
    ]


def falls(capsys: pytest.CaptureFixture[str]) -> list[str]:
    return [line for line in capsys.readouterr().err.splitlines() if "do not rise" in line]


def test_steps_that_fall_are_told_once_and_kept(
    spool: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    kymogram.init(run_name="r", log_level="WARNING")
    for step in (1, 2, 2, 5, 3, 9):
        kymogram.log("fall/one", 1.0, step=step)
    for step in (1, 0, 2):
        kymogram.log({"fall/two": 1.0, "fall/three": 2.0}, step=step)
    kymogram.log("fall/four", [1, 2, 3], step=[4, 4, 5])
    for step in (3, 1):
        kymogram.log_distributed("fall/shared", 1.0, step=step)
    for _ in range(3):
        kymogram.log("fall/auto", 1.0)
    kymogram.log("fall/auto", 1.0, step=1)
    told = falls(capsys)
    assert len(told) == 5
    assert not any("shared" in line for line in told)
    assert kymogram.get_metrics().steps_not_rising == 2 + 2 + 1 + 1
    kept = [p.axes["step"] for p in reader.all_points(spool) if p.metric == "fall/one"]
    assert kept == [1, 2, 2, 5, 3, 9]


def test_a_restart_may_go_back(spool: Path, capsys: pytest.CaptureFixture[str]) -> None:
    from kymogram._points.series import Starts

    run = kymogram.init(run_name="r", log_level="WARNING")
    starts = [{"metric": "loss/back", "scale": "ML_STEP", "next": 100}]
    run.logger().starts = Starts({"starts": starts, "starts_complete": True})
    kymogram.log("loss/back", 1.0, step=50)
    kymogram.log("loss/back", 1.0, step=51)
    assert falls(capsys) == []


def test_rl_step_that_falls(spool: Path, capsys: pytest.CaptureFixture[str]) -> None:
    kymogram.init(run_name="r", log_level="WARNING")
    for update in (1, 2, 1):
        kymogram.log_rl_environment_step("fall/rl", [1.0, 2.0], update, env_id=["a", "b"])
    assert "went back from 2 to 1" in capsys.readouterr().err
    assert kymogram.get_metrics().steps_not_rising == 1


def test_given_environment_steps(run: kymogram.Run, spool: Path) -> None:
    log = kymogram.log_rl_environment_step
    log("r", [1.0, 2.0], 0, env_id=["a", "b"], episode=[3, 4], env_step=[7, 9])
    log("r", [3.0, 4.0], 1, env_id=["a", "b"], episode=[3, 4])  # goes on from there
    log("s", numpy.ones((2, 3)), 0, env_id=["a", "b"], env_step=5)
    log("t", [1.0, 2.0], 0, env_step=[4, 8])
    assert axes(spool, "r") == [
        ("a", 0, 3, 7, 1.0),
        ("b", 0, 4, 9, 2.0),
        ("a", 1, 3, 8, 3.0),
        ("b", 1, 4, 10, 4.0),
    ]
    assert [step for _, _, _, step, _ in axes(spool, "s")] == [5, 6, 7, 5, 6, 7]
    assert [step for _, _, _, step, _ in axes(spool, "t")] == [4, 8]
    with pytest.raises(MetranaValidationError, match="env_step has 3 entries"):
        log("r", [1.0, 2.0], 2, env_id=["a", "b"], env_step=[1, 2, 3])


@pytest.mark.parametrize("rows", [1, 3])
def test_episodes_from_one(run: kymogram.Run, spool: Path, rows: int) -> None:
    for update, episode in enumerate((0, 0, 1)):
        value = numpy.ones((2, rows))
        kymogram.log_rl_environment_step(
            "r", value, update, env_id=["a", "b"], episode=[episode] * 2, auto_start_from_one=True
        )
    found = [(episode, step) for env, _, episode, step, _ in axes(spool, "r") if env == "a"]
    first = [(0, 1 + i) for i in range(2 * rows)]
    assert found == [*first, *((1, 1 + i) for i in range(rows))]


def log_in_child(env: str, done: Any) -> None:
    kymogram.log_rl_environment_step("reward", 1.0, 0, env_id=env)
    done.send(kymogram.get_metrics().shared_environments)
    kymogram.close(0)
    os._exit(0)


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system has no fork")
@pytest.mark.parametrize(("env", "shared"), [("env0", 1), ("env1", 0)])
def test_an_environment_of_two_processes(
    spool: Path, env: str, shared: int, capfd: pytest.CaptureFixture[str]
) -> None:
    kymogram.init(run_name="r", log_level="WARNING")
    kymogram.log_rl_environment_step("reward", 1.0, 0, env_id="env0")
    context = multiprocessing.get_context("fork")
    here, there = context.Pipe()
    child = context.Process(target=log_in_child, args=(env, there))
    child.start()
    assert here.poll(30)
    assert here.recv() == shared
    child.join(30)
    assert ("also logged by process" in capfd.readouterr().err) is bool(shared)
    assert kymogram.get_metrics().shared_environments == 0
    assert len(axes(spool, "reward")) == 2  # nothing is lost


def test_names_that_only_the_document_forbids(
    spool: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    kymogram.init(run_name="r", log_level="WARNING", config={"größe": 1})
    kymogram.log_attributes("größe", 2)
    kymogram.log_rl_episode("e", 1.0, 0, env_id="a=1&b")
    kymogram.log("a//b/", 1.0, step=True)
    said = capsys.readouterr().err
    assert said.count("'ö'") == 1
    assert "step is True, taken as 1" in said
    assert ("a=1&b", 0, None, None, 1.0) in axes(spool, "e")


def test_evaluation_has_three_states(run: kymogram.Run, spool: Path) -> None:
    for evaluation in (None, False, True):
        kymogram.log("a", 1.0, evaluation=evaluation)
    labels = [point.labels for point in reader.all_points(spool)]
    assert labels == [{}, {}, {"evaluation": "true"}]


def test_default_dtype(spool: Path) -> None:
    kymogram.init(run_name="r", log_level="OFF", default_dtype="int64")
    kymogram.log("n", 2**62 + 1)
    kymogram.log("x", 0.5, dtype="float32")
    assert [point.value for point in reader.all_points(spool)] == [2**62 + 1, 0.5]


def test_a_fork_goes_on_from_its_parent(served: Any) -> None:
    kymogram.init(run_name="parent", log_level="OFF")
    kymogram.log("loss", [1.0] * 10)
    kymogram.close(0)
    served.sync()
    fork = kymogram.init(run_name="fork", fork_from_run="parent", fork_at_step=5, log_level="OFF")
    assert kymogram.get_last_step("loss") == 5
    kymogram.log("loss", 0.5)
    kymogram.log("new", 0.5)
    kymogram.close(0)
    served.sync()
    found = served.client.run(fork.id)
    assert served.values("loss", found) == {6: 0.5}
    assert served.values("new", found) == {0: 0.5}


def test_config_of_offline_ranks(served: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SLURM_JOB_ID", "7")
    for rank, seed in enumerate((1, 2, 1)):
        monkeypatch.setenv("RANK", str(rank))
        config = {"lr": 0.1, "seed": seed}
        kymogram.init(run_name="r", init_mode="offline", config=config, log_level="OFF")
        kymogram.log_distributed("loss", 1.0, step=rank)
        kymogram.close(0)
    run = served.only()
    attributes = run.attributes()
    assert attributes["config/seed"] in (1, 2)
    ranks = {path: value for path, value in attributes.items() if path.startswith("ranks/")}
    want = {"ranks/1/config/seed": 2}
    if attributes["config/seed"] == 2:  # rank 1 was delivered first
        want = {"ranks/0/config/seed": 1, "ranks/2/config/seed": 1}
    assert ranks == want


def test_a_call_that_fails_leaves_no_series_behind(run: kymogram.Run, spool: Path) -> None:
    """What the first call asked for (a kind, a way of counting) is not the series' yet."""
    wrong: Any = "text"
    fails: list[Any] = [
        lambda: kymogram.log("a", wrong, dtype="int64"),
        lambda: kymogram.log("a", 1, step=-1, dtype="int64"),
        lambda: kymogram.log_distributed("a", wrong, step=1),
        lambda: kymogram.log({"b": 1, "a": wrong}, dtype="int64"),
        lambda: kymogram.log_text("a", "text", timestamp="now"),
        lambda: kymogram.log_histogram("b", ([1], [0, 1]), step=-1),
        lambda: kymogram.log_rl_episode("a", wrong, 0, dtype="int64"),
        lambda: kymogram.log_rl_episode("a", [1, 2], 0, episode=2**62),
        lambda: kymogram.log_rl_environment_step("r", wrong, 0, dtype="int64"),
        lambda: kymogram.log_rl_environment_step(
            "r", [1, 2], 0, env_id=["x", "y"], episode=[-1, 0], auto_start_from_one=True
        ),
        lambda: kymogram.log_rl_environment_step("r", [1, 2], 0, env_step=2**62),
    ]
    for fail in fails:
        with pytest.raises(MetranaValidationError):
            fail()
    assert reader.all_points(spool) == []
    kymogram.log({"a": 0.5, "b": 0.5})
    kymogram.log_rl_episode("a", 0.5, 0)
    for _ in range(2):
        kymogram.log_rl_environment_step("r", [0.5, 1.5], 0, env_id=["x", "y"], episode=[1, 2])
    found = [(p.metric, p.scale, p.axes["step"], p.value) for p in reader.all_points(spool)]
    assert found[:3] == [
        ("a", "ML_STEP", 0, 0.5),
        ("b", "ML_STEP", 0, 0.5),
        ("a", "EPISODE", 0, 0.5),
    ]
    assert axes(spool, "r") == [
        ("x", 0, 1, 0, 0.5),
        ("y", 0, 2, 0, 1.5),
        ("x", 0, 1, 1, 0.5),
        ("y", 0, 2, 1, 1.5),
    ]


def test_labels_as_pairs_and_no_name(run: kymogram.Run, spool: Path) -> None:
    pairs: Any = [("k", "v")]
    kymogram.log("a", 1.0, labels=pairs)
    pairs = iter(pairs)
    kymogram.log({"a": 1.0, "b": 1.0}, labels=pairs)
    nothing: Any = None
    with pytest.raises(MetranaValidationError, match="metric name"):
        kymogram.log(nothing, 1.0)
    assert [point.labels for point in reader.all_points(spool)] == [{"k": "v"}] * 3


def test_steps_that_can_be_read_once(run: kymogram.Run, spool: Path) -> None:
    kymogram.log({"a": [1.0, 2.0], "b": [3.0, 4.0]}, step=iter([5, 7]), timestamp=iter([1, 2]))
    found = [(p.metric, p.axes["step"], p.time_ns, p.value) for p in reader.all_points(spool)]
    assert found == [
        ("a", 5, 1_000_000, 1.0),
        ("a", 7, 2_000_000, 2.0),
        ("b", 5, 1_000_000, 3.0),
        ("b", 7, 2_000_000, 4.0),
    ]


@pytest.mark.parametrize("bad", [None, "1.5", 10**400, b"1", 1j])
def test_arrays_of_objects_hold_numbers(run: kymogram.Run, spool: Path, bad: object) -> None:
    values: Any = (numpy.array([0.5, bad], object), [0.5, bad])
    for value in values:
        with pytest.raises(MetranaValidationError, match="'a'"):
            kymogram.log("a", value)
    with pytest.raises(MetranaValidationError, match="bytearray"):
        kymogram.log("a", bytearray(b"1"))
    kymogram.log("a", numpy.array([1, 2.5, numpy.float32(3), True], object))
    assert [point.value for point in reader.all_points(spool)] == [1.0, 2.5, 3.0, 1.0]


def test_episodes_are_below_2_62(run: kymogram.Run, spool: Path) -> None:
    for episode in (numpy.array([1, 2**62 + 1]), numpy.array([[1], [2**63 - 1]]), [0, -1]):
        with pytest.raises(MetranaValidationError, match="episode is"):
            kymogram.log_rl_environment_step("a", [1.0, 2.0], 0, env_id=["x", "y"], episode=episode)
    assert reader.all_points(spool) == []


def test_numpy_that_raises_ends_no_call(run: kymogram.Run, spool: Path) -> None:
    """np.seterr(all="raise") is the caller's way to find faults of its own."""
    if numpy.finfo(numpy.longdouble).maxexp <= 1024:
        pytest.skip("longdouble is float64 here")
    big = numpy.longdouble("1e4000")
    with numpy.errstate(all="raise"):
        kymogram.log("a", numpy.array([big, 1 / big, 1.5], numpy.longdouble))
        kymogram.log("b", big)
        kymogram.log("c", numpy.array([1e300, 1e-300]), dtype="float32")
        kymogram.log("d", numpy.float16(0.1))
    found = [(point.metric, point.value) for point in reader.all_points(spool)]
    assert found[:4] == [("a", math.inf), ("a", 0.0), ("a", 1.5), ("b", math.inf)]
    assert found[4:6] == [("c", math.inf), ("c", 0.0)]


def test_a_time_in_seconds_is_noticed(spool: Path, capsys: pytest.CaptureFixture[str]) -> None:
    kymogram.init(run_name="r", init_mode="offline")
    for when in (5, 1_700_000_000_000, 1_700_000_000_000.5):
        kymogram.log("a", 1.0, timestamp=when)
    assert "seconds times 1000" not in capsys.readouterr().err
    for _ in range(3):
        kymogram.log("a", 1.0, timestamp=1_700_000_000.25)
    assert capsys.readouterr().err.count("seconds times 1000") == 1
