"""Where a series ends, once the server knows all that this machine logged to it.

The open's answer may lack it: there was none, the run has too many series, or
earlier processes of the run have points in the spool. An answer is right, or
there is none: the wait ends in an error.
"""

from __future__ import annotations

import os
import time

from .._exceptions import KymogramTimeoutError
from .._spool import folders, jobs, page
from . import client

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Protocol

    from .._spool.writer import Writer

    class Settings(Protocol):
        """How long a run may wait, and its key."""

        init_timeout: float
        key: str | None

    class Run(Protocol):
        """Where the points go."""

        server: str

        @property
        def settings(self) -> Settings: ...


_LOOK_S = 0.05
_ASK_AGAIN_S = 0.25
_ASK_MAX_S = 10.0
_NO_TIME_S = 0.001


def ask(
    run: Run, writer: Writer, request: dict[str, Any], name: dict[str, Any], *, touched: bool
) -> dict[str, Any]:
    """What the server says of one series; waits up to init_timeout_secs, then raises."""
    limit = run.settings.init_timeout
    deadline = time.monotonic() + limit
    last = writer.sequence() if touched else 0
    asked = {**request, "with_starts": True, "starts_of": [name]}  # the same writer opens again
    while True:
        left = max(deadline - time.monotonic(), _NO_TIME_S)
        pause, why = _LOOK_S, _undelivered(request, writer, last)
        if not why:
            try:
                return client.open_run(run.server, run.settings.key, asked, min(left, _ASK_MAX_S))
            except client.Unreachable as error:
                pause, why = _ASK_AGAIN_S, str(error)
        if time.monotonic() + pause >= deadline:
            raise KymogramTimeoutError(
                f"the last step of {name['metric']!r} is not known within {limit:g} s "
                f"(init_timeout_secs): {run.server}: {why}"
            )
        time.sleep(pause)


def _undelivered(request: dict[str, Any], writer: Writer, last: int) -> str:
    """What this machine logged to the run and the server lacks; "" for nothing."""
    if writer.status().mark < last:
        return "points of this process wait in the spool"
    for other in jobs.ended([writer.root], request):
        path = os.path.join(writer.root, "writers", other)
        if not _delivered(path):
            return f"points of an earlier process wait in {path}"
    return ""


def _delivered(path: str) -> bool:
    try:
        with open(os.path.join(path, "status"), "rb") as file:
            state: int = page.Status(file.read().ljust(page.SIZE, b"\0")).state
        return state == page.DELIVERED
    except OSError:
        return not os.path.isdir(path) or not folders.read_json(os.path.join(path, "open.json"))
