"""A run: opened by init(), closed by close() or at exit, reopened after a fork."""

from __future__ import annotations

import atexit
import os
import sys
import time
from threading import RLock

from . import _attributes, _client, _environment, _log, _names, _rl, _spool, _status, _values
from ._exceptions import (
    KymogramClosingError,
    KymogramLoggerClosedError,
    KymogramLoggerInitError,
    KymogramSenderError,
)
from ._helper import Helper, who_delivers
from ._log import Logger, Starts, current
from ._metrics import Metrics
from ._say import voice
from ._writer import Writer

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
    from types import TracebackType
    from typing import Any

CLOSE_TIMEOUT_S = 15.0
FLUSH_TIMEOUT_S = 900.0
_ALONE_S = 0.8  # so long close() waits for a connection before it asks the server itself
_ASK_S = 0.15
_ASK_AGAIN_S = 1.0


class Run:
    """One run as this process writes it. The module's functions act on the current one."""

    def __init__(
        self,
        server: str,
        request: dict[str, Any],
        answer: dict[str, Any] | None,
        *,
        key: str | None,
        error_strategy: str,
        backpressure: str,
        close_timeout: float,
    ) -> None:
        self.server = server
        self.answer = answer
        self._request = request
        self._key = key
        self._error_strategy = error_strategy
        self._backpressure = backpressure
        self._close_timeout = close_timeout
        self._lock = RLock()
        self._closed = False
        self._failed = False
        self._error: str | None = None
        self.inherited = False
        self._logger: Logger | None = None
        self._helper: Helper | None = None
        self._announced = False
        self._open(Starts(answer))
        assert self._logger is not None
        os.environ[_environment.ATTEMPT] = self._logger.writer.writer
        self._announce()

    # identity

    @property
    def id(self) -> str:
        """The run's ULID: the server's once it answered, else this client's own."""
        return str((self.answer or {}).get("run") or self._request["local_run"])

    @property
    def name(self) -> str:
        """The run's name."""
        return str((self.answer or {}).get("run_name") or self._request["run_name"])

    @property
    def workspace(self) -> str:
        """The run's workspace."""
        return str(self._request["workspace"])

    @property
    def project(self) -> str:
        """The run's project."""
        return str(self._request["project"])

    @property
    def url(self) -> str:
        """The run's page."""
        return f"{self.server}/runs/{self.id}"

    def __repr__(self) -> str:
        return f"<kymogram.Run {self.workspace}/{self.project}/{self.name} {self.id}>"

    def _announce(self) -> None:
        """Print the page's address, once."""
        if self.answer is not None and not self._announced:
            self._announced = True
            voice.line(f"run {self.name} at {self.url}")

    def learn(self, answer: dict[str, Any] | None) -> None:
        """What the deliverer was answered when it opened a run that began without the server."""
        if self.answer is not None or answer is None:
            return
        self.answer = answer
        asked = answer.get("linked_from")
        if asked:
            voice.warn(f"the name {asked!r} was taken; the points go to the run {self.name!r}")
        self._announce()

    # opening

    def _open(self, starts: Starts) -> None:
        """Make the writer's folder and look after it."""
        writer = _open_writer(self.server, self._key, self._request, self._backpressure)
        self._logger = Logger(writer, starts)
        self._helper = Helper(self, writer)
        self._helper.start()
        _close_with_worker(self)

    def logger(self) -> Logger:
        """The logger of this process; a forked child opens its own at its first call."""
        if self._error is not None and self._error_strategy == "raise_on_log":
            error, self._error = self._error, None
            raise KymogramSenderError(error)
        if self._closed:
            raise KymogramLoggerClosedError("the run is closed; call kymogram.init() for another")
        found = self._logger
        return found if found is not None else self._open_in_child()

    def _open_in_child(self) -> Logger:
        with self._lock:
            if self._logger is None:
                now = time.time_ns()
                self._request = {
                    **self._request,
                    "writer": os.urandom(16).hex(),
                    "pid": os.getpid(),
                    "opened_ns": now,
                    "offline": True,
                }
                self._open(Starts())
            assert self._logger is not None
            return self._logger

    def forked(self) -> None:
        """In a forked child: forget the parent's writer."""
        if self._logger is not None:
            parent = self._logger.writer
            parent.abandon()
            self._request = {**self._request, "parent_attempt": parent.writer}
            self._request.pop("initial", None)
            self._request.pop("with_starts", None)
            self._request.pop("ended", None)
        self._lock = RLock()
        self._logger = self._helper = None
        self.inherited = True
        self._announced = True

    # log calls

    def _mine(self) -> None:
        if current.run is not self:
            raise KymogramLoggerClosedError("this run is closed; call kymogram.init() for another")

    def log(self, *args: Any, **kwargs: Any) -> None:
        """See kymogram.log."""
        self._mine()
        _log.log(*args, **kwargs)

    def log_distributed(self, *args: Any, **kwargs: Any) -> None:
        """See kymogram.log_distributed."""
        self._mine()
        _log.log_distributed(*args, **kwargs)

    def log_rl_episode(self, *args: Any, **kwargs: Any) -> None:
        """See kymogram.log_rl_episode."""
        self._mine()
        _rl.log_rl_episode(*args, **kwargs)

    def log_rl_environment_step(self, *args: Any, **kwargs: Any) -> None:
        """See kymogram.log_rl_environment_step."""
        self._mine()
        _rl.log_rl_environment_step(*args, **kwargs)

    # attributes

    def _update(self, updates: list[dict[str, Any]]) -> None:
        if updates:
            self.logger().writer.append_update(updates)

    def log_config(self, config: Any) -> None:
        """Log a nested configuration under `config/`."""
        self._update(_attributes.config(config))

    def log_attributes(self, prefix_path: str, value: Any) -> None:
        """Log attributes under a path; None removes one."""
        self._update(_attributes.updates(_names.path(prefix_path), value))

    def log_env_attributes(self, env_id: Any, value: Any, episode: Any = None) -> None:
        """Log attributes of an environment, of one of its episodes if given."""
        number = None if episode is None else _values.step("episode", episode)
        self._update(_attributes.environment(_names.environment(env_id), value, number))

    def set_tags(self, tags: Any) -> None:
        """Replace the run's tags."""
        self._update([{"op": "set_tags", "tags": _names.tags(tags)}])

    def add_tags(self, tags: Any) -> None:
        """Add tags."""
        self._update([{"op": "add_tags", "tags": _names.tags(tags)}])

    def remove_tags(self, tags: Any) -> None:
        """Remove tags."""
        self._update([{"op": "remove_tags", "tags": _names.tags(tags)}])

    def set_description(self, description: str | None) -> None:
        """Set the description; "" clears it."""
        text = _attributes.description(description)
        self._update([{"op": "set_description", "text": text}])

    # looking

    def get_last_step(
        self, metric_name: str, scale: str | None = None, labels: Mapping[str, str] | None = None
    ) -> int | None:
        """The last step of a series, None when it has no point yet."""
        return self.logger().last_step(metric_name, scale, labels)

    def get_env_last_rl_step_and_episode(
        self, env_id: str | None = None
    ) -> tuple[int | None, int | None]:
        """The last (rl_step, episode) of an environment."""
        return _rl.of(self.logger()).last(_names.environment(env_id))

    def get_metrics(self) -> Metrics:
        """Counters of what was logged, kept, sent and dropped."""
        writer = self.logger().writer
        with writer.lock:
            status, counts = writer.status(), writer.counts()
            held, dropped, updates = writer.held(), writer.dropped, writer.updates
            _, floats, rl, attributes, environments = writer.sent(status.mark)
        return Metrics(
            float_points_added=counts.floats + held.floats + dropped.floats,
            float_points_enqueued=counts.floats,
            float_points_sent=floats,
            float_points_dropped=dropped.floats,
            rl_float_points_added=counts.rl + held.rl + dropped.rl,
            rl_float_points_enqueued=counts.rl,
            rl_float_points_sent=rl,
            rl_float_points_dropped=dropped.rl,
            attribute_updates_added=updates[0],
            attribute_updates_enqueued=updates[0],
            attribute_updates_sent=attributes,
            env_attribute_updates_added=updates[1],
            env_attribute_updates_enqueued=updates[1],
            env_attribute_updates_sent=environments,
            points_acked=status.acked,
            points_refused=status.refused,
            points_in_memory=held.floats + held.rl,
            requests_sent=status.batches,
            connection_attempts=status.connections,
            send_errors=status.errors,
            errors_reported=voice.warnings,
        )

    def is_offline(self) -> bool:
        """Whether the points now wait for a server that does not answer."""
        if self._logger is None:
            return self.answer is None
        status = self._logger.writer.status()
        if not status.alive or status.state in (_status.NONE, _status.CONNECTING):
            return self.answer is None
        return status.state not in (_status.CONNECTED, _status.DELIVERED)

    # ending

    def trouble(self, text: str, once: str | None = None) -> None:
        """An error of the delivery: shown as the error strategy says."""
        if self._error_strategy != "silent":
            voice.warn(text, once=once or text)
        if self._error is None and self._error_strategy.startswith("raise"):
            self._error = text
            if self._error_strategy == "raise_on_log":
                _log.forget()  # the next call takes the slow path and raises

    def flush(self, timeout: float = FLUSH_TIMEOUT_S, durable: bool = False) -> bool:
        """Wait until the server has everything logged so far; True when it does.

        `durable` first forces the points to this machine's disk. Without a
        connection it returns False within a second.
        """
        writer = self.logger().writer
        if durable:
            writer.sync()
        return self._wait(writer, writer.sequence(), timeout) == "delivered"

    def close(self, close_timeout: float | None = None) -> None:
        """End the run and wait for its delivery, at most close_timeout seconds."""
        timeout = self._close_timeout
        if close_timeout is not None:
            timeout = _values.seconds("close_timeout", close_timeout)
        with self._lock:
            if self._closed:
                return
            self._closed = True
        logger, helper = self._logger, self._helper
        try:
            if logger is not None and helper is not None:
                self._finish(logger.writer, helper, timeout)
        finally:
            _detach(self)

    def _finish(self, writer: Writer, helper: Helper, timeout: float) -> None:
        _log.forget()
        last = writer.end("failed" if self._failed else "finished")
        outcome = self._wait(writer, last, timeout)
        helper.stop()
        status, counts, held = writer.status(), writer.counts(), writer.held()
        self.learn(status.opened())
        lost = writer.dropped.floats + writer.dropped.rl + held.floats + held.rl
        writer.close()
        if os.environ.get(_environment.ATTEMPT) == writer.writer:
            del os.environ[_environment.ATTEMPT]
        if lost:
            voice.warn(
                f"{lost:,} points were dropped: the disk of {writer.root} and the memory were full"
            )
        if outcome == "delivered":
            if self._error is not None and self._error_strategy == "raise_on_close":
                raise KymogramClosingError(self._error)
            return
        waiting = max(counts.floats + counts.rl - status.acked - status.refused, 0)
        self._leftover(writer, outcome, waiting, status)

    def _leftover(self, writer: Writer, outcome: str, waiting: int, status: _status.Status) -> None:
        why = {
            "refused": f"{self.server} refuses them: {status.error}",
            "timeout": f"{self.server} has not taken them yet",
        }.get(outcome, f"{self.server} was not reached")
        what = f"{waiting:,} points" if waiting else "the end of the run"
        text = f"the spool {writer.root} holds {what}; {why}; {who_delivers(writer.root)}"
        if self._error_strategy != "silent":
            voice.warn(text)
        if self._error_strategy == "raise_on_close":
            raise KymogramClosingError(text)

    def _wait(self, writer: Writer, last: int, timeout: float) -> str:
        """delivered, refused, offline (no connection) or timeout."""
        start = met = time.monotonic()
        batch = _environment.batch_job()
        pause = 0.001
        while True:
            status = writer.status()
            now = time.monotonic()
            if status.mark >= last:
                return "delivered"
            if status.alive and status.state == _status.REFUSED:
                return "refused"
            if now - start >= timeout:
                return "timeout" if status.connected else "offline"
            if status.connected:
                met = now
            elif self._helper is not None and self._helper.no_agent:
                return "offline"
            elif not batch and now - met >= _ALONE_S:
                if not self._server_answers():
                    return "offline"
                met = now + _ASK_AGAIN_S - _ALONE_S
            time.sleep(pause)
            pause = min(pause * 1.5, 0.02)

    def _server_answers(self) -> bool:
        """Whether waiting makes sense though no deliverer is connected yet."""
        return _client.answers(self.server, _ASK_S)

    def __enter__(self) -> Run:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._failed = self._failed or error is not None
        self.close()

    def fail(self) -> None:
        """An exception ends the process."""
        self._failed = True


def _open_writer(
    server: str, key: str | None, request: dict[str, Any], backpressure: str
) -> Writer:
    """Make the writer's folder in the first place that takes it."""
    tried = []
    document = {"format": 1, "server": server, "open": request}
    for root in _spool.candidates(os.environ):
        try:
            _spool.make_root(root)
            if key:
                _spool.save_key(root, server, key)
            return Writer(
                root, request["writer"], document, backpressure=backpressure, forget=_log.forget
            )
        except OSError as error:
            tried.append(f"{root}: {error}")
    raise _spool.no_room(tried)


def _close_with_worker(run: Run) -> None:
    """A worker of multiprocessing ends without atexit."""
    process = sys.modules.get("multiprocessing.process")
    util = sys.modules.get("multiprocessing.util")
    if process is not None and util is not None and process.parent_process() is not None:
        util.Finalize(None, run.close, exitpriority=10)


def _detach(run: Run) -> None:
    if current.run is run:
        current.run = current.logger = None
        current.closed = True
        _log.forget()


def attach(run: Run) -> None:
    """Make a run the current one."""
    _log.forget()
    current.run, current.logger, current.closed = run, run.logger, False
    _watch_the_end()


def current_run() -> Run:
    """The current run, or the error that there is none."""
    if current.run is None:
        _log.logger()
        raise KymogramLoggerInitError("no run")
    found: Run = current.run
    return found


def _after_fork() -> None:
    _log.forget()
    if current.run is not None:
        current.run.forked()


def _at_exit() -> None:
    if current.run is not None:
        try:
            current.run.close()
        except KymogramClosingError:
            pass  # it was said; nobody can catch it here


_watching = False


def _watch_the_end() -> None:
    """Close at exit; an exception that ends the process makes the run a failed one."""
    global _watching
    if _watching:
        return
    _watching = True
    atexit.register(_at_exit)
    previous = sys.excepthook

    def hook(kind: type[BaseException], error: BaseException, trace: TracebackType | None) -> None:
        if current.run is not None:
            current.run.fail()
        previous(kind, error, trace)

    sys.excepthook = hook


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)
