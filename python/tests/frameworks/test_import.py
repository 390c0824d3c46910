"""`kymogram import` of files that the real tools write now; the oracle is their own readers.

server/internal/importer/testdata/make.py makes the files and reads them back by
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

MAKE = (
    Path(__file__).resolve().parents[3]
    / "server"
    / "internal"
    / "importer"
    / "testdata"
    / "make.py"
)
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
    imported, left = divided(report)
    assert {one["key"] for one in imported} == set(wanted)
    assert left <= {"it was deleted in MLflow"}  # nor does MLflow's reader list these
    assert report["points_refused"] == 0
    for one in imported:
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
    again, _ = divided(json.loads(served.cli(*command, "--project", "p")))
    assert {one["state"] for one in again} == {"unchanged"}


def divided(report: dict[str, Any]) -> tuple[list[dict[str, Any]], set[str]]:
    """The runs of a report, and why others were left out."""
    runs = report["runs"]
    left = {one["error"] for one in runs if one["state"] == "left out"}
    return [one for one in runs if one["state"] != "left out"], left


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


def csv_of_mlflow(folder: Path) -> tuple[Path, dict[str, Any]]:
    """The table of runs that mlflow's own search_runs gives."""
    import mlflow

    os.environ["MLFLOW_ALLOW_FILE_STORE"] = "true"
    mlflow.set_tracking_uri((folder / "store").as_uri())
    mlflow.set_experiment("digits")
    for lr in (0.1, 0.2):
        with mlflow.start_run(run_name=f"lr{lr}", tags={"team": "vision"}):
            mlflow.log_params({"lr": lr, "kind": "adam"})
            for step in range(3):
                mlflow.log_metric("loss", lr * step, step=step)
    table = mlflow.search_runs()
    table.to_csv(folder / "runs.csv", index=False)
    want = {
        one["run_id"]: {
            "values": {"loss": {0: one["metrics.loss"]}},
            "config": {"lr": float(one["params.lr"]), "kind": "adam"},
            "display": one["tags.mlflow.runName"],
            "span": (one["start_time"].value, one["end_time"].value),
        }
        for one in table.to_dict("records")
    }
    return folder / "runs.csv", want


def csv_of_lightning(folder: Path) -> tuple[Path, dict[str, Any]]:
    """metrics.csv of Lightning's CSVLogger: cells are empty where a step has no value."""
    from lightning.pytorch.loggers import CSVLogger

    from .test_lightning import Model, data, trainer

    log = CSVLogger(str(folder), name="csv")
    model = Model()
    trainer(log, folder, max_epochs=3).fit(model, data(), data())
    losses = dict(model.seen)
    return Path(log.log_dir) / "metrics.csv", {
        "metrics": {
            "values": {
                "loss": losses,
                "val/loss": dict(zip((3, 7, 11), model.validated[1:])),
            }
        }
    }


def csv_of_stable_baselines3(folder: Path) -> tuple[Path, dict[str, Any]]:
    """progress.csv of Stable-Baselines3's logger; its time is relative."""
    from stable_baselines3.common.logger import configure

    log = configure(str(folder), ["csv"])
    for turn in range(3):
        log.record("rollout/ep_rew_mean", turn / 4)
        log.record("time/total_timesteps", turn * 100)
        log.record("time/time_elapsed", turn * 60)
        log.dump(turn)
    log.close()
    written = (folder / "progress.csv").stat().st_mtime_ns
    return folder / "progress.csv", {
        "progress": {
            "values": {"rollout/ep_rew_mean": {0: 0.0, 100: 0.25, 200: 0.5}},
            "span": (written - 120_000_000_000, written),
        }
    }


def csv_of_keras(folder: Path) -> tuple[Path, dict[str, Any]]:
    """The log of Keras's CSVLogger."""
    os.environ.setdefault("KERAS_BACKEND", "torch")
    import keras
    import numpy

    model = keras.Sequential([keras.layers.Input((1,)), keras.layers.Dense(1)])
    model.compile("sgd", "mse")
    log = folder / "training.log"
    seen = model.fit(
        numpy.ones((4, 1)),
        numpy.zeros((4, 1)),
        epochs=3,
        verbose=0,
        callbacks=[keras.callbacks.CSVLogger(log)],
    )
    values = {"loss": dict(enumerate(seen.history["loss"]))}
    # Keras has a column for a validation that did not run: that is said, too.
    skipped = {"cells without a value (NA) of val_loss": 3}
    return log, {"training": {"values": values, "skipped": skipped}}


MADE = [csv_of_mlflow, csv_of_lightning, csv_of_stable_baselines3, csv_of_keras]


@pytest.mark.parametrize("make", MADE)
def test_csv(served: Served, tmp_path: Path, make: Any) -> None:
    path, want = make(tmp_path)
    command = ("import", "csv", str(path), "--server", served.address, "--json", "--project", "p")
    report = json.loads(served.cli(*command))
    assert [one["state"] for one in report["runs"]] == ["imported"] * len(want)
    for one in report["runs"]:
        run = served.client.run(one["run"])
        wanted = want[run.name]
        assert not one.get("damage")
        assert one.get("skipped", {}) == wanted.get("skipped", {})
        for metric, values in wanted["values"].items():
            assert served.values(metric, run) == pytest.approx(values, rel=1e-6), metric
        detail = run.detail()
        if "config" in wanted:
            assert run.config == wanted["config"]
            assert detail["display_name"] == wanted["display"]
        if "span" in wanted:
            span = (detail["created_ns"], detail["last_ns"])
            assert span == pytest.approx(wanted["span"], abs=2e6)
            assert detail["status"] == "finished"
