"""`kymogram import` of files that the real tools write now; the oracle is their own readers.

internal/importer/testdata/make.py makes the files and reads them back by
event_accumulator, wandb's datastore and MlflowClient.
"""

from __future__ import annotations

import json
import math
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from ..rig import Served

for _needed in ("torch", "tensorboard", "wandb", "mlflow"):
    pytest.importorskip(_needed, reason="make test-frameworks")

MAKE = Path(__file__).resolve().parents[3] / "internal" / "importer" / "testdata" / "make.py"
PARTS = [
    ("tensorboard", "tensorboard"),
    ("wandb-offline", "wandb"),
    ("mlflow", "mlruns"),
    ("mlflow", "mlflow.db"),
]


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("made")
    seed = os.environ.get("SEED") or str(int.from_bytes(os.urandom(3), "big"))
    print("seed", seed)
    done = subprocess.run(
        [sys.executable, str(MAKE), str(folder), seed], capture_output=True, text=True, timeout=300
    )
    assert done.returncode == 0, done.stderr
    return folder


@pytest.mark.parametrize(("source", "part"), PARTS)
def test_import(served: Served, made: Path, source: str, part: str) -> None:
    wanted = {one["key"]: one for one in json.loads((made / "oracle.json").read_text())[part]}
    command = ("import", source, str(made / part), "--server", served.address, "--json")
    report = json.loads(served.cli(*command, "--project", "p"))
    assert {one["key"] for one in report["runs"]} == set(wanted)
    assert report["points_refused"] == 0
    for one in report["runs"]:
        assert one["state"] == "imported", one
        run = served.client.run(one["run"])
        want = wanted[one["key"]]
        found = {s.metric: s for s in run.series() if not s.metric.startswith("system/")}
        assert set(found) == set(want["series"])
        for metric, series in want["series"].items():
            assert found[metric].kind == series["kind"]
            points = found[metric].points()
            steps = [row[0] for row in series["points"]]
            assert list(points["step"]) == steps, metric
            assert list(points["time_ns"]) == [row[1] for row in series["points"]], metric
            for got, row in zip(points["value"], series["points"]):
                check(metric, got, row[2])
        config = {k.removeprefix("config/"): v for k, v in run.attributes().items()}
        for path, value in leaves("", want["config"]):
            assert config[path] == value
    again = json.loads(served.cli(*command, "--project", "p"))
    assert {one["state"] for one in again["runs"]} == {"unchanged"}


def check(metric: str, got: Any, want: Any) -> None:
    if isinstance(want, dict):
        if "sum" in want:
            assert sum(got["counts"]) == want["sum"], metric
        else:
            assert sum(got["counts"]) == sum(want["counts"]), metric
    elif want in ("NaN", "Infinity", "-Infinity") and not isinstance(got, str):
        assert math.isnan(got) if want == "NaN" else got == float(want), metric
    else:
        assert got == want, metric


def leaves(path: str, value: Any) -> list[tuple[str, Any]]:
    if isinstance(value, (dict, list)):
        pairs = value.items() if isinstance(value, dict) else enumerate(value)
        return [one for name, inner in pairs for one in leaves(f"{path}/{name}", inner)]
    return [(path.removeprefix("/"), value)]
