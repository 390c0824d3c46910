"""A logger for PyTorch Lightning (`lightning` or `pytorch_lightning`).

>>> from kymogram.lightning import KymogramLogger
>>> trainer = Trainer(logger=KymogramLogger(project_name="digits", run_name="lr0.3"))

Rank 0 logs, as in every logger of Lightning; `self.log` decides how ranks are
reduced. Metrics keep Lightning's names, with the global step as their step;
hyper-parameters go under `config/`.
"""

from __future__ import annotations

import sys
from typing import Any

from ._adapters import Door

# The one that the program uses: a Trainer takes no logger of the other's.
if "pytorch_lightning" in sys.modules and "lightning.pytorch" not in sys.modules:
    from pytorch_lightning.loggers.logger import Logger, rank_zero_experiment
    from pytorch_lightning.utilities.rank_zero import rank_zero_only
else:
    try:
        from lightning.pytorch.loggers.logger import Logger, rank_zero_experiment
        from lightning.pytorch.utilities.rank_zero import rank_zero_only
    except ImportError:
        from pytorch_lightning.loggers.logger import Logger, rank_zero_experiment
        from pytorch_lightning.utilities.rank_zero import rank_zero_only

__all__ = ["KymogramLogger"]


class KymogramLogger(Logger):
    """Logs a Trainer's metrics and hyper-parameters.

    Takes the arguments of kymogram.init(), which it calls at the first metric;
    a run that is open already is used. The run stays open after fit(), so that
    test() logs into it too; it ends with the process, by close(), or as failed
    when fit() raised. The fit() of another Trainer, which counts from 0 again,
    continues after the last step. To continue from a checkpoint give
    `resume_strategy="allow"` and `resume_from_step`, the checkpoint's global step.
    """

    def __init__(self, **arguments: Any) -> None:
        super().__init__()
        self._door = Door(arguments)
        self._epoch_at: int | None = None  # Lightning repeats the epoch with every log of a step
        self._before = 0  # the steps of earlier Trainers

    @property
    def name(self) -> str:
        """The project: the first folder of checkpoints."""
        return str(self._door.arguments.get("project_name") or "kymogram")

    @property
    def version(self) -> str | None:
        """The run's name: the second folder of checkpoints; None on other ranks."""
        found = self.experiment
        given = self._door.arguments.get("run_name")
        return str(found.name) if isinstance(getattr(found, "name", None), str) else given

    @property
    @rank_zero_experiment
    def experiment(self) -> Any:
        """The kymogram.Run, opened now if it was not; a stand-in on other ranks."""
        return self._door.open()

    @rank_zero_only
    def log_metrics(self, metrics: dict[str, Any], step: int | None = None) -> None:
        """Log numbers at one step."""
        self._door.open()
        if step is not None:
            step += self._before
            self._door.reached["step"] = max(self._door.reached.get("step", -1), step)
        found = dict(metrics)
        if "epoch" in found and step is not None:
            if step == self._epoch_at:
                del found["epoch"]
            self._epoch_at = step
        self._door.numbers(found, step)

    @rank_zero_only
    def log_hyperparams(self, params: Any, *_: Any, **__: Any) -> None:
        """Log hyper-parameters (a mapping or Namespace) under `config/`."""
        self._door.open()
        self._door.config(vars(params) if not hasattr(params, "items") else params)

    @rank_zero_only
    def log_graph(self, model: Any, input_array: Any = None) -> None:
        """Keeps no graph: a Trainer that begins calls this, and may count from 0."""
        trainer = getattr(model, "_trainer", None)
        if trainer is None or not trainer.training:
            return
        if trainer.global_step == 0 and trainer.ckpt_path is None:
            self._before, self._epoch_at = self._door.reached.get("step", -1) + 1, None

    @rank_zero_only
    def finalize(self, status: str) -> None:
        """End of fit(), validate() or test(); only a failure ends the run."""
        if status == "failed":
            self._door.fail()
            self._door.close()

    def close(self) -> None:
        """End the run, if this logger opened it."""
        self._door.close()
