"""A callback for Keras, on any of its back ends.

>>> from kymogram.keras import KymogramCallback
>>> model.fit(x, y, epochs=3, callbacks=[KymogramCallback(project_name="digits")])
"""

from __future__ import annotations

from typing import Any

from keras.callbacks import Callback

from ._adapters import Door

__all__ = ["KymogramCallback"]


class KymogramCallback(Callback):
    """Logs every epoch's logs under Keras' names, the epoch as their step.

    Takes the arguments of kymogram.init(), which it calls when training begins;
    a run that is open already is used. With `batch_frequency=N` every N-th batch
    is logged too, as batch/…, the optimizer's iteration as its step. evaluate()
    outside of fit() is logged as evaluate/…. The run ends with the process or by
    close(). `fit(initial_epoch=E)` continues at epoch E; give `resume_strategy=
    "allow"` and `resume_from_step=E` to let it replace what an earlier attempt
    logged there. Another fit() that begins at an epoch that was logged already
    continues after the last one.
    """

    def __init__(self, batch_frequency: int = 0, **arguments: Any) -> None:
        super().__init__()
        if batch_frequency < 0:
            raise ValueError(f"batch_frequency is 0 (never) or more, got {batch_frequency}")
        self._door = Door(arguments)
        self._frequency = batch_frequency
        self._before = 0  # the epochs of earlier fits, where they are counted anew
        self._batches_before = 0
        self._batches = 0
        self._begins = True
        self._fitting = False

    def set_params(self, params: Any) -> None:
        """The beginning of fit(), evaluate() or predict(); fit()'s own evaluation has none."""
        super().set_params(params)
        self._fitting = False

    def on_epoch_begin(self, epoch: int, logs: Any = None) -> None:
        """Find the epoch's place behind those of earlier fits."""
        last = self._door.reached.get("epoch", -1)
        self._before = max(self._before, last + 1 - epoch)

    def on_train_begin(self, logs: Any = None) -> None:
        """Open the run and log the configuration."""
        self._fitting = self._begins = True
        self._before = self._batches_before = 0
        self._door.open()
        self._door.config(self._configuration())

    def _configuration(self) -> dict[str, Any]:
        found: dict[str, Any] = {"fit": dict(self.params or {})}
        if self.model is not None:
            found["model"] = {"name": self.model.name, "parameters": _parameters(self.model)}
            optimizer = getattr(self.model, "optimizer", None)
            if optimizer is not None:
                found["optimizer"] = optimizer.get_config()
        return found

    def on_train_batch_end(self, batch: int, logs: Any = None) -> None:
        """Log one batch in N."""
        self._batches += 1
        if self._frequency and self._batches % self._frequency == 0:
            self._door.open()
            values = {f"batch/{name}": one for name, one in (logs or {}).items()}
            step, reached = self._iteration(), self._door.reached
            if self._begins:
                self._batches_before = max(0, reached.get("batch", -1) + 1 - step)
                self._begins = False
            reached["batch"] = step + self._batches_before
            self._door.numbers(values, reached["batch"])

    def _iteration(self) -> int:
        """How many batches the optimizer has seen, in earlier fits and lives too."""
        iterations = getattr(getattr(self.model, "optimizer", None), "iterations", None)
        return self._batches if iterations is None else int(iterations)

    def on_epoch_end(self, epoch: int, logs: Any = None) -> None:
        """Log the epoch."""
        self._door.open()
        step, reached = epoch + self._before, self._door.reached
        reached["epoch"] = max(reached.get("epoch", -1), step)
        self._door.numbers(dict(logs or {}), step)

    def on_train_end(self, logs: Any = None) -> None:
        """The end of fit()."""
        self._fitting = False

    def on_test_end(self, logs: Any = None) -> None:
        """Log an evaluation that is not fit()'s own."""
        if not self._fitting:
            self._door.open()
            values = {f"evaluate/{name}": one for name, one in (logs or {}).items()}
            self._door.numbers(values, self._door.reached.get("epoch", 0))

    def close(self) -> None:
        """End the run, if this callback opened it."""
        self._door.close()


def _parameters(model: Any) -> int | None:
    try:
        return int(model.count_params())
    except ValueError:  # it is not built yet
        return None
