"""One interface over all loggers. Runs in a logger's own environment; nothing here imports one before it is opened."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from types import ModuleType

import forms

NAMES = forms.NAMES
DTYPE = os.environ.get("PEERS_DTYPE", "float64")  # what float64 arrays are stored as, by those that can choose


class Logger:
    """An open logger: `scalar(i)` logs value i at step i; `calls` are the calls of its kinds."""

    def __init__(self, scalar: Callable[[int], object], close: Callable[[], object]) -> None:
        self.scalar = scalar
        self.close = close
        self.calls: dict[str, Callable[[int], object]] = {"scalar": scalar}
        self.forms: Callable[[], dict[str, Callable[[int], object]]] = dict  # every documented form, made when measured
        self.arrays: list[str] = []  # the kinds of large arrays
        # Of Kymogram only: values i…i+999 at those steps, and the count of dropped points.
        self.block: Callable[[int], object] = scalar
        self.dropped: Callable[[], int] = lambda: 0


def _like_metrana(module: ModuleType, scalar: Callable[[int], object], close: Callable[[], object]) -> Logger:
    logger = Logger(scalar, close)
    logger.calls["scalar"] = lambda i: module.log("loss", 0.5)
    logger.forms = lambda: forms.forms(module, module.__name__ == "kymogram")
    logger.arrays = sorted(forms.ARRAYS)
    return logger


def kymogram(folder: str, server: str, queue: int | None) -> Logger:
    import kymogram as module

    module.init(project_name="peers", run_name="life", server=server, log_level="ERROR", default_dtype=DTYPE)
    logger = _like_metrana(module, lambda i: module.log("value", float(i), step=i), lambda: module.close(60))
    logger.block = lambda i: module.log("value", [float(value) for value in range(i, i + 1000)], step=i)
    logger.dropped = lambda: module.get_metrics().float_points_dropped
    return logger


def _metrana(queue: int | None, **options: object) -> Logger:
    import metrana as module

    if queue:
        options |= {"queue_capacity": queue, "backpressure_strategy": "block"}
    module.init(workspace_name="w", project_name="p", run_name="life", api_key="key", log_level="ERROR", **options)
    return _like_metrana(module, lambda i: module.log("value", float(i), step=i), module.close)


def metrana_111(folder: str, server: str, queue: int | None) -> Logger:
    spool = None if queue else os.path.join(folder, "spool")
    return _metrana(queue, ingestion_url=server, disk=spool, capture_system_metrics=False, default_dtype=DTYPE)


def metrana_052(folder: str, server: str, queue: int | None) -> Logger:
    logger = _metrana(queue, ingestion_url=server)
    logger.forms = lambda: forms.oldest(sys.modules["metrana"])
    return logger


def wandb(folder: str, server: str, queue: int | None) -> Logger:
    import wandb as module

    settings = module.Settings(silent=True, console="off", x_disable_stats=True)
    run = module.init(mode="offline", project="peers", dir=folder, settings=settings)
    logger = Logger(lambda i: run.log({"value": float(i)}, step=i), run.finish)
    row = dict.fromkeys(NAMES, 0.5)
    logger.calls["mapping of 10"] = lambda i: run.log(row)
    logger.calls["scalar"] = lambda i: run.log({"loss": 0.5})
    return logger


def tensorboard(folder: str, server: str, queue: int | None) -> Logger:
    import time

    from tensorboard.compat.proto.event_pb2 import Event
    from tensorboard.compat.proto.summary_pb2 import Summary
    from tensorboard.summary.writer.event_file_writer import EventFileWriter

    # The writer under torch.utils.tensorboard, as that calls it.
    writer = EventFileWriter(folder, 10, 120)

    def add(tag: str, value: float, step: int) -> None:
        summary = Summary(value=[Summary.Value(tag=tag, simple_value=value)])
        writer.add_event(Event(wall_time=time.time(), step=step, summary=summary))

    def row(i: int) -> None:
        for name in NAMES:
            add(name, 0.5, i)

    logger = Logger(lambda i: add("value", float(i), i), writer.close)
    logger.calls["mapping of 10"] = row
    return logger


def trackio(folder: str, server: str, queue: int | None) -> Logger:
    import trackio as module

    module.init(project="peers", name="life", embed=False)
    logger = Logger(lambda i: module.log({"value": float(i)}, step=i), module.finish)
    row = dict.fromkeys(NAMES, 0.5)
    logger.calls["mapping of 10"] = lambda i: module.log(row)
    return logger


def mlflow(folder: str, server: str, queue: int | None) -> Logger:
    import mlflow as module

    module.set_tracking_uri(f"sqlite:///{folder}/mlflow.db")
    module.start_run()
    logger = Logger(lambda i: module.log_metric("value", float(i), step=i), module.end_run)
    row = dict.fromkeys(NAMES, 0.5)
    logger.calls["mapping of 10"] = lambda i: module.log_metrics(row, step=i)
    return logger


OPEN: dict[str, Callable[[str, str, int | None], Logger]] = {
    "kymogram": kymogram,
    "metrana-1.11": metrana_111,
    "metrana-0.5.2": metrana_052,
    "wandb": wandb,
    "tensorboard": tensorboard,
    "trackio": trackio,
    "mlflow": mlflow,
}


def preload(name: str) -> None:
    """Import what the logger imports, so that opening it can be timed alone."""
    if name == "kymogram" or name.startswith("metrana"):
        __import__("numpy")
        __import__("metrana" if name.startswith("metrana") else name)


def environment(name: str, folder: str) -> dict[str, str]:
    """What a process of the logger gets: its files in the folder, and no network of its own choice."""
    foreign = ("KYMOGRAM_", "METRANA_", "WANDB_", "MLFLOW_", "TRACKIO_", "SLURM_", "TORCHELASTIC_")
    env = {k: v for k, v in os.environ.items() if not k.startswith(foreign)}
    return env | {
        "HOME": folder,
        "XDG_CONFIG_HOME": os.path.join(folder, "config"),
        "XDG_STATE_HOME": os.path.join(os.path.dirname(folder), "state"),
        "KYMOGRAM_SPOOL_DIR": os.path.join(folder, "spool"),
        "TRACKIO_DIR": folder,
        "WANDB_DIR": folder,
        "HF_HUB_OFFLINE": "1",
        "MLFLOW_DISABLE_TELEMETRY": "true",
        "GIT_PYTHON_REFRESH": "quiet",
    }
