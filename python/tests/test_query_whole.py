"""Nothing of a run is cut in silence: long configurations, many series, odd axes."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

import kymogram
from kymogram import query

from .rig import Served

SOURCE = Path(__file__).resolve().parents[1] / "src"


def test_a_long_configuration_and_many_metrics(served: Served) -> None:
    config = {f"c{i:03}": i for i in range(152)} | {"seed": 2**60, "zz": float("nan")}
    with kymogram.init(run_name="long", config=config) as run:
        for i in range(120):
            run.log(f"m{i:03}", i / 4)
        run.log("n", 2**62, dtype="int64")
        run.log("labelled", 1.0, labels={"a": "b"})
        run.log("m000", 9.0, evaluation=True)
    served.sync()
    listed = next(iter(served.client.runs("default/default")))
    for found in (listed, served.client.run("default/default/long")):
        assert found.config == config | {"seed": str(2**60), "zz": "NaN"}
        wanted = {f"m{i:03}": i / 4 for i in range(120)}
        assert found.summary() == {**wanted, "n": 2**62, "m000 (evaluation)": 9.0}


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


def test_columns_come_in_one_order() -> None:
    """Whatever the process's hash seed is."""
    code = (
        "from kymogram._reading.columns import join\n"
        "names = ['step', 'rl_step', 'episode', 'time_ns', 'value', 'attempt', 'writer']\n"
        "columns = join([{n: [1] for n in names[:i]} for i in (4, 7)])\n"
        "print(list(columns) == names)"
    )
    for seed in range(6):
        environment = {"PYTHONPATH": str(SOURCE), "PYTHONHASHSEED": str(seed)}
        command = [sys.executable, "-c", code]
        done = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
        assert done.stdout == "True\n"
