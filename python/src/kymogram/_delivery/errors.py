"""Errors of the delivery: kept for check_sender_errors(), shown as the error strategy says."""

from __future__ import annotations

from collections import deque

from .._exceptions import KymogramSenderError
from .._say import voice


class Errors:
    """The errors of one run, the newest `most` kept; 0 keeps all."""

    def __init__(self, strategy: str, most: int) -> None:
        self.strategy = strategy
        self.reported = 0
        self.evicted = 0
        self._waiting: deque[str] = deque()
        self._most = most
        self._pending: str | None = None

    def report(self, text: str, once: str | None = None) -> None:
        """Take an error in; `once` is the name under which it is said once."""
        self.reported += 1
        self._waiting.append(text)
        if 0 < self._most < len(self._waiting):
            self._waiting.popleft()
            self.evicted += 1
        if self.strategy != "silent":
            voice.warn(text, once=once or text)
        if self._pending is None:
            self._pending = text

    def drain(self) -> list[str]:
        """The errors since the last call, oldest first."""
        found: list[str] = []
        while True:
            try:
                found.append(self._waiting.popleft())
            except IndexError:
                return found

    @property
    def due(self) -> bool:
        """Whether the next log call raises."""
        return self.strategy == "raise_on_log" and self._pending is not None

    def raise_due(self) -> None:
        """Raise what a log call owes."""
        text, self._pending = self._pending, None
        if text is not None:
            raise KymogramSenderError(text)

    @property
    def owed(self) -> str | None:
        """What close() raises under raise_on_close."""
        return self._pending if self.strategy == "raise_on_close" else None
