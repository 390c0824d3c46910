"""A callback for Hugging Face's `transformers.Trainer`.

>>> from kymogram.huggingface import KymogramCallback
>>> trainer = Trainer(..., callbacks=[KymogramCallback(project_name="bert")])

Logged are the Trainer's logs as train/…, eval/… and test/…, with the global
step as their step, and the arguments and the model's configuration under
`config/`. A training that goes on from a checkpoint opens a new attempt of its
run: points after the checkpoint are the new ones.
"""

from __future__ import annotations

from typing import Any

from transformers import TrainerCallback

from ._adapters import Door

__all__ = ["KymogramCallback"]


class KymogramCallback(TrainerCallback):
    """Logs what the Trainer logs, on the first process of the job.

    Takes the arguments of kymogram.init(), which it calls when training begins;
    a run that is open already is used. `run_name` is the Trainer's by default.
    The run ends with the process or by close(), so evaluate() logs into it too.
    """

    def __init__(self, **arguments: Any) -> None:
        self._door = Door(arguments)
        self._epoch_at = -1  # the step whose epoch is logged: every log of a step repeats it

    def _open(self, args: Any, state: Any, model: Any) -> bool:
        if not state.is_world_process_zero:
            return False
        if self._door.is_open:
            return True
        begun, self._epoch_at = int(state.global_step), -1
        self._door.open(
            run_name=state.trial_name or _named(args),
            resume_strategy="allow" if begun else None,
            resume_from_step=begun + 1 if begun else None,
        )
        self._configure(args, model)
        return True

    def _configure(self, args: Any, model: Any) -> None:
        found = dict(args.to_dict())
        configuration = getattr(model, "config", None)
        if configuration is not None:
            to_dict = getattr(configuration, "to_dict", None)
            found["model"] = to_dict() if to_dict is not None else configuration
        if hasattr(model, "num_parameters"):
            found["num_parameters"] = model.num_parameters()
        self._door.config(found)

    def on_train_begin(
        self, args: Any, state: Any, control: Any, model: Any = None, **_: Any
    ) -> None:
        """Open the run and log the configuration."""
        if self._door.is_open and state.is_world_process_zero:
            self._configure(args, model)
        self._open(args, state, model)

    def on_log(
        self, args: Any, state: Any, control: Any, logs: Any = None, model: Any = None, **_: Any
    ) -> None:
        """Log the numbers among the logs."""
        if logs and self._open(args, state, model):
            step = int(state.global_step)
            named = {_rename(name): one for name, one in logs.items()}
            if step == self._epoch_at:
                named.pop("train/epoch", None)
            elif "train/epoch" in named:
                self._epoch_at = step
            self._door.numbers(named, step)

    def on_predict(
        self, args: Any, state: Any, control: Any, metrics: Any = None, model: Any = None, **_: Any
    ) -> None:
        """Log the metrics of predict() as test/…."""
        self.on_log(args, state, control, metrics, model)

    def close(self) -> None:
        """End the run, if this callback opened it."""
        self._door.close()


def _named(args: Any) -> str | None:
    """The Trainer's run name, unless it is only the output folder."""
    name = getattr(args, "run_name", None)
    return str(name) if name and name != args.output_dir else None


def _rename(name: str) -> str:
    for prefix in ("eval", "test"):
        if name.startswith(prefix + "_"):
            return f"{prefix}/{name[len(prefix) + 1 :]}"
    return f"train/{name}"
