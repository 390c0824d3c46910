"""The writer of a run, in the first folder that takes it."""

from __future__ import annotations

import errno
import os

from .._host import environment
from .._points import tables
from .._say import voice
from .._spool import folders
from .._spool.writer import FIRST_SIZE, Writer

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from .settings import Settings


def roots(settings: Settings) -> list[str]:
    """The folders that may hold the spool, best first."""
    return [settings.spool] if settings.spool else folders.candidates(os.environ)


def look_for_room(settings: Settings) -> None:
    """Fail before the server hears of a run whose first segment no folder would take.

    It makes nothing: a run that the server refuses leaves no folder behind.
    """
    tried = []
    for root in roots(settings):
        try:
            _look(root)
            return
        except OSError as error:
            tried.append(f"{root}: {error}")
    raise folders.no_room(tried)


def _look(root: str) -> None:
    """Raise the error that the first segment would meet in a folder, there or still to be made."""
    if os.name != "posix":
        return
    import resource

    most, _ = resource.getrlimit(resource.RLIMIT_FSIZE)
    if 0 <= most < FIRST_SIZE:
        raise OSError(errno.EFBIG, os.strerror(errno.EFBIG))
    there = os.path.abspath(root)
    while not os.path.lexists(there):
        there = os.path.dirname(there)
    found = os.statvfs(there)
    if found.f_blocks and found.f_bfree * found.f_frsize < FIRST_SIZE:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


def open_writer(server: str, request: dict[str, Any], settings: Settings) -> Writer:
    """Make the writer's folder in the first place that takes it."""
    tried = []
    document = {"server": server, "open": request, "pace": settings.pace}
    if settings.system is not None:
        document["system"] = settings.system
    for root in roots(settings):
        try:
            folders.make_root(root)
            if settings.key:
                folders.save_key(root, server, settings.key)
            found = Writer(
                root,
                request["writer"],
                document,
                cap=settings.cap,
                backpressure=settings.backpressure,
                bound=settings.bound,
                enqueue_timeout=settings.enqueue_timeout,
                forget=tables.forget,
            )
        except OSError as error:
            tried.append(f"{root}: {error}")
            continue
        if tried and environment.setting("SPOOL_DIR", "DISK_SPOOL_DIR"):
            why = "; ".join(tried)
            voice.warn(f"the spool is {root}; not as asked {why}", once=f"spool not {why}")
        return found
    raise folders.no_room(tried)
