"""A fit() of Keras on TensorFlow with W&B's callbacks, and what it logged."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import keras
import numpy
import wandb
from wandb.integration.keras import WandbMetricsLogger


class Witness(keras.callbacks.Callback):
    """Writes down what fit() tells its callbacks."""

    def __init__(self) -> None:
        super().__init__()
        self.rows: list[dict[str, Any]] = []
        self.batches = 0

    def on_train_batch_end(self, batch: int, logs: Any = None) -> None:
        row = {f"batch/{name}": float(value) for name, value in logs.items()}
        row |= {"batch/batch_step": self.batches, "batch/learning_rate": rate(self.model)}
        self.rows.append(row)
        self.batches += 1

    def on_epoch_end(self, epoch: int, logs: Any = None) -> None:
        row = {f"epoch/{name}": float(value) for name, value in logs.items()}
        self.rows.append({**row, "epoch/epoch": epoch, "epoch/learning_rate": rate(self.model)})


def rate(model: Any) -> float:
    return float(numpy.asarray(model.optimizer.learning_rate))


def main(folder: Path) -> None:
    keras.utils.set_random_seed(1)
    x = numpy.linspace(0, 1, 32).reshape(-1, 1)
    net = keras.Sequential([keras.layers.Input((1,)), keras.layers.Dense(1)])
    net.compile(keras.optimizers.SGD(0.05), "mse", metrics=["mae"])
    config = {"learning_rate": 0.05, "epochs": 3, "layers": {"dense": [1]}}
    run = wandb.init(project="frames", name="fit", config=config)
    witness = Witness()
    net.fit(
        *(x, x),
        epochs=3,
        batch_size=8,
        validation_split=0.25,
        verbose=0,
        callbacks=[WandbMetricsLogger(log_freq="batch"), witness],
    )
    run.summary["best"] = 0.5
    said = {
        "run": run.id,
        "name": "fit",
        "rows": witness.rows,
        "summary": {"best": 0.5},
        "config": config,
    }
    (folder / "said.json").write_text(json.dumps(said))
    run.finish()


main(Path(sys.argv[1]))
