"""Makes the importer's fixtures with the real tools, and what their own readers find in them.

    .venv-frameworks/bin/python server/internal/importer/testdata/make.py FOLDER [SEED]

writes FOLDER/{tensorboard,wandb,mlruns,mlflow.db} and FOLDER/oracle.json. The
committed ones are FOLDER = server/internal/importer/testdata, SEED = 0; `make
test-frameworks` makes others and imports them.
"""

from __future__ import annotations

import importlib.util
import json
import math
import os
import random
import shutil
import sqlite3
import sys
import time
from pathlib import Path
from typing import Any

WORDS = ["alpha", "beta gamma", "Grüße", "line\nbreak"]


def number(value: float) -> float | str:
    value = float(value)
    if math.isnan(value):
        return "NaN"
    if math.isinf(value):
        return "Infinity" if value > 0 else "-Infinity"
    return value


def nanoseconds(seconds: float) -> int:
    return round(seconds * 1e9)


# TensorBoard


def make_tensorboard(folder: Path, chance: random.Random) -> None:
    import numpy
    import torch
    from torch.utils.tensorboard import SummaryWriter

    numpy.random.seed(chance.randrange(1 << 30))
    torch.manual_seed(chance.randrange(1 << 30))
    start = 1_700_000_000.25
    with SummaryWriter(str(folder / "first" / "train")) as writer:
        for step in range(40):
            value = math.nan if step == 7 else math.inf if step == 9 else chance.gauss(0, 1)
            writer.add_scalar("loss", value, step, walltime=start + step)
            writer.add_scalar("new/style", step / 3, step * 10, walltime=start, new_style=True)
            writer.add_scalar("double", step / 3, step, new_style=True, double_precision=True, walltime=start)
        writer.add_text("note", WORDS[chance.randrange(4)], 3, walltime=start)
        for step in range(3):
            writer.add_histogram("weights", numpy.random.normal(step, 1, 500), step, walltime=start)
        writer.add_histogram("same", numpy.ones(5), 0, walltime=start)
        writer.add_histogram("many", numpy.arange(3000) / 7, 0, bins=numpy.arange(800), walltime=start)
        writer.add_image("image", numpy.zeros((3, 2, 2)), 0, walltime=start)
    for life, first in enumerate((0, 30)):
        purge = {"filename_suffix": ".again", "purge_step": first} if life else {}
        with SummaryWriter(str(folder / "restarted"), **purge) as writer:
            for step in range(first, 40 - 5 * life):
                writer.add_scalar("loss", chance.random(), step, walltime=start + 100 * life + step)
            writer.add_histogram("weights", numpy.ones(3), 33, walltime=start)
    with SummaryWriter(str(folder / "second")) as writer:
        writer.add_scalar("loss", 1.5, 1, walltime=start)
        writer.add_hparams(
            {"lr": 0.1, "layers": 3, "deep": True, "kind": "adam"},
            {"hparam/best": 0.5},
            run_name="trial",
        )


def read_tensorboard(folder: Path) -> list[dict[str, Any]]:
    from tensorboard.backend.event_processing import event_accumulator, event_file_loader
    from tensorboard.plugins.hparams import plugin_data_pb2
    from tensorboard.util import tensor_util

    found = []
    for place in sorted({path.parent for path in folder.rglob("*tfevents*")}):
        everything = dict.fromkeys(("scalars", "tensors", "histograms", "images"), 0)
        read = event_accumulator.EventAccumulator(str(place), size_guidance=everything)
        read.Reload()
        series: dict[str, Any] = {}
        config: dict[str, Any] = {}
        for tag in read.Tags()["scalars"]:
            rows = [[one.step, nanoseconds(one.wall_time), number(one.value)] for one in read.Scalars(tag)]
            series[tag] = {"kind": "float64", "points": last_wins(rows)}
        for tag in read.Tags()["tensors"]:
            plugin = read.SummaryMetadata(tag).plugin_data.plugin_name
            rows = []
            for one in read.Tensors(tag):
                value = tensor_util.make_ndarray(one.tensor_proto)
                if plugin == "text":
                    rows.append([one.step, nanoseconds(one.wall_time), value.item().decode()])
                elif plugin == "scalars":
                    rows.append([one.step, nanoseconds(one.wall_time), number(value.item())])
                elif plugin == "histograms":
                    rows.append([one.step, nanoseconds(one.wall_time), {"sum": float(value[:, 2].sum())}])
            if rows:
                kind = {"text": "text", "scalars": "float64", "histograms": "histogram"}[plugin]
                series[tag.removesuffix("/text_summary")] = {"kind": kind, "points": last_wins(rows)}
        for tag in read.Tags()["histograms"]:
            rows = []
            for one in read.Histograms(tag):
                value = one.histogram_value
                stats = {"min": value.min, "max": value.max, "sum": value.sum}
                stats |= {"sum_of_squares": value.sum_squares}
                row = {"sum": float(sum(value.bucket)), "stats": stats}
                rows.append([one.step, nanoseconds(one.wall_time), row])
            series[tag] = {"kind": "histogram", "points": last_wins(rows)}
        for path in sorted(place.glob("*tfevents*")):
            for event in event_file_loader.EventFileLoader(str(path)).Load():
                for value in event.summary.value:
                    if value.metadata.plugin_data.plugin_name == "hparams":
                        data = plugin_data_pb2.HParamsPluginData.FromString(value.metadata.plugin_data.content)
                        for name, one in data.session_start_info.hparams.items():
                            config[name] = getattr(one, one.WhichOneof("kind"))
        found.append({"key": str(place.relative_to(folder)), "series": series, "config": config})
    return found


def last_wins(rows: list[list[Any]]) -> list[list[Any]]:
    return [row for _, row in sorted({row[0]: row for row in rows}.items())]


# W&B


def make_wandb(folder: Path, chance: random.Random) -> None:
    os.environ.update(
        WANDB_MODE="offline",
        WANDB_DIR=str(folder.parent),
        WANDB_SILENT="true",
        WANDB_DISABLE_GIT="true",
        WANDB_ERROR_REPORTING="false",
        WANDB_DATA_DIR=str(folder.parent / ".wandb-data"),
        WANDB_CACHE_DIR=str(folder.parent / ".wandb-data"),
        WANDB_CONFIG_DIR=str(folder.parent / ".wandb-data"),
    )
    import wandb

    settings: dict[str, Any] = {
        "console": "off",
        "x_stats_sampling_interval": 0.1,
        "x_disable_meta": True,
        "x_save_requirements": False,
        "disable_code": True,
        "disable_git": True,
        "host": "host",
        "program": "train.py",
    }
    for name in ("one", "two"):
        run = wandb.init(
            project="digits",
            entity="lab",
            id=f"{name}id",
            name=f"run {name}",
            group="sweep",
            notes="a note",
            tags=["baseline", "Größe"],
            config={"lr": 0.1, "layers": [1, 2], "optim": {"name": "adam", "nesterov": True}, "n": 3},
            settings=wandb.Settings(x_disable_stats=name == "one", x_disable_machine_info=name == "one", **settings),
        )
        for step in range(60):
            row: dict[str, Any] = {"loss": chance.gauss(0, 1), "epoch": step // 20}
            if step == 5:
                row["loss"] = math.nan
            if step == 6:
                row["loss"] = math.inf
            if step % 10 == 0:
                row |= {"eval/acc": chance.random(), "ok": step > 20, "note": chance.choice(WORDS)}
                row |= {"nested": {"a": {"b": step}}, "none": None}
                row["hist"] = wandb.Histogram([chance.gauss(0, 1) for _ in range(200)], num_bins=16)
            wandb.log(row)
        wandb.log({"late": 2**60 + 1}, step=1000)
        run.summary["best"] = 0.25
        run.config.update({"later": "x"})
        if name == "two":
            time.sleep(1)  # some system metrics
        run.finish(exit_code=0 if name == "one" else 3)


def datastore() -> Any:
    """The reader of wandb 0.19, the last one in Python."""
    place = os.environ.get("WANDB_019", str(Path(sys.prefix) / "wandb-0.19"))
    path = Path(place) / "wandb" / "sdk" / "internal" / "datastore.py"
    spec = importlib.util.spec_from_file_location("wandb_datastore", path)
    assert spec is not None, path
    assert spec.loader is not None, path
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    module.wandb._assert_is_internal_process = lambda: None  # 0.31 has no such process
    return module.DataStore()


def read_wandb(folder: Path) -> list[dict[str, Any]]:
    from wandb.proto import wandb_internal_pb2

    found = []
    for path in sorted(folder.glob("*run-*/run-*.wandb")):
        store = datastore()
        store.open_for_scan(str(path))
        run: dict[str, Any] = {"tags": [], "config": {}, "summary": {}, "exit": None}
        rows: dict[str, dict[int, list[Any]]] = {}
        while (data := store.scan_data()) is not None:
            record = wandb_internal_pb2.Record.FromString(data)
            kind = record.WhichOneof("record_type")
            if kind == "run":
                one = record.run
                run |= {"key": one.run_id, "display_name": one.display_name, "tags": sorted(one.tags)}
                run |= {"notes": one.notes, "started_ns": one.start_time.ToNanoseconds()}
                update(run["config"], one.config.update)
            elif kind == "config":
                update(run["config"], record.config.update)
            elif kind == "summary":
                update(run["summary"], record.summary.update)
            elif kind == "exit":
                run["exit"] = record.exit.exit_code
            elif kind == "stats":
                row = {}
                update(row, record.stats.item)
                run.setdefault("stats", []).append([record.stats.timestamp.ToNanoseconds(), row])
            elif kind == "history":
                row: dict[str, Any] = {}
                update(row, record.history.item)
                when = nanoseconds(row["_timestamp"])
                step = record.history.step.num
                for name, value in leaves(row):
                    if not name.startswith("_") and value is not None:
                        rows.setdefault(name, {})[step] = [step, when, value]
        run["config"].pop("_wandb", None)
        run["summary"] = {k: v for k, v in run["summary"].items() if not k.startswith("_")}
        run["series"] = {name: wandb_series(points) for name, points in rows.items()}
        found.append(run)
    return found


def update(into: dict[str, Any], items: Any) -> None:
    for one in items:
        keys = [one.key] if one.key else list(one.nested_key)
        place = into
        for key in keys[:-1]:
            place = place.setdefault(key, {})
        place[keys[-1]] = item_value(one)


def item_value(one: Any) -> Any:
    kind = one.WhichOneof("value_type") if "value_type" in one.DESCRIPTOR.oneofs_by_name else None
    if kind in ("boolean", "integer", "number", "text"):
        return getattr(one, kind)
    if kind == "none":
        return None
    text = one.json if kind == "json" else one.value_json
    return json.loads(text)


def leaves(row: dict[str, Any], prefix: str = "") -> list[tuple[str, Any]]:
    found = []
    for name, value in row.items():
        if isinstance(value, dict) and "_type" not in value:
            found += leaves(value, f"{prefix}{name}.")
        else:
            found.append((prefix + name, value))
    return found


def wandb_series(points: dict[int, list[Any]]) -> dict[str, Any]:
    rows = [points[step] for step in sorted(points)]
    value = rows[0][2]
    if isinstance(value, str):
        return {"kind": "text", "points": rows}
    if isinstance(value, dict):
        made = [[s, t, {"counts": v["values"], "bin_edges": v["bins"]}] for s, t, v in rows]
        return {"kind": "histogram", "points": made}
    return {"kind": "float64", "points": [[s, t, number(v)] for s, t, v in rows]}


# MLflow


def make_mlflow(store: str, chance: random.Random) -> None:
    from mlflow.entities import Metric, Param, RunTag
    from mlflow.tracking import MlflowClient

    client = MlflowClient(tracking_uri=store)
    experiment = client.create_experiment("digits", artifact_location="artifacts")
    for turn in range(3):
        start = 1_700_000_000_123 + turn
        run = client.create_run(experiment, start_time=start, run_name=["a", "b", "b"][turn])
        identity = run.info.run_id
        for step in range(20):
            value = math.nan if step == 3 else chance.gauss(0, 1)
            client.log_metric(identity, "loss", value, timestamp=start + step * 7, step=step)
        client.log_batch(
            identity,
            metrics=[Metric("eval/acc", chance.random(), start + n, n * 5) for n in range(4)],
            params=[Param("lr", "0.1"), Param("optim/name", "adam")],
            tags=[RunTag("team", "vision"), RunTag("mlflow.note.content", "a note")],
        )
        client.log_metric(identity, "loss", -1.0, timestamp=start + 10_000, step=19)
        client.set_terminated(identity, ["FINISHED", "FAILED", "KILLED"][turn], end_time=start + 20_000)
    gone = client.create_run(experiment, run_name="deleted")
    client.delete_run(gone.info.run_id)
    client.create_registered_model("model")
    client.create_model_version("model", "file:///model", run.info.run_id)


def read_mlflow(store: str) -> list[dict[str, Any]]:
    from mlflow.tracking import MlflowClient

    client = MlflowClient(tracking_uri=store)
    found = []
    for experiment in client.search_experiments():
        for run in client.search_runs([experiment.experiment_id]):
            series = {}
            for name in run.data.metrics:
                rows = [
                    [one.step, one.timestamp * 1_000_000, number(one.value)]
                    for one in sorted(client.get_metric_history(run.info.run_id, name), key=lambda m: m.timestamp)
                ]
                series[name] = {"kind": "float64", "points": last_wins(rows)}
            tags = {k: v for k, v in run.data.tags.items() if not k.startswith("mlflow.")}
            found.append(
                {
                    "key": run.info.run_id,
                    "run_name": run.info.run_name,
                    "experiment": experiment.name,
                    "status": run.info.status,
                    "started_ns": run.info.start_time * 1_000_000,
                    "ended_ns": run.info.end_time * 1_000_000,
                    "config": run.data.params,
                    "tags": sorted(f"{k}={v}" for k, v in tags.items()),
                    "notes": run.data.tags.get("mlflow.note.content", ""),
                    "series": series,
                }
            )
    return sorted(found, key=lambda one: one["key"])


def main(folder: Path, seed: int) -> None:
    chance = random.Random(seed)
    for name in ("tensorboard", "wandb", "mlruns"):
        shutil.rmtree(folder / name, ignore_errors=True)
    (folder / "mlflow.db").unlink(missing_ok=True)
    folder.mkdir(parents=True, exist_ok=True)
    here = Path.cwd()
    os.chdir(folder)
    os.environ["MLFLOW_ALLOW_FILE_STORE"] = "true"
    make_tensorboard(folder / "tensorboard", chance)
    make_wandb(folder / "wandb", chance)
    make_mlflow((folder / "mlruns").as_uri(), chance)
    make_mlflow(f"sqlite:///{folder / 'mlflow.db'}", chance)
    with sqlite3.connect(folder / "mlflow.db") as small:  # 1 MB of empty tables otherwise
        small.execute("PRAGMA page_size = 512")
        small.execute("VACUUM")
    for path in [*folder.glob("wandb/*"), folder / ".wandb-data"]:
        if path.is_symlink() or path.suffix == ".log":
            path.unlink()
        elif path.is_dir():
            for part in ("logs", "files", "tmp", "wandb"):
                shutil.rmtree(path / part, ignore_errors=True)
    shutil.rmtree(folder / ".wandb-data", ignore_errors=True)
    oracle = {
        "tensorboard": read_tensorboard(folder / "tensorboard"),
        "wandb": read_wandb(folder / "wandb"),
        "mlruns": read_mlflow((folder / "mlruns").as_uri()),
        "mlflow.db": read_mlflow(f"sqlite:///{folder / 'mlflow.db'}"),
    }
    os.chdir(here)
    text = json.dumps(oracle, indent=1, ensure_ascii=False, allow_nan=False)
    (folder / "oracle.json").write_text(text + "\n")


if __name__ == "__main__":
    main(Path(sys.argv[1]).resolve(), int(sys.argv[2]) if len(sys.argv) > 2 else 0)
