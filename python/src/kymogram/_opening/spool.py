"""The writer of a run, in the first folder that takes it."""

from __future__ import annotations

import os

from .._host import environment
from .._points import tables
from .._say import voice
from .._spool import folders
from .._spool.segment import Segment
from .._spool.writer import FIRST_SIZE, Writer

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from .settings import Settings


def roots(settings: Settings) -> list[str]:
    """The folders that may hold the spool, best first."""
    return [settings.spool] if settings.spool else folders.candidates(os.environ)


def look_for_room(settings: Settings, writer: str) -> None:
    """Fail before the server hears of a run whose first segment no folder would take."""
    tried = []
    for root in roots(settings):
        try:
            folders.make_root(root)
            Segment(root, int(writer[:6], 16), FIRST_SIZE, mapped=False, ahead=True).discard()
            return
        except OSError as error:
            tried.append(f"{root}: {error}")
    raise folders.no_room(tried)


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
