"""Adapters that need no heavy framework: logging, SummaryWriter, gymnasium."""

from __future__ import annotations

import logging
import math
import pickle
import random
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import kymogram
from kymogram._adapters import Door
from kymogram.logging import KymogramHandler
from kymogram.tensorboard import SummaryWriter

from .rig import Served


def test_importing_kymogram_imports_no_framework() -> None:
    code = (
        "import kymogram, sys; print([m for m in sys.modules if m in "
        "('torch','lightning','transformers','keras','stable_baselines3','gymnasium','numpy',"
        "'kymogram.query','logging')])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


# SummaryWriter


def test_summary_writer(served: Served) -> None:
    with SummaryWriter("runs/a/b") as writer:
        for step in range(5):
            writer.add_scalar("loss", 1 / (step + 1), step, walltime=1_700_000_000 + step / 4)
        writer.add_scalar("auto", 1.5)
        writer.add_scalars("split", {"train": 1, "val": 2.5}, 7)
        writer.add_text("note", "# hello", 3)
        writer.add_hparams({"lr": 0.1, "deep": True}, {"hparam/best": 0.9})
        writer.add_image("image", None, 0)
        other = SummaryWriter("runs/a/val")
        other.add_scalar("loss", 9.0, 1)
        other.close()
        writer.add_scalar("loss", 0.0, 5)
        writer.flush()
    run = served.only()
    assert (run.name, run.status) == ("a/b", "finished")
    assert served.values("loss", run, labels={}) == {
        **{n: 1 / (n + 1) for n in range(5)},
        5: 0.0,
    }
    assert run.points("loss", labels={})["time_ns"][1] == 1_700_000_000_250_000_000
    assert served.values("loss", run, labels={"writer": "val"}) == {1: 9.0}
    assert served.values("split/val", run) == {7: 2.5}
    assert served.values("note", run) == {3: "# hello"}
    assert run.config == {"lr": 0.1, "deep": True}
    assert served.values("hparam/best", run) == {0: 0.9}


@pytest.mark.parametrize("plain", [False, True])
def test_histograms(served: Served, monkeypatch: pytest.MonkeyPatch, plain: bool) -> None:
    if plain:
        monkeypatch.setitem(sys.modules, "numpy", None)
    values = [math.sin(n) * n for n in range(1000)]
    with SummaryWriter("h") as writer:
        writer.add_histogram("w", [*values, math.nan], 4)
        writer.add_histogram("w", [3.0], 5, bins=10)
        writer.add_histogram("w", [math.inf], 6)
        writer.add_histogram_raw("raw", 0.0, 2.0, 3, 3.0, 5.0, [1.0, 2.0], [1, 2], 0)
    run = served.only()
    found = served.values("w", run)
    assert sorted(found) == [4, 5]
    edges, counts = found[4]["bin_edges"], found[4]["counts"]
    assert (len(counts), sum(counts)) == (64, 1000)
    for place, count in enumerate(counts):
        top = edges[place + 1]
        last = place == 63
        inside = [one for one in values if edges[place] <= one < top or (last and one == top)]
        assert len(inside) == count
    assert found[4]["stats"]["sum"] == pytest.approx(sum(values))
    assert sum(found[5]["counts"]) == 1
    raw = served.values("raw", run)[0]
    assert (raw["bin_edges"], raw["counts"]) == ([0.0, 1.0, 2.0], [1, 2])


def test_purge_step_replaces_what_came_after(served: Served) -> None:
    with SummaryWriter("p") as writer:
        for step in range(10):
            writer.add_scalar("x", step, step)
    served.sync()
    with SummaryWriter("p", purge_step=5) as writer:
        writer.add_scalar("x", 50, 5)
    assert served.values("x") == {**{n: n for n in range(5)}, 5: 50}


def test_what_a_run_cannot_hold_is_counted(
    served: Served, capsys: pytest.CaptureFixture[str]
) -> None:
    writer = SummaryWriter("odd")
    writer.add_scalar("Loss/train epoch (mean)", 0.5, 1)
    writer.add_scalars("split", {"a b": 1.0, "c": 2.0}, 1)
    writer.add_scalar("below", 1.0, -1)
    writer.add_scalar("below", 1.0, -2)
    for step in range(3):
        writer.add_image("image", None, step)
    writer.add_figure("figure", None)
    with pytest.raises(AttributeError, match="has no 'add_scaler'; did you mean add_scalar"):
        writer.add_scaler("loss", 1.0, 1)
    writer.add_text("split/c", "a metric holds one kind", 2)
    writer.add_histogram("narrow", [1e300, 1e300], 1)
    writer.add_histogram("one", 3, 1)
    assert writer.passed == {"add_scalar": 2, "add_image": 3, "add_figure": 1, "add_text": 1}
    writer.close()
    said = capsys.readouterr().err
    assert said.count("global_step is negative") == 1
    assert said.count("add_image keeps nothing") == 1
    assert "kept nothing of these calls: 2 of add_scalar, 3 of add_image, 1 of add_figure" in said
    served.sync()
    writer.add_scalar("after", 1.0, 9)  # as TensorBoard's, which opens another file
    writer.close()
    run = served.only()
    exact = {"exact_name": "Loss/train epoch (mean)"}
    assert served.values("Loss/train_epoch__mean_", run, labels=exact) == {1: 0.5}
    assert served.values("split/a_b", run, labels={"exact_name": "split/a b"}) == {1: 1.0}
    assert served.values("narrow", run)[1]["counts"] == [2]
    assert sum(served.values("one", run)[1]["counts"]) == 1
    assert served.values("after", run) == {9: 1.0}
    assert len(run.detail()["attempts"]) == 2


def test_a_writer_that_fails_says_so(served: Served) -> None:
    with pytest.raises(ZeroDivisionError), SummaryWriter("f") as writer:
        writer.add_scalar("x", 1, 0)
        raise ZeroDivisionError
    assert served.only().status == "failed"
    with pytest.raises(AttributeError, match="flash"):
        writer.flash()
    with pytest.raises(kymogram.KymogramValidationError, match="one number"):
        np = pytest.importorskip("numpy")
        SummaryWriter("g").add_scalar("x", np.zeros(3))


# logging


class Talks:
    """Logs while it is being formatted."""

    def __str__(self) -> str:
        logging.getLogger("train").info("inner")
        return "outer"


def test_handler(served: Served) -> None:
    log = logging.getLogger("train")
    log.propagate = False
    log.setLevel(logging.DEBUG)
    handler = KymogramHandler(logging.INFO)
    log.addHandler(handler)
    try:
        log.warning("before %s", "init")
        assert handler.missed == 1
        with kymogram.init(run_name="r"):
            log.debug("not this")
            log.info("epoch %d", 3)
            try:
                raise ValueError("broken")
            except ValueError:
                log.exception("oh")
            log.info("bad %d", "format")
            log.info("%s", Talks())
            log.info("x" * 100_000)
        assert handler.missed == 3
        log.info("after")
        assert handler.missed == 4
    finally:
        log.removeHandler(handler)
    run = served.only()
    texts = run.points("log", labels={"level": "INFO"})
    assert texts["value"] == [
        "train: epoch 3",
        "train: outer",
        ("train: " + "x" * 100_000)[: 64 << 10],
    ]
    (error,) = run.points("log", labels={"level": "ERROR"})["value"]
    assert error.startswith("train: oh\nTraceback")
    assert error.endswith("ValueError: broken")


# the door


def test_a_door_joins_the_open_run_and_leaves_it_open(run: kymogram.Run) -> None:
    door = Door({"run_name": "other"})
    assert door.open(project_name="p") is run
    door.fail()
    door.close()
    kymogram.log("x", 1.0)


def test_a_door_of_another_name_says_where_it_logs(
    spool: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    first, second, third = Door({"run_name": "a"}), Door({"run_name": "b"}), Door({})
    with first.open():
        capsys.readouterr()
        for door in (first, third, Door({"run_name": "a"})):
            door.open()
        assert capsys.readouterr().err == ""
        for _ in range(2):
            assert second.open().name == "a"
        assert capsys.readouterr().err.count("the run 'a' is open: what 'b' was to have") == 1


def test_a_door_logs_what_can_be_logged(served: Served, capsys: pytest.CaptureFixture[str]) -> None:
    door = pickle.loads(pickle.dumps(Door({"run_name": "r"})))
    door.open(run_name="not this", tags=["t"])
    kymogram.log_text("text", "taken")
    door.numbers({"a": 1, "text": 2.0, "words": "no", "none": None, "b": 2.5, "top 5": 4}, 3)
    door.config({"lr": 0.1, "": 1, "deep": {"list": [1, 2]}, "callable": max})
    door.close()
    run = served.only()
    assert (run.name, run.tags) == ("r", ["t"])
    assert served.values("a", run) == {3: 1.0}
    assert served.values("b", run) == {3: 2.5}
    assert served.values("top_5", run, labels={"exact_name": "top 5"}) == {3: 4.0}
    assert run.config["deep/list/1"] == 2
    said = capsys.readouterr().err
    assert "text is not logged" in said
    assert "empty key" in said


# gymnasium

MODES = ["NEXT_STEP", "SAME_STEP", "DISABLED"]


@pytest.mark.parametrize("mode", MODES)
def test_gymnasium(served: Served, mode: str) -> None:
    gymnasium = pytest.importorskip("gymnasium", reason="gymnasium is not installed")
    numpy = pytest.importorskip("numpy")
    from kymogram.gymnasium import LogEpisodes

    class Countdown(gymnasium.Env):  # type: ignore[misc,name-defined,unused-ignore]
        """Episode n of length `length`, reward 1, 2, 3, …"""

        observation_space = gymnasium.spaces.Box(0, 1, (1,))
        action_space = gymnasium.spaces.Discrete(2)

        def __init__(self, length: int) -> None:
            self.length, self.at = length, 0

        def reset(self, *, seed: Any = None, options: Any = None) -> Any:
            self.at = 0
            return numpy.zeros(1, "f4"), {}

        def step(self, action: Any) -> Any:
            self.at += 1
            return numpy.zeros(1, "f4"), float(self.at), self.at == self.length, False, {}

    autoreset = getattr(gymnasium.vector.AutoresetMode, mode)
    with kymogram.init(run_name="r"):
        made = gymnasium.vector.SyncVectorEnv(
            [lambda: Countdown(2), lambda: Countdown(3)], autoreset_mode=autoreset
        )
        envs = LogEpisodes(made, ["short", "long"])
        envs.reset()
        for update in range(4):
            envs.rl_step = update
            for _ in range(3):
                done = numpy.logical_or(*envs.step(numpy.zeros(2, "i8"))[2:4])
                if mode == "DISABLED" and done.any():
                    envs.reset(options={"reset_mask": done})
        again = LogEpisodes(made, ["short", "long"], steps=False)
        assert again.rl_step == 3
    run = served.only()
    for env, length in (("short", 2), ("long", 3)):
        # NEXT_STEP spends one step of the loop on every reset.
        cycle = length + (mode == "NEXT_STEP")
        whole = 12 // cycle
        returned = run.points("episode_return", scale="EPISODE", labels={"env_id": env})
        assert list(returned["value"]) == [sum(range(1, length + 1))] * whole
        assert list(returned["episode"]) == list(range(whole))
        ends = [(n * cycle + length - 1) // 3 for n in range(whole)]
        assert list(returned["rl_step"]) == ends
        rewards = run.points(
            "reward", scale="ENVIRONMENT_STEP", labels={"env_id": env}, axis="time_ns"
        )
        steps = [n % cycle + 1 for n in range(12) if n % cycle < length]
        assert list(rewards["value"]) == steps
        assert list(rewards["step"]) == [one - 1 for one in steps]


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("seed", [1, 2, 3])
def test_gymnasium_beside_a_naive_count(served: Served, mode: str, seed: int) -> None:
    """Episodes of random lengths, ended, truncated or both, or cut by a reset of all."""
    gymnasium = pytest.importorskip("gymnasium", reason="gymnasium is not installed")
    numpy = pytest.importorskip("numpy")
    from kymogram.gymnasium import LogEpisodes

    told: list[list[list[float]]] = []  # by environment: the rewards of each episode that it began

    class Dice(gymnasium.Env):  # type: ignore[misc,name-defined,unused-ignore]
        observation_space = gymnasium.spaces.Box(0, 1, (1,))
        action_space = gymnasium.spaces.Discrete(2)

        def __init__(self, number: int) -> None:
            self.dice = random.Random(f"{seed} {number}")
            self.mine: list[list[float]] = []
            self.ended: set[int] = set()
            told.append(self.mine)
            endings.append(self.ended)

        def reset(self, *, seed: Any = None, options: Any = None) -> Any:
            self.mine.append([])
            return numpy.zeros(1, "f4"), {}

        def step(self, action: Any) -> Any:
            reward = self.dice.uniform(-1, 1)
            self.mine[-1].append(reward)
            over, cut = self.dice.random() < 0.2, self.dice.random() < 0.2
            if over or cut:
                self.ended.add(len(self.mine) - 1)
            return numpy.zeros(1, "f4"), reward, over, cut, {}

    endings: list[set[int]] = []
    reset_mode = getattr(gymnasium.vector.AutoresetMode, mode)
    dice = random.Random(seed)
    with kymogram.init(run_name="r"):
        made = gymnasium.vector.SyncVectorEnv(
            [lambda number=number: Dice(number) for number in range(3)], autoreset_mode=reset_mode
        )
        envs = LogEpisodes(made)
        envs.reset()
        for update in range(60):
            envs.rl_step = update // 5
            done = numpy.logical_or(*envs.step(numpy.zeros(3, "i8"))[2:4])
            if dice.random() < 0.05:
                envs.reset()  # also in mid-episode
            elif mode == "DISABLED" and done.any():
                envs.reset(options={"reset_mask": done})
    run = served.only()
    for number, (episodes, ended) in enumerate(zip(told, endings, strict=True)):
        # An episode without a step, as one that was reset twice, was none.
        begun = [(rewards, n in ended) for n, rewards in enumerate(episodes) if rewards]
        labels = {"env_id": f"env{number}"}
        for metric, count in (("episode_return", math.fsum), ("episode_length", len)):
            found = run.points(metric, scale="EPISODE", labels=labels)
            whole = {n: count(rewards) for n, (rewards, over) in enumerate(begun) if over}
            assert dict(zip(found["episode"], found["value"])) == pytest.approx(whole)
        found = run.points("reward", scale="ENVIRONMENT_STEP", labels=labels, axis="time_ns")
        assert list(found["value"]) == [one for rewards, _ in begun for one in rewards]
        assert list(found["step"]) == [at for rewards, _ in begun for at in range(len(rewards))]


def test_the_package_has_no_framework_in_its_requirements() -> None:
    text = (Path(__file__).parents[1] / "pyproject.toml").read_text()
    assert "\ndependencies" not in text
