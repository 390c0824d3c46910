"""Waiting until the server has what was logged, for flush() and close()."""

from __future__ import annotations

import time

from .._host import environment
from .._spool import page
from . import client

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Protocol

    from .._spool.writer import Writer
    from .helper import Helper

    class Run(Protocol):
        """Where the points go, and what that server answered the open."""

        server: str
        answer: dict[str, Any] | None


_ALONE_S = 0.8  # so long close() waits for a connection before it asks the server itself
_ASK_S = 0.15
_ASK_AGAIN_S = 1.0


def outcome(run: Run, helper: Helper | None, writer: Writer, last: int, timeout: float) -> str:
    """delivered, refused, offline (no connection) or timeout."""
    start = met = time.monotonic()
    batch = environment.batch_job()
    pause = 0.001
    while True:
        status = writer.status()
        now = time.monotonic()
        if writer.waits:  # memory goes to the disk as that is freed or delivered
            last = writer.press()
        elif status.mark >= last:
            return "delivered"
        if status.alive and status.state == page.REFUSED:
            return "refused"
        if now - start >= timeout:
            # Too short a wait for a first connection says nothing about the server.
            known = status.connected or (timeout < _ALONE_S and run.answer is not None)
            return "timeout" if known else "offline"
        if status.connected:
            met = now
        elif helper is not None and helper.no_agent:
            return "offline"
        elif not batch and now - met >= _ALONE_S:
            if not client.answers(run.server, _ASK_S):
                return "offline"
            met = now + _ASK_AGAIN_S - _ALONE_S
        time.sleep(pause)
        pause = min(pause * 1.5, 0.02)
