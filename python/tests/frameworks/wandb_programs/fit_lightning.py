"""A Trainer of Lightning with the WandbLogger, and what it logged."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import lightning.pytorch as lightning
import torch
from lightning.pytorch.loggers import WandbLogger
from lightning.pytorch.loggers.logger import Logger


class Witness(Logger):
    """A second logger that writes down what it is given."""

    name, version = "witness", "0"

    def __init__(self) -> None:
        super().__init__()
        self.rows: list[dict[str, Any]] = []

    def log_metrics(self, metrics: Any, step: int | None = None) -> None:
        self.rows.append({**metrics, "trainer/global_step": step})

    def log_hyperparams(self, params: Any, *_: Any, **__: Any) -> None:
        self.params = dict(params)


class Model(lightning.LightningModule):
    """One layer."""

    def __init__(self, lr: float = 0.1, layers: tuple[int, ...] = (1, 1)) -> None:
        super().__init__()
        self.save_hyperparameters()
        self.layer = torch.nn.Linear(1, 1)

    def training_step(self, batch: Any, _: int) -> Any:
        loss = self.layer(batch[0]).square().mean()
        self.log("loss", loss, on_step=True, on_epoch=True)
        return loss

    def validation_step(self, batch: Any, _: int) -> None:
        self.log("val/loss", self.layer(batch[0]).abs().mean())

    def configure_optimizers(self) -> Any:
        return torch.optim.SGD(self.parameters(), self.hparams.lr)


def main(folder: Path, log_model: str) -> None:
    lightning.seed_everything(1)
    rows = torch.utils.data.TensorDataset(torch.linspace(0, 1, 8).reshape(-1, 1))
    data = torch.utils.data.DataLoader(rows, batch_size=2)
    keep = log_model == "model"
    theirs = WandbLogger(project="frames", name="fit", save_dir=folder, log_model=keep)
    witness = Witness()
    work = lightning.Trainer(
        logger=[theirs, witness],
        max_epochs=3,
        log_every_n_steps=1,
        accelerator="cpu",
        enable_progress_bar=False,
        enable_model_summary=False,
        default_root_dir=folder,
    )
    work.fit(Model(lr=0.05), data, data)
    said = {
        "run": theirs.experiment.id,
        "name": "fit",
        "rows": witness.rows,
        "summary": {},
        "config": {"lr": 0.05, "layers": [1, 1]},
    }
    (folder / "said.json").write_text(json.dumps(said))
    theirs.experiment.finish()


main(Path(sys.argv[1]), sys.argv[2])
