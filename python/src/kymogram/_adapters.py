"""What the adapters for frameworks share: a run of their own or the open one.

An adapter never raises into a training loop: a value that no run can hold is
named in one warning, and the rest is logged. Names are the frameworks' and their
users': what a series cannot be called becomes `_`, and the label `exact_name`
keeps it.
"""

from __future__ import annotations

import sys
from weakref import WeakKeyDictionary

from . import _api
from ._exceptions import KymogramValidationError
from ._init import init
from ._log import log
from ._points.current import current
from ._say import voice
from .metrics.handlers import spelled

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any

    from ._run import Run


# How far adapters have come in each run: an adapter may join where another was.
_REACHED: WeakKeyDictionary[Run, dict[str, int]] = WeakKeyDictionary()


class Door:
    """Opens a run at the first use; a run that is open already is joined and never closed."""

    def __init__(self, arguments: Mapping[str, Any]) -> None:
        self.arguments = dict(arguments)
        self._run: Run | None = None

    def __getstate__(self) -> dict[str, Any]:
        """A pickled door is closed: the process that opens it has a run of its own."""
        return {"arguments": self.arguments, "_run": None}

    def open(self, **defaults: Any) -> Run:
        """The run; `defaults` are arguments of init() that the user did not give."""
        run: Run | None = current.run
        if run is None:
            chosen = {name: one for name, one in defaults.items() if one is not None}
            run = self._run = init(**{**chosen, **self.arguments})
        name = self.arguments.get("run_name")
        if run is not self._run and name is not None and not run.is_called(name):
            voice.warn(
                f"the run {run.name!r} is open: what {name!r} was to have goes there too; "
                "close() it first, or open each run by init()",
                once=f"joined {run.id} {name}",
            )
        return run

    def another(self, **chosen: Any) -> Run | None:
        """End the own run and open one by these arguments; None where the user's is open."""
        if self._run is None and current.run is not None:
            return None
        self.close()
        given = {name: one for name, one in chosen.items() if one is not None}
        self._run = init(**{**self.arguments, **given})
        return self._run

    @property
    def is_open(self) -> bool:
        """Whether there is a run to log to."""
        return current.run is not None

    @property
    def reached(self) -> dict[str, int]:
        """The last step of each kind in the open run, whichever adapter logged it."""
        return {} if current.run is None else _REACHED.setdefault(current.run, {})

    def numbers(
        self, values: Mapping[str, Any], step: int | None, labels: Mapping[str, str] | None = None
    ) -> None:
        """Log the numbers among the values at one step."""
        found = {str(name): one for name, one in values.items() if _is_number(one)}
        if not found:
            return
        try:
            log(found, step=step, labels=labels)
        except KymogramValidationError:
            for name, one in found.items():
                self._try(name, lambda name=name, one=one: _log_spelled(name, one, step, labels))

    def config(self, values: Mapping[str, Any]) -> None:
        """Log the configuration that the framework knows."""
        try:
            _api.log_config(values)
        except KymogramValidationError:
            for name, one in values.items():
                self._try(f"config {name}", lambda name=name, one=one: _api.log_config({name: one}))

    def _try(self, what: str, call: Any) -> None:
        try:
            call()
        except KymogramValidationError as error:
            voice.warn(f"{what} is not logged: {error}", once=f"adapter {what}")

    def fail(self) -> None:
        """The run's work ended by an exception: the one that is being handled."""
        if self._run is not None:
            self._run.fail(sys.exc_info()[1])

    def close(self) -> None:
        """End the run, if it was opened here."""
        run, self._run = self._run, None
        if run is not None:
            run.close()


def _log_spelled(name: str, value: Any, step: int | None, labels: Mapping[str, str] | None) -> None:
    series, exact = spelled(name)
    log(series, value, step=step, labels={**(labels or {}), **exact} if exact else labels)


def _is_number(value: Any) -> bool:
    """Numbers and tensors of one element; not text, media or missing values."""
    if isinstance(value, (int, float)):
        return True
    if isinstance(value, (str, bytes)) or value is None:
        return False
    size = getattr(value, "numel", None) or getattr(value, "size", None)
    count = size() if callable(size) else size
    return count == 1 and hasattr(value, "__float__") and getattr(value, "ndim", 0) == 0
