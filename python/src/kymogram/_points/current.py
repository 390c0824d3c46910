"""The run that the module's functions act on, and its logger."""

from __future__ import annotations

from .._exceptions import KymogramLoggerClosedError, KymogramNotInitializedError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from .logger import Logger


class Current:
    """The run that the module's functions act on."""

    __slots__ = ("closed", "logger", "run")

    def __init__(self) -> None:
        self.run: Any = None
        self.logger: Callable[[], Logger] | None = None
        self.closed = False


current = Current()


def logger() -> Logger:
    """The logger of the current run."""
    found = current.logger
    if found is None:
        if current.closed:
            raise KymogramLoggerClosedError("the run is closed; call kymogram.init() for another")
        raise KymogramNotInitializedError("call kymogram.init() first")
    return found()
