"""A Trainer of Hugging Face that reports to W&B, and what it reported."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import torch
import transformers
import wandb


class Config(transformers.PretrainedConfig):
    """Of a model with one layer."""

    model_type = "tiny"

    def __init__(self, width: int = 4, **more: Any) -> None:
        self.width = width
        super().__init__(**more)


class Model(transformers.PreTrainedModel):
    """One layer."""

    config_class = Config

    def __init__(self, config: Any) -> None:
        super().__init__(config)
        self.layer = torch.nn.Linear(config.width, 1)
        self.post_init()

    def forward(self, x: Any, labels: Any = None) -> Any:
        found = self.layer(x)
        return {"loss": (found - labels).square().mean(), "logits": found}


# What the Trainer reports once, and W&B keeps in the summary.
ONCE = (
    *("train_runtime", "train_samples_per_second", "train_steps_per_second"),
    *("train_loss", "total_flos"),
)


class Witness(transformers.TrainerCallback):
    """Writes down what the Trainer reports, by the names that W&B shows."""

    def __init__(self) -> None:
        self.rows: list[dict[str, Any]] = []
        self.summary: dict[str, Any] = {}

    def on_log(self, args: Any, state: Any, control: Any, logs: Any = None, **_: Any) -> None:
        row: dict[str, Any] = {"train/global_step": state.global_step}
        for name, value in logs.items():
            if name in ONCE:
                self.summary[name] = value
            else:
                begin, _, rest = name.partition("_")
                row[f"{begin}/{rest}" if begin in ("eval", "test") else f"train/{name}"] = value
        self.rows.append(row)


def main(folder: Path) -> None:
    torch.manual_seed(0)
    rows = [{"x": torch.randn(4), "labels": torch.randn(1)} for _ in range(16)]
    witness = Witness()
    arguments = transformers.TrainingArguments(
        output_dir=str(folder / "out"),
        per_device_train_batch_size=4,
        num_train_epochs=3,
        learning_rate=0.01,
        logging_steps=1,
        eval_strategy="epoch",
        save_strategy="epoch",
        report_to="wandb",
        run_name="fine-tune",
        use_cpu=True,
        disable_tqdm=True,
    )
    work = transformers.Trainer(
        model=Model(Config(width=4)),
        args=arguments,
        train_dataset=rows,
        eval_dataset=rows,
        callbacks=[witness],
    )
    work.train()
    work.evaluate()
    assert wandb.run is not None
    said = {
        "run": wandb.run.id,
        "name": "fine-tune",
        "rows": witness.rows,
        "summary": witness.summary,
        "config": {
            "learning_rate": 0.01,
            "num_train_epochs": 3,
            "width": 4,
            "model_type": "tiny",
            "run_name": "fine-tune",
            "model/num_parameters": 5,
        },
    }
    (folder / "said.json").write_text(json.dumps(said))
    wandb.finish()


main(Path(sys.argv[1]))
