"""A run: opened by init(), closed by close() or at exit, reopened after a fork."""

from __future__ import annotations

import os
import time
from threading import TIMEOUT_MAX, RLock

from . import _log, _rl
from ._delivery import ends, wait
from ._delivery.errors import Errors
from ._delivery.helper import Helper, who_delivers
from ._exceptions import (
    KymogramClosingError,
    KymogramLoggerClosedError,
    KymogramLoggerInitError,
    KymogramTimeoutError,
)
from ._host import environment
from ._input import attributes, naming, numeric
from ._metrics import CloseInfo, Metrics
from ._opening import signals
from ._opening.process import close_with_worker, detach
from ._opening.spool import open_writer
from ._points import tables
from ._points.current import current, logger
from ._points.logger import Logger
from ._points.series import Starts
from ._say import taken, voice
from ._spool import folders, page
from ._spool.owners import Sharers
from ._spool.writer import Writer
from ._videos.renderings import Renderings

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
    from types import TracebackType
    from typing import Any

    from ._delivery.console import Console
    from ._host.machine import Machine
    from ._opening.settings import Settings

CLOSE_TIMEOUT_S = 15.0
FLUSH_TIMEOUT_S = 900.0


class Run:
    """One run as this process writes it. The module's functions act on the current one."""

    def __init__(
        self,
        server: str,
        request: dict[str, Any],
        answer: dict[str, Any] | None,
        settings: Settings,
        machine: Machine | None = None,
        later: list[dict[str, Any]] | None = None,
    ) -> None:
        self.server = server
        self.answer = answer
        self.settings = settings
        self.errors = Errors(settings.error_strategy, settings.errors_kept)
        self._request = request
        self._machine = machine
        self._lock = RLock()
        self._closed = self._closing = False
        self._failed, self._signal = False, ""
        self.inherited = False
        self._logger: Logger | None = None
        self._helper: Helper | None = None
        self._announced = False
        self._console: Console | None = None
        self._renderings = Renderings(settings.rendering, settings.error_strategy, self.name)
        try:
            starts = _starts(server, answer)
            starts.behind = bool(request.get("ended"))
            self._open(starts)
            assert self._logger is not None
            os.environ[environment.ATTEMPT] = self._logger.writer.writer
            if later:  # configuration that the open had no room for
                self._logger.writer.append_update(later)
            self._announce()
            if settings.console:
                from ._delivery import console  # it needs modules that take long to load

                self._console = console.begin(
                    self.name, self._logger.writer.root, server, request, settings.key
                )
        except BaseException:  # such as Ctrl-C: nobody will hold this run
            self._let_go()
            raise

    # identity

    @property
    def id(self) -> str:
        """The run's ULID: the server's once it answered, else this client's own."""
        return str((self.answer or {}).get("run") or self._request["local_run"])

    @property
    def name(self) -> str:
        """The run's name."""
        return str((self.answer or {}).get("run_name") or self._request["run_name"])

    def is_called(self, name: str) -> bool:
        """Whether that is its name, or was asked for and taken."""
        return name in (self.name, self._request["run_name"])

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

    def _repr_html_(self) -> str:
        """A card for notebooks. It waits for a server at most 1 s."""
        from . import query
        from ._reading.card import ROWS, Card

        logger = self._logger
        count, rows = logger.last_steps(ROWS) if logger is not None else (0, [])
        return query.open_card(
            self.server,
            self.settings.key,
            Card(
                self.workspace,
                self.project,
                self.name,
                self.id,
                "closed" if self._closed else "running",
                url=self.url if self.answer is not None else "",
                config=_config(self._request.get("initial") or []),
                rows=rows,
                count=count,
            ),
        )

    def _announce(self) -> None:
        """Print the page's address, once."""
        if self.answer is not None and not self._announced:
            self._announced = True
            voice.line(f"run {self.name} at {self.url}")
            if self.answer.get("parent_missing"):
                parent = self._request.get("fork_from_run")
                voice.warn(
                    f"fork_from_run {parent!r} is no run of {self.workspace}/{self.project}: "
                    "nothing is inherited until it is"
                )

    def learn(self, answer: dict[str, Any] | None) -> None:
        """What the deliverer was answered when it opened a run that began without the server."""
        if self.answer is not None or answer is None:
            return
        self.answer = answer
        asked = answer.get("linked_from")
        if asked:
            voice.warn(taken(asked, self.name))
        self._announce()

    def describe_machine(self) -> None:
        """Log what took long to find out about the machine, if this process made the run."""
        machine = self._machine
        if machine is None or self.answer is None or self._closed:
            return
        self._machine = None
        late = machine.late() if machine.waits and self.answer.get("created") else []
        if late and not self._closed:
            self._update(late)

    # opening

    def _open(self, starts: Starts) -> None:
        """Make the writer's folder and look after it."""
        writer = open_writer(self.server, self._request, self.settings)
        self._logger = Logger(writer, starts, self.settings.dtype)
        self._sharers = Sharers(writer.folder.path)
        self._helper = Helper(self, writer)
        self._helper.start()
        close_with_worker(self)
        if not self.inherited:  # the process that opened the run decides how it ended
            signals.watch(writer.folder.path)

    def logger(self) -> Logger:
        """The logger of this process; a forked child opens its own at its first call."""
        if self.errors.due:
            self.errors.raise_due()
        if self._closed:
            raise KymogramLoggerClosedError("the run is closed; call kymogram.init() for another")
        found = self._logger
        return found if found is not None else self._open_in_child()

    def logger_for_points(self) -> Logger:
        """The logger, once the queue takes a point or the call's points are to be dropped."""
        found = self.logger()
        found.writer.gate()
        return found

    def _open_in_child(self) -> Logger:
        with self._lock:
            if self._logger is None:
                now = time.time_ns()
                self._request = {
                    **self._request,
                    "writer": os.urandom(16).hex(),
                    "parent_attempt": self._request["writer"],
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
        if self._console is not None:
            self._console.forked()
            self._console = None
        self._lock = RLock()
        self._logger = self._helper = None
        self._renderings.forked()
        self.inherited = True
        self._announced = True

    # log calls

    def _mine(self) -> None:
        if current.run is not self:
            raise KymogramLoggerClosedError("this run is closed; call kymogram.init() for another")

    if TYPE_CHECKING:  # a type checker sees the arguments
        log = staticmethod(_log.log)
        log_distributed = staticmethod(_log.log_distributed)
        log_rl_episode = staticmethod(_rl.log_rl_episode)
        log_rl_environment_step = staticmethod(_rl.log_rl_environment_step)
    else:

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
        plain = attributes.plain("config", config) if config.__class__ is dict else None
        if plain is None:
            self._update(attributes.config(config))
        else:
            self.logger().writer.append_changes(*plain)

    def log_attributes(self, prefix_path: str, value: Any) -> None:
        """Log attributes under a path, "" for a mapping of paths; None removes one."""
        mapping = hasattr(value, "items")
        path = "" if mapping and prefix_path == "" else naming.path(prefix_path)
        plain = attributes.plain(path, value) if path and value.__class__ is dict else None
        if plain is None:
            self._update(attributes.updates(path, value))
        else:
            self.logger().writer.append_changes(*plain)

    def log_env_attributes(self, env_id: Any, value: Any, episode: Any = None) -> None:
        """Log attributes of an environment, of one of its episodes if given."""
        number = None if episode is None else numeric.step("episode", episode)
        self._update(attributes.environment(naming.environment(env_id), value, number))

    def set_tags(self, tags: Any) -> None:
        """Replace the run's tags."""
        self._update(attributes.tags("set_tags", tags))

    def add_tags(self, tags: Any) -> None:
        """Add tags."""
        self._update(attributes.tags("add_tags", tags))

    def remove_tags(self, tags: Any) -> None:
        """Remove tags."""
        self._update(attributes.tags("remove_tags", tags))

    def set_description(self, description: str | None) -> None:
        """Set the description; "" clears it."""
        text = attributes.description(description)
        self._update([{"op": "set_description", "text": text}])

    # renderings

    def log_rendering(
        self,
        frame: Any,
        rl_step: Any,
        episode: Any,
        env_id: Any = None,
        *,
        name: Any = None,
    ) -> None:
        """See kymogram.log_rendering."""
        self._renderings.of(self.logger().writer).log(frame, rl_step, episode, env_id, name)

    def tag_rendering(
        self, tag_name: Any, episode: Any = None, env_id: Any = None, *, name: Any = None
    ) -> None:
        """See kymogram.tag_rendering."""
        tag = naming.tags([tag_name])[0]
        self._renderings.of(self.logger().writer).label(env_id, episode, name, tag, True)

    def mark_rendering_event(
        self,
        condition_name: Any,
        episode: Any = None,
        env_id: Any = None,
        trigger: Any = None,
        *,
        name: Any = None,
        from_frame: Any = None,
        to_frame: Any = None,
    ) -> None:
        """See kymogram.mark_rendering_event."""
        from ._videos.video import mark

        value = mark(condition_name, from_frame, to_frame)
        triggers = trigger is None or bool(trigger)
        self._renderings.of(self.logger().writer).label(env_id, episode, name, value, triggers)

    # looking

    def get_last_step(
        self, metric_name: str, scale: str | None = None, labels: Mapping[str, str] | None = None
    ) -> int | None:
        """The last step of a series, None when it has no point yet.

        Where only the server knows it waits for that up to `init_timeout_secs`,
        then raises KymogramTimeoutError. Of a new job's run this process knows all.
        """
        logger = self.logger()
        pairs = tuple(naming.labels(labels).items())
        key = (naming.metric(metric_name), naming.scale(scale), pairs)
        known, step = logger.last_step(key)
        if known or (self.settings.new_job and not self.inherited):
            return step
        name = {"metric": key[0], "scale": key[1], "labels": dict(pairs)}
        touched = step is not None
        answer = ends.ask(self, logger.writer, self._request, name, touched=touched)
        start = _starts(self.server, answer).of(key)
        if start is None:
            raise KymogramTimeoutError(
                f"the last step of {key[0]!r} is not known: the run has more series than "
                f"{self.server} lists, and that server is older than this client; update it"
            )
        return start - 1 if start else None

    def get_env_last_rl_step_and_episode(
        self, env_id: str | None = None
    ) -> tuple[int | None, int | None]:
        """The last (rl_step, episode) of an environment."""
        return _rl.of(self.logger()).last(naming.environment(env_id))

    def get_metrics(self) -> Metrics:
        """Counters of what was logged, kept, sent and dropped."""
        return self._metrics(self.logger())

    def _metrics(self, logger: Logger) -> Metrics:
        writer = logger.writer
        with writer.lock:
            counts, status = writer.counts(), writer.status()
            held, dropped, updates = writer.held(), writer.dropped, writer.updates
            # What was given up is so from the oldest on; the server hears of it later.
            pending = counts.less(writer.decided(max(status.mark, status.given_up)))
        floats, rl, changes, env_changes = status.sent
        return Metrics(
            float_points_added=counts.floats + held.floats + dropped.floats,
            float_points_enqueued=counts.floats + held.floats,
            float_points_sent=floats,
            float_points_pending=pending.floats,
            float_points_dropped=dropped.floats + status.dropped[0],
            rl_float_points_added=counts.rl + held.rl + dropped.rl,
            rl_float_points_enqueued=counts.rl + held.rl,
            rl_float_points_sent=rl,
            rl_float_points_pending=pending.rl,
            rl_float_points_dropped=dropped.rl + status.dropped[1],
            attribute_updates_added=updates[0],
            attribute_updates_enqueued=updates[0],
            attribute_updates_sent=changes,
            env_attribute_updates_added=updates[1],
            env_attribute_updates_enqueued=updates[1],
            env_attribute_updates_sent=env_changes,
            points_acked=status.acked,
            points_refused=status.refused,
            points_in_memory=held.floats + held.rl,
            points_pending=pending.floats + pending.rl,
            requests_sent=status.batches,
            connection_attempts=status.connections,
            send_errors=status.errors,
            errors_reported=self.errors.reported,
            errors_evicted=self.errors.evicted,
            steps_not_rising=logger.falls,
            shared_environments=len(logger.rl.shared) if logger.rl else 0,
            **self._renderings.counters(),
        )

    def check_sender_errors(self) -> list[str]:
        """The errors of the delivery since the last call, oldest first."""
        return self.errors.drain()

    def is_offline(self) -> bool:
        """Whether the points now wait for a server that does not answer."""
        if self._logger is None:
            return self.answer is None
        status = self._logger.writer.status()
        if not status.alive or status.state in (page.NONE, page.CONNECTING):
            return self.answer is None
        return status.state not in (page.CONNECTED, page.DELIVERED)

    # ending

    def trouble(self, text: str, once: str | None = None) -> None:
        """An error of the delivery: kept, and shown as the error strategy says."""
        self.errors.report(text, once)
        if self.errors.due:
            tables.forget()  # the next call takes the slow path and raises

    def sharing(self, count: int) -> None:
        """Tell of other processes that log environments of this one, as the server said."""
        if count and self._logger is not None:
            for text in self._sharers.news(count, _rl.of(self._logger).shared):
                self.trouble(text)

    def flush(self, timeout_secs: float | None = FLUSH_TIMEOUT_S, *, durable: bool = False) -> bool:
        """Wait until the server has everything logged so far; True when it does.

        `durable` first forces the points to this machine's disk. Without a
        connection it returns False within a second. None is no limit.
        """
        writer = self.logger().writer
        if durable:
            writer.sync()
        limit = _limit("timeout_secs", timeout_secs)
        return self._wait(writer, writer.sequence(), limit) == "delivered"

    def close(self, close_timeout: float | None = CLOSE_TIMEOUT_S) -> CloseInfo | None:
        """End the run and wait for its delivery, at most close_timeout seconds.

        Left out, it is init()'s close_timeout; None is no limit. What is not
        delivered by then stays in the spool. None is returned when the run was
        closed before.
        """
        # The very object of the default tells "left out" from a given 15.0.
        given = self.settings.close_timeout if close_timeout is CLOSE_TIMEOUT_S else close_timeout
        timeout = _limit("close_timeout", given)
        mine = False
        try:
            with self._lock:
                if self._closed:
                    mine = not self._closing  # an interrupt cut the call that did it
                    return None
                mine = self._closing = self._closed = True
            return self._finish(timeout)
        finally:
            if mine:
                self._closing = False
                try:
                    self._let_go()
                except BaseException:  # an interrupt
                    self._let_go()
                    raise
                finally:
                    detach(self)

    def end(self) -> None:
        """At the interpreter's end: close() but for what later calls need.

        Exit handlers, __del__ and daemon threads may still log; the deliverer
        looks at the writer until the process is over.
        """
        try:
            self._finish(self.settings.close_timeout)
        except KymogramClosingError:
            pass  # it was said; nobody can catch it here

    def _let_go(self) -> None:
        """End the helper and the writer: the deliverer sees that nobody goes on here."""
        self._end_console()
        logger, helper = self._logger, self._helper
        if helper is not None:
            helper.stop()
        if logger is not None:
            logger.writer.close()
            if os.environ.get(environment.ATTEMPT) == logger.writer.writer:
                del os.environ[environment.ATTEMPT]

    def _end_console(self) -> None:
        """Give stdout and stderr back to the program."""
        if self._console is not None:
            self._console.end()

    def _finish(self, timeout: float) -> CloseInfo | None:
        """Write the end, wait for its delivery, and say what is left."""
        logger, helper = self._logger, self._helper
        if logger is None or helper is None:
            return None
        writer = logger.writer
        tables.forget()
        self._end_console()
        timeout = self._renderings.end(timeout)
        last = writer.end("failed" if self._failed else "finished", self._signal)
        start = time.monotonic()
        outcome = self._wait(writer, last, timeout)
        if outcome == "delivered":
            left = timeout - (time.monotonic() - start)
            last_chance = environment.batch_job()
            self._renderings.await_upload(left, last_chance, lambda: writer.status().connected)
        helper.listen()
        status, metrics = writer.status(), self._metrics(logger)
        self.learn(status.opened())
        lost = writer.dropped.floats + writer.dropped.rl + metrics.points_in_memory
        if lost:
            voice.warn(f"{lost:,} points were dropped: {writer.why_dropped}")
        info = _close_info(writer, outcome, metrics)
        owed = self.errors.owed
        if outcome != "delivered":
            owed = self._leftover(writer, outcome, metrics.points_pending, status)
        if owed is not None and self.settings.error_strategy == "raise_on_close":
            raise KymogramClosingError(owed)
        self._renderings.raise_owed()
        return info

    def _leftover(self, writer: Writer, outcome: str, waiting: int, status: page.Status) -> str:
        why = {
            "refused": f"{self.server} refuses them: {status.error}",
            "timeout": f"{self.server} has not taken them yet",
        }.get(outcome, f"{self.server} was not reached")
        what = f"{waiting:,} points" if waiting else "the end of the run"
        text = f"the spool {writer.root} holds {what}; {why}; {who_delivers(writer.root)}"
        if self.settings.error_strategy != "silent":
            voice.warn(text)
        return text

    def _wait(self, writer: Writer, last: int, timeout: float) -> str:
        return wait.outcome(self, self._helper, writer, last, timeout)

    def __enter__(self) -> Run:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if error is not None and not (isinstance(error, SystemExit) and not error.code):
            self.fail(error)
        self.close()

    def fail(self, error: BaseException | None = None) -> None:
        """An exception ends the run or the process; Ctrl-C is an interrupt, not a failure."""
        if not self._failed:
            self._failed = True
            self._signal = "SIGINT" if isinstance(error, KeyboardInterrupt) else ""


def _config(updates: list[dict[str, Any]]) -> dict[str, Any]:
    """The configuration that the run was opened with."""
    return {
        one["path"].removeprefix("config/"): one["value"].get("value")
        for one in updates
        if str(one.get("path", "")).startswith("config/") and "value" in one
    }


def _starts(server: str, answer: dict[str, Any] | None) -> Starts:
    """Where the run's series stand, of an answer that may come from anywhere."""
    try:
        return Starts(answer)
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise KymogramLoggerInitError(
            f"{server} answered the open with something else than where the run stands: {error!r}"
        ) from None


def _limit(what: str, timeout: float | None) -> float:
    """Seconds that a lock or a thread can be waited for."""
    return min(TIMEOUT_MAX, numeric.seconds(what, TIMEOUT_MAX if timeout is None else timeout))


def _close_info(writer: Writer, outcome: str, metrics: Metrics) -> CloseInfo:
    left = outcome != "delivered" or metrics.renderings_waiting > 0
    own = folders.leftover(writer.folder.path) if left else (0, 0)
    return CloseInfo(metrics, left, *own, folders.others(writer.root, writer.writer))


def current_run() -> Run:
    """The current run, or the error that there is none."""
    if current.run is None:
        logger()
        raise KymogramLoggerInitError("no run")
    found: Run = current.run
    return found
