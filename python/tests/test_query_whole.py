"""Nothing of a run is cut in silence: long configurations, many series, odd axes."""

from __future__ import annotations

import random
import subprocess
import sys
from pathlib import Path

import pytest

import kymogram
from kymogram import query

from .rig import Served

SOURCE = Path(__file__).resolve().parents[1] / "src"


def test_a_long_configuration_and_many_metrics(served: Served) -> None:
    config = {f"c{i:05}": i for i in range(10_000)} | {"seed": 2**60, "zz": float("nan")}
    with kymogram.init(run_name="long", config=config) as run:
        run.log({f"m{i:05}": i / 4 for i in range(10_000)})
        run.log("n", 2**62, dtype="int64")
        run.log("labelled", 1.0, labels={"a": "b"})
        run.log("m00000", 9.0, evaluation=True)
    served.sync()
    listed = next(iter(served.client.runs("default/default")))
    for found in (listed, served.client.run("default/default/long")):
        assert found.config == config | {"seed": str(2**60), "zz": "NaN"}
        wanted = {f"m{i:05}": i / 4 for i in range(10_000)}
        assert found.summary() == {**wanted, "n": 2**62, "m00000 (evaluation)": 9.0}


def test_all_environments_of_one_call(served: Served) -> None:
    many = 65_536
    with kymogram.init(run_name="wide") as run:
        for update in range(2):
            run.log_rl_environment_step(
                "reward",
                [0.25] * many,
                rl_step=update,
                env_id=[f"e{n}" for n in range(many)],
                episode=[0] * many,
            )
    served.sync()
    found = served.client.run("default/default/wide")
    assert found.status == "finished"
    counts = [one.count for one in found.series()]
    assert (len(counts), set(counts)) == (many, {2})


def test_the_only_series_of_a_name(served: Served) -> None:
    """An RL metric of one environment is found by its name; of two, the error lists them."""
    with kymogram.init(run_name="rl") as run:
        run.log_rl_episode("rew", 3.5, rl_step=2, episode=7, env_id="e")
        for env in "xy":
            run.log_rl_episode("two", 1.0, rl_step=2, env_id=env)
    served.sync()
    found = served.client.run("default/default/rl")
    assert list(found.points("rew")["value"]) == [3.5]
    with pytest.raises(query.QueryError, match="env_id"):
        found.points("two")
    with pytest.raises(query.QueryError):
        found.points("rew", labels={"env_id": "other"})


@pytest.mark.parametrize("library", ["pandas", "polars"])
def test_columns_come_in_one_order(served: Served, library: str) -> None:
    """Whatever the process's hash seed is."""
    pytest.importorskip(library)
    with kymogram.init(run_name="r", config={"b": 1, "a": 2, "c": "x"}) as run:
        run.log({"loss": 1.0, "acc": 2.0, "f1": 3.0}, step=1)
        run.log_rl_environment_step("reward", [1.0, 2.0], rl_step=1, env_id="e", episode=1)
    served.sync()
    code = (
        f"from kymogram.query import Client; client = Client({served.address!r})\n"
        "run = client.run('default/default/r')\n"
        f"print(list(run.to_{library}().columns), list(run.to_{library}(wide='step').columns),\n"
        f"      list(client.runs_to_{library}('default/default').columns))"
    )
    seen = set()
    for seed in range(4):
        environment = {"PYTHONPATH": str(SOURCE), "PYTHONHASHSEED": str(seed)}
        command = [sys.executable, "-c", code]
        done = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
        seen.add(done.stdout)
    long = ["metric", "scale", "labels", "step", "time_ns", "value", "attempt", "writer"]
    long += ["rl_step", "episode", "env_step"]
    wide = ["step", "acc", "f1", "loss", "reward"]
    runs = ["id", "name", "status", "tags", "created_ns", "duration_ms"]
    runs += ["config/a", "config/b", "config/c"]
    runs += ["summary/acc", "summary/f1", "summary/loss"]
    assert seen == {f"{long} {wide} {runs}\n"}


@pytest.mark.parametrize("transport", ["arrow", "json"])
def test_episodes_stay_together(
    served: Served, transport: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Rows of an RL metric go by environment, episode, step; the oracle sorts what was logged."""
    if transport == "json":
        monkeypatch.setitem(sys.modules, "pyarrow", None)
    else:
        pytest.importorskip("pyarrow")
    chance, logged = random.Random(5), []
    with kymogram.init(run_name="rl") as run:
        for update in range(60):
            env, episode = chance.choice("abc"), chance.choice([0, 1, 2, 10, None])
            values = [chance.random() for _ in range(chance.randint(1, 5))]
            run.log_rl_environment_step(
                "reward", values, rl_step=update, env_id=env, episode=episode,
                timestamp=1_700_000_000 + chance.random(),
            )  # fmt: skip
            logged += [(env, episode, value) for value in values]
    served.sync()
    # What has no episode comes first; within one the order of logging is that of the steps.
    wanted = sorted(logged, key=lambda one: (one[0], -1 if one[1] is None else one[1]))
    found = served.client.run("default/default/rl")
    every = found.series("reward")
    for size in (1, 7, 1000):
        seen = []
        for series in every:
            for part in found.chunks("reward", size, labels=series.labels):
                seen += [
                    (series.labels["env_id"], None if masked(episode) else int(episode), value)
                    for episode, value in zip(part["episode"], part["value"])
                ]
        assert seen == wanted
    if pytest.importorskip("pandas"):
        assert list(found.to_pandas("reward")["value"]) == [value for *_, value in wanted]
    within = found.points("reward", labels={"env_id": "a"}, first=1, last=2)
    assert list(within["value"]) == [v for env, ep, v in wanted if env == "a" and ep in (1, 2)]
    by_step = found.points("reward", labels={"env_id": "a"}, axis="step")
    assert list(by_step["step"]) == sorted(by_step["step"])


def masked(value: object) -> bool:
    return value is None or type(value).__name__ == "MaskedConstant"
