"""The current run and the process: made current by init(), closed at exit, left in a fork."""

from __future__ import annotations

import atexit
import os
import sys

from .._points import tables
from .._points.current import current
from . import signals

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Protocol

    class Process(Protocol):
        """What of a run ends with the process."""

        def logger_for_points(self) -> Any: ...
        def close(self, close_timeout: float | None = ...) -> Any: ...
        def forked(self) -> None: ...
        def end(self) -> None: ...
        def fail(self, error: BaseException | None = ...) -> None: ...


_beside: list[Any] = []  # open runs that are not the current one, such as a MetricsLogger's


def attach(run: Process) -> None:
    """Make a run the current one."""
    tables.forget()
    current.run, current.logger, current.closed = run, run.logger_for_points, False
    _watch_the_end()


def keep(run: Process) -> None:
    """Close a run at exit, and open it anew in a fork, though it is not the current one."""
    _beside.append(run)
    _watch_the_end()


def detach(run: Process) -> None:
    """Let go of a run that is closed."""
    if run in _beside:
        _beside.remove(run)
    if current.run is run:
        current.run = current.logger = None
        current.closed = True
        tables.forget()


def close_with_worker(run: Process) -> None:
    """A worker of multiprocessing ends without atexit."""
    process = sys.modules.get("multiprocessing.process")
    util = sys.modules.get("multiprocessing.util")
    if process is not None and util is not None and process.parent_process() is not None:
        util.Finalize(None, run.close, exitpriority=10)


def _after_fork() -> None:
    tables.forget()
    signals.forked()
    for run in _open():
        run.forked()


def _open() -> list[Any]:
    return [*_beside, *([] if current.run is None else [current.run])]


def _at_exit() -> None:
    # The exception that ends the process, whatever hook it was shown by. A prompt also
    # leaves those there that somebody went on after.
    error = None if hasattr(sys, "ps1") else getattr(sys, "last_value", None)
    for run in _open():
        if error is not None:
            run.fail(error)
        run.end()


_watching = False


def _watch_the_end() -> None:
    """Close at exit."""
    global _watching
    if not _watching:
        _watching = True
        atexit.register(_at_exit)


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)
