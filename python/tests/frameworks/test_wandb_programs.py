"""Frameworks with their own integrations for W&B, unchanged, against the server.

Each program of wandb_programs trains and writes down what its framework logged, by a callback of
its own. The run here must have the same rows.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections import Counter
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest

from kymogram import query

from ..rig import Served

FRAMEWORK = "make test-frameworks"
pytest.importorskip("wandb", reason=FRAMEWORK)

PROGRAMS = Path(__file__).parent / "wandb_programs"
TENSORFLOW = Path(sys.prefix) / "tensorflow"  # see the Makefile


def train(served: Served, folder: Path, name: str, *arguments: str, **more: str) -> dict[str, Any]:
    """What a program says it logged."""
    surroundings = {
        name: value for name, value in os.environ.items() if not name.startswith("WANDB_")
    }
    done = subprocess.run(
        [sys.executable, str(PROGRAMS / f"fit_{name}.py"), str(folder), *arguments],
        capture_output=True,
        text=True,
        timeout=240,
        cwd=folder,
        env={
            **surroundings,
            "HOME": str(folder),
            "WANDB_DIR": str(folder),
            "WANDB_BASE_URL": served.address,
            "WANDB_API_KEY": "0" * 40,
            "WANDB_ENTITY": "lab",
            "WANDB_PROJECT": "frames",
            "WANDB__DISABLE_UPDATE_CHECK": "true",
            "WANDB_ERROR_REPORTING": "false",
            "NO_PROXY": "127.0.0.1",
            "OMP_NUM_THREADS": "1",
            "KERAS_BACKEND": "tensorflow",
            **more,
        },
        check=False,
    )
    assert done.returncode == 0, done.stdout[-1000:] + done.stderr[-3000:]
    said: dict[str, Any] = json.loads((folder / "said.json").read_text())
    return said


def points(run: query.Run, metric: str) -> list[tuple[int, float]]:
    found = run.points(metric)
    return list(zip(map(int, found["step"]), map(float, found["value"])))


def same(served: Served, said: dict[str, Any], project: str = "lab/frames") -> query.Run:
    """Compare the run with what the program said; the run."""
    (run,) = served.client.runs(project)
    assert (run.name, run.status) == (said["run"], "finished")
    assert run.detail()["display_name"] == said["name"]
    rows = said["rows"]
    want: dict[str, list[tuple[int, float]]] = {}
    for step, row in enumerate(rows):
        for name, value in row.items():
            want.setdefault(name, []).append((step, float(value)))
    have = {one.metric for one in run.series("^[^_]") if not one.metric.startswith("system/")}
    assert have - {"console"} == set(want)
    for name, values in want.items():
        got = points(run, name)
        assert [step for step, _ in got] == [step for step, _ in values], name
        assert [value for _, value in got] == pytest.approx([value for _, value in values]), name
    assert len(points(run, "_runtime")) == len(rows)
    attributes = run.attributes()
    for name, value in leaves("config", said["config"]):
        assert attributes[name] == pytest.approx(value), name
    for name, value in leaves("summary", said["summary"]):
        assert attributes[name] == pytest.approx(value), name
    ledger = run.detail()["ledger"]
    assert (ledger["dropped"], ledger["refused"], ledger["superseded"]) == (0, 0, 0)
    files = {one.name for one in run.files()}
    assert {"config.yaml", "wandb-summary.json", "wandb-metadata.json"} <= files
    return run


def leaves(path: str, value: Any) -> list[tuple[str, Any]]:
    """A configuration's values by the paths of attributes."""
    if isinstance(value, dict):
        return [one for key, inner in value.items() for one in leaves(f"{path}/{key}", inner)]
    if isinstance(value, list):
        return [one for i, inner in enumerate(value) for one in leaves(f"{path}/{i}", inner)]
    return [(path, value)]


ARTIFACTS = """
import json, sys, wandb
logged = wandb.Api().run(sys.argv[1]).logged_artifacts()
print(json.dumps([[one.type, sorted(file.name for file in one.files())] for one in logged]))
"""


def models(served: Served, folder: Path, run: query.Run) -> list[list[str]]:
    """The files of each model that the run logged, as W&B's API says it."""
    done = subprocess.run(
        [sys.executable, "-c", ARTIFACTS, f"lab/frames/{run.name}"],
        capture_output=True,
        text=True,
        timeout=120,
        cwd=folder,
        env={
            **os.environ,
            "HOME": str(folder),
            "WANDB_BASE_URL": served.address,
            "WANDB_API_KEY": "0" * 40,
            "WANDB_ERROR_REPORTING": "false",
        },
        check=False,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    found = json.loads(done.stdout.splitlines()[-1])
    assert Counter(kind for kind, _ in found).keys() <= {"model", "wandb-history"}
    return [files for kind, files in found if kind == "model"]


@pytest.mark.parametrize("log_model", ["false", "end"])
def test_huggingface(served: Served, tmp_path: Path, log_model: str) -> None:
    for needed in ("torch", "transformers", "accelerate"):
        if find_spec(needed) is None:
            pytest.skip(f"{needed} is not installed: {FRAMEWORK}")
    said = train(served, tmp_path, "huggingface", WANDB_LOG_MODEL=log_model)
    assert len(said["rows"]) > 12
    run = same(served, said)
    found = models(served, tmp_path, run)
    if log_model == "false":
        assert found == []
    else:
        assert any("model.safetensors" in files for files in found), found


@pytest.mark.parametrize("log_model", ["none", "model"])
def test_lightning(served: Served, tmp_path: Path, log_model: str) -> None:
    for needed in ("torch", "lightning"):
        if find_spec(needed) is None:
            pytest.skip(f"{needed} is not installed: {FRAMEWORK}")
    said = train(served, tmp_path, "lightning", log_model)
    assert len(said["rows"]) > 12
    run = same(served, said)
    found = models(served, tmp_path, run)
    assert found == ([] if log_model == "none" else [["model.ckpt"]])


def test_keras(served: Served, tmp_path: Path) -> None:
    if not TENSORFLOW.is_dir():
        pytest.skip(f"tensorflow is not installed: {FRAMEWORK}")
    said = train(served, tmp_path, "keras", PYTHONPATH=str(TENSORFLOW))
    assert len(said["rows"]) == 3 * 3 + 3
    run = same(served, said)
    assert models(served, tmp_path, run) == []
