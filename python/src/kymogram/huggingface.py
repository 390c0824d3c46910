"""A callback for Hugging Face's `transformers.Trainer`.

>>> from kymogram.huggingface import KymogramCallback
>>> trainer = Trainer(..., callbacks=[KymogramCallback(project_name="bert")])

Logged are the Trainer's logs as train/…, eval/… and test/…, with the global
step as their step, and the arguments and the model's configuration under
`config/`. A training that goes on from a checkpoint opens a new attempt of its
run: points after the checkpoint are the new ones. A second train() from step 0
continues after the last step of the first; every trial of hyperparameter_search() is a
run of its own.
"""

from __future__ import annotations

from typing import Any

from transformers import TrainerCallback

from ._adapters import Door
from ._points.current import current

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
        self._before = 0  # the steps of earlier train() calls in the same run
        self._trials = 0

    def _open(self, args: Any, state: Any, model: Any) -> bool:
        if not state.is_world_process_zero:
            return False
        if self._door.is_open:
            return True
        begun = self._begin(state)
        if state.is_hyper_param_search:
            self._door.another(run_name=self._trial(args, state))
        else:
            self._door.open(run_name=_named(args), **_resume(begun))
        self._configure(args, model)
        return True

    def _begin(self, state: Any) -> int:
        begun = int(state.global_step)
        self._epoch_at, self._before = -1, 0
        return begun

    def _trial(self, args: Any, state: Any) -> str:
        """The name of a trial's run: within the run's own name where that is given."""
        self._trials += 1
        name = str(state.trial_name or f"trial-{self._trials}")
        given = self._door.arguments.get("run_name") or _named(args)
        return f"{given}-{name}" if given else name

    def _again(self, args: Any, state: Any, model: Any) -> None:
        """Another train() while the run is open."""
        if state.is_hyper_param_search:
            if self._door.another(run_name=self._trial(args, state)) is not None:
                self._begin(state)
        elif 0 < state.global_step < self._door.reached.get("step", 0):  # from a checkpoint
            name = None if current.run is None else current.run.name
            if self._door.another(run_name=name, **_resume(int(state.global_step))) is not None:
                self._begin(state)
        if state.global_step == 0:
            self._before = self._door.reached.get("step", 0)
        self._configure(args, model)

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
            self._again(args, state, model)
        self._open(args, state, model)

    def on_log(
        self, args: Any, state: Any, control: Any, logs: Any = None, model: Any = None, **_: Any
    ) -> None:
        """Log the numbers among the logs."""
        if logs and self._open(args, state, model):
            step = self._door.reached["step"] = self._before + int(state.global_step)
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


def _resume(begun: int) -> dict[str, Any]:
    if not begun:
        return {}
    return {"resume_strategy": "allow", "resume_from_step": begun + 1}


def _named(args: Any) -> str | None:
    """The Trainer's run name, unless it is only the output folder."""
    name = getattr(args, "run_name", None)
    return str(name) if name and name != args.output_dir else None


def _rename(name: str) -> str:
    for prefix in ("eval", "test"):
        if name.startswith(prefix + "_"):
            return f"{prefix}/{name[len(prefix) + 1 :]}"
    return f"train/{name}"
