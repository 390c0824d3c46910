"""The helper thread: once a second it looks after the spool and its deliverer."""

from __future__ import annotations

import os
import threading
import time

from .._say import voice
from .._spool import folders, page
from . import agent

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Protocol

    from .._spool.writer import Writer

    class Patience(Protocol):
        """How many tries may fail in silence."""

        retries: int | None

    class Run(Protocol):
        """What the helper tells a run."""

        server: str

        @property
        def settings(self) -> Patience: ...
        def learn(self, answer: dict[str, Any] | None) -> None: ...
        def describe_machine(self) -> None: ...
        def sharing(self, count: int) -> None: ...
        def trouble(self, text: str, once: str | None = None) -> None: ...


PERIOD_S = 1.0
_START_AGAIN_S = 2.0
_START_AGAIN_MAX_S = 60.0


class Helper:
    """Counts records, retries a full disk, restarts the agent, passes on what it says."""

    def __init__(self, run: Run, writer: Writer) -> None:
        self.run = run
        self.writer = writer
        self.no_agent = False
        self._pause = _START_AGAIN_S
        self._start_at = 0.0
        self._said_refused = self._said_dropped = 0
        self._complained = False
        self._reported = ""
        self._stopped = False
        self._thread = threading.Thread(target=self._loop, name="kymogram-helper", daemon=True)

    def start(self) -> None:
        """Begin; without a thread (the interpreter ends) look once."""
        try:
            self._thread.start()
        except RuntimeError:
            self.look()

    def stop(self) -> None:
        """End the thread; it is not waited for."""
        self._stopped = True
        self.writer.rotated.set()

    def _loop(self) -> None:
        while True:
            try:
                self.look()
                self.run.describe_machine()
            except Exception as error:  # a helper never ends a training run
                voice.warn(f"the helper thread met {error!r}", once=f"helper {type(error)}")
            end = time.monotonic() + PERIOD_S
            while (left := end - time.monotonic()) > 0 and not self._stopped:
                self.writer.rotated.wait(left)
                self._prepare()
            if self._stopped:
                return

    def _prepare(self) -> None:
        try:
            self.writer.prepare()
        except Exception:
            pass  # a full disk, or memory: the writer tells of it when it needs the room

    def look(self) -> None:
        """One round."""
        self.writer.tick()
        self._warn_of_want()
        status = self.writer.status()
        if status.alive:
            self._pause = _START_AGAIN_S
            self.listen(status)
        self.ensure_agent()  # its lock is free at once when it dies, its heartbeat old much later

    def _warn_of_want(self) -> None:
        """Say once that points wait in memory, and once that they are lost."""
        dropped = self.writer.dropped.floats + self.writer.dropped.rl
        if self.writer.full:
            what = f"the spool {self.writer.root} takes no more: {self.writer.why_full}"
            voice.warn(f"{what}; new points wait in memory", once=f"spool full {what}")
        if dropped:
            why = self.writer.why_dropped
            voice.warn(f"{why}: {dropped:,} points dropped so far", once="dropped")

    def ensure_agent(self) -> None:
        """Start the agent unless somebody delivers or it was started just now."""
        if self.no_agent or time.monotonic() < self._start_at or agent.delivers(self.writer.root):
            return
        path = agent.binary()
        if path is None:
            self.no_agent = True
            root = self.writer.root
            voice.warn(f"points stay in the spool {root} until `kymogram sync`: {agent.MISSING}")
            return
        self._start_at = time.monotonic() + self._pause
        self._pause = min(2 * self._pause, _START_AGAIN_MAX_S)
        try:
            agent.start(self.writer.root, path)
        except OSError as error:
            voice.warn(f"the agent {path} did not start: {error}", once="agent start")

    def listen(self, status: page.Status | None = None) -> None:
        """Pass on what the deliverer says."""
        status = status or self.writer.status()
        self.run.learn(status.opened())
        if status.state == page.REFUSED:
            self._report(f"{self.run.server} refuses the points: {status.error}")
        if status.refused > self._said_refused:
            self._said_refused = status.refused
            self._report(
                f"{status.refused:,} points were refused for good, see "
                f"{os.path.join(self.writer.root, 'rejected', self.writer.writer)}.jsonl",
                once="refused",
            )
        given_up = sum(status.dropped)
        if given_up > self._said_dropped:
            self._said_dropped = given_up
            self._report(
                f"{given_up:,} points were dropped after max_send_retries: {status.error}",
                once="given up",
            )
        self.run.sharing(status.shared)
        self._complain(status)

    def _complain(self, status: page.Status) -> None:
        """Tell of a delivery that fails for long: max_send_retries bounds the silence."""
        retries = self.run.settings.retries
        failing = retries is not None and status.failures > retries
        if failing and not self._complained:
            self._report(
                f"{self.run.server} did not take the points in {status.failures} tries: "
                f"{status.error}; they wait in the spool"
            )
        self._complained = failing

    def _report(self, text: str, once: str | None = None) -> None:
        """Report an error when it is another one than the last."""
        if text != self._reported:
            self._reported = text
            self.run.trouble(text, once)


def who_delivers(root: str) -> str:
    """What will bring the rest to the server, in words."""
    if not agent.held(root):
        return "`kymogram sync` delivers them"
    holder = folders.read_json(os.path.join(root, "agent.json"))
    pid = holder.get("pid")
    name = f"the {holder.get('kind', 'agent')} (pid {pid})" if pid else "the agent"
    return f"{name} delivers them when it answers"
