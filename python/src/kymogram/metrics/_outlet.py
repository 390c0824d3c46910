"""Between the program and a handler: a bounded queue, a thread and counters.

A handler is foreign code that may fail or block, on a pipe that nobody reads
for instance. The program never feels it: what does not fit into the queue is
dropped and counted. Handlers that only write to memory are called at once.
"""

from __future__ import annotations

import atexit
import os
import sys
import threading
import time
from queue import SimpleQueue
from typing import NamedTuple

from .._say import voice

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable
    from typing import Any, Protocol

    Metric = tuple[float, str, str, float]  # MetricData of api

    class Handler(Protocol):
        """What takes the metrics; api.MetricHandler is one."""

        def emit(self, metric_data: Any) -> None: ...


CAPACITY = 10_000  # metrics; some 3 MB
EXIT_S = 2.0  # what a slow handler may cost at the program's end
FORK_S = 0.5  # and at a fork


class Counts(NamedTuple):
    """What became of the metrics that a handler was given."""

    handler: object
    emitted: int
    failed: int
    dropped: int
    waiting: int


class Outlet:
    """The way to one handler."""

    def __init__(self, handler: Handler, capacity: int = CAPACITY) -> None:
        self.handler: Any = handler
        self.emitted = 0
        self.failed = 0
        self.dropped = 0
        self._capacity = capacity
        self._at_once = bool(getattr(handler, "at_once", False))
        self._reset()

    def _reset(self) -> None:
        """Begin with nothing in the queue and no thread."""
        self._queue: SimpleQueue[Metric | threading.Event | None] = SimpleQueue()
        self._thread: threading.Thread | None = None
        self._starting = threading.Lock()
        # Held while the handler works: no process is forked in the middle of that, whose copy
        # of the handler's file would stay locked by a thread that did not come along.
        self.working = threading.Lock()

    def put(self, data: Metric) -> None:
        """Hand a metric over; never raises, never waits."""
        if self._at_once:
            self._emit(data)
        elif self._queue.qsize() >= self._capacity:
            self.dropped += 1
            self._warn("is too slow: metrics are dropped")
        else:
            self._queue.put(data)
            if self._thread is None:
                self._start()

    def _emit(self, data: Metric) -> None:
        try:
            self.handler.emit(data)
        except BaseException as error:  # whatever a handler does is not the program's
            if self._at_once and isinstance(error, KeyboardInterrupt):
                raise  # that is the user's, not the handler's
            self.failed += 1
            self._warn(f"failed: {type(error).__name__}: {error}")
        else:
            self.emitted += 1

    def _warn(self, what: str) -> None:
        name = type(self.handler).__name__
        text = f"the metric handler {name} {what}; kymogram.metrics.counts() tells how often"
        voice.warn(text, once=f"metrics {id(self)} {what[:6]}")

    def _start(self) -> None:
        with self._starting:
            if self._thread is not None:
                return
            thread = threading.Thread(target=self._work, name="kymogram-metrics", daemon=True)
            try:
                thread.start()
            except RuntimeError:  # the interpreter ends; flush() counts what is left
                return
            self._thread = thread
        outlets.end_with_process()

    def _work(self) -> None:
        queue = self._queue
        while True:
            item = queue.get()
            if item is None:
                return
            if isinstance(item, threading.Event):
                item.set()
            else:
                with self.working:
                    self._emit(item)

    def flush(self, timeout: float) -> bool:
        """Wait until everything put before is with the handler."""
        if self._thread is None:
            return self._queue.empty()
        reached = threading.Event()
        self._queue.put(reached)
        return reached.wait(timeout)

    def close(self) -> None:
        """Let the thread end once the queue is empty."""
        if self._thread is not None:
            self._queue.put(None)

    def counts(self) -> Counts:
        """The counters."""
        waiting = self._queue.qsize()
        return Counts(self.handler, self.emitted, self.failed, self.dropped, waiting)


class Outlets:
    """The outlets of a program, one a handler."""

    def __init__(self) -> None:
        self._all: list[Outlet] = []
        self._kept: list[Outlet] = []
        self._lock = threading.Lock()
        self._held: list[threading.Lock] = []  # while a process is forked
        self._ends_in: int | None = None  # the process whose end waits for the handlers

    def of(self, handler: Handler) -> Outlet:
        """The outlet of a handler, the same for the same one."""
        with self._lock:
            for known in self._all:
                if known.handler is handler:
                    return known
            made = Outlet(handler)
            self._all.append(made)
            return made

    def keep(self, handlers: Iterable[Handler]) -> list[Outlet]:
        """The outlets of handlers that another handler feeds; they stay."""
        found = [self.of(handler) for handler in handlers]
        self._kept += found
        return found

    def retain(self, used: list[Any]) -> None:
        """Close the outlets that no group uses any more."""
        with self._lock:
            for outlet in self._all:
                if outlet not in used and outlet not in self._kept:
                    outlet.close()
            self._all = [one for one in self._all if one in used or one in self._kept]

    def flush(self, timeout: float) -> bool:
        """Wait for all outlets, so long in all."""
        deadline = time.monotonic() + timeout
        done = True
        for outlet in list(self._all):
            done &= outlet.flush(max(0.0, deadline - time.monotonic()))
        return done

    def counts(self) -> list[Counts]:
        """The counters of every handler in use."""
        return [outlet.counts() for outlet in list(self._all)]

    def before_fork(self) -> None:
        """Wait until no handler is at work. One that blocks is not waited for."""
        deadline = time.monotonic() + FORK_S
        for outlet in list(self._all):
            if outlet.working.acquire(timeout=max(0.0, deadline - time.monotonic())):
                self._held.append(outlet.working)

    def after_fork(self) -> None:
        """In the parent: handlers go on."""
        while self._held:
            self._held.pop().release()

    def end_with_process(self) -> None:
        """Have the end of a child of multiprocessing wait for the handlers.

        Such a process ends by os._exit(), without atexit, but runs these finalizers. They
        are known once its own work has begun, and so is multiprocessing.
        """
        util = sys.modules.get("multiprocessing.util")
        process = sys.modules.get("multiprocessing.process")
        if util is None or process is None or self._ends_in == os.getpid():
            return
        if process.parent_process() is not None:
            self._ends_in = os.getpid()
            util.Finalize(None, self.end, exitpriority=0)

    def forked(self) -> None:
        """In a forked child: no thread came along, and the parent delivers what waits."""
        self._lock = threading.Lock()
        self._held = []
        for outlet in self._all:
            outlet._reset()

    def end(self) -> None:
        """At exit: wait a moment, then tell what is lost."""
        if self.flush(EXIT_S):
            return
        left = sum(one.waiting for one in self.counts())
        voice.warn(f"{left} metrics were not taken by their handlers in time and are lost")


outlets = Outlets()
atexit.register(outlets.end)
if hasattr(os, "register_at_fork"):
    os.register_at_fork(
        before=lambda: outlets.before_fork(),
        after_in_parent=lambda: outlets.after_fork(),
        after_in_child=lambda: outlets.forked(),
    )
