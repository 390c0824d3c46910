"""The status page: what the deliverer tells the writer (docs/format/spool.md)."""

from __future__ import annotations

import mmap
import os
import time
from struct import Struct

from .._platform import seams

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

SIZE = 4096
MAGIC = b"KYMSTAT1"
NONE, CONNECTING, CONNECTED, WAITING, REFUSED, DELIVERED = range(6)
_ALIVE_NS = 3_000_000_000
_fields = Struct("<8sQQQQQQQII").unpack_from
_length = Struct("<I").unpack_from
_tallies = Struct("<9Q").unpack_from
_decided = Struct("<QQ").unpack_from


class Status:
    """One look at the page."""

    __slots__ = (
        "acked",
        "answer",
        "batches",
        "connections",
        "dropped",
        "error",
        "errors",
        "failures",
        "given_up",
        "heartbeat_ns",
        "mark",
        "refused",
        "sent",
        "shared",
        "state",
    )

    def __init__(self, page: bytes) -> None:
        magic, *numbers = _fields(page, 0)
        if magic != MAGIC:
            numbers = [0] * 9
        self.heartbeat_ns, self.mark, self.acked, self.refused = numbers[:4]
        self.batches, self.connections, self.errors, self.state, size = numbers[4:]
        self.error = page[72 : 72 + min(size, 1024)].decode(errors="replace")
        size = _length(page, 1104)[0] if magic == MAGIC else 0
        tallies = _tallies(page, 4008) if magic == MAGIC else (0,) * 9
        # Without RL axes, with them, changes of the run, attributes of environments.
        self.sent = tallies[:4]
        self.given_up = tallies[4]  # the last sequence that was
        self.dropped = tallies[5:7]  # without RL axes, with them
        self.failures, self.shared = tallies[7:]
        self.answer = page[1108 : 1108 + size] if size <= 2900 else b""

    @property
    def alive(self) -> bool:
        """Whether a deliverer looks after the writer now; the clock may have been set back."""
        return bool(abs(time.time_ns() - self.heartbeat_ns) < _ALIVE_NS)

    @property
    def connected(self) -> bool:
        """Whether that deliverer has the server on the line."""
        return self.alive and self.state in (CONNECTED, DELIVERED)

    def opened(self) -> dict[str, Any] | None:
        """The server's answer to the open, as the deliverer got it."""
        if not self.answer:
            return None
        import json

        try:
            found = json.loads(self.answer)
        except ValueError:
            return None  # being written; the next look has it
        return found if isinstance(found, dict) else None


class Page:
    """The mapped page, read only."""

    def __init__(self, path: str) -> None:
        descriptor = seams.open_private(path, os.O_RDONLY)
        try:
            self._map = mmap.mmap(descriptor, SIZE, access=mmap.ACCESS_READ)
        finally:
            os.close(descriptor)

    def read(self) -> Status:
        """The page as it is now."""
        return Status(self._map[:])

    def decided(self) -> int:
        """Points that are acked, refused or given up."""
        acked, refused = _decided(self._map, 24)
        dropped: tuple[int, int] = _decided(self._map, 4048)
        return int(acked + refused) + sum(dropped)


def create(path: str) -> None:
    """A page that nobody has written yet."""
    descriptor = seams.open_private(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL)
    try:
        os.write(descriptor, MAGIC + bytes(SIZE - len(MAGIC)))
    finally:
        os.close(descriptor)
