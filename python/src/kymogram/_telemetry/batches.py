"""Lines that wait for an InfluxDB: in memory to send, in files to survive a kill.

A batch is a file of lines and its lock. Who writes it holds the lock; a file without a holder is
of a process that ended, and the next sink of the same destination sends it. A line that was sent
twice is one point: InfluxDB tells points apart by series and time.
"""

from __future__ import annotations

import fcntl
import json
import os
import time
from zlib import crc32

from .._platform import seams

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

SUFFIX = ".lines"


class Batch:
    """Lines that are sent together."""

    def __init__(self, path: str | None, descriptor: int, lines: list[str]) -> None:
        self.lines = lines
        self.began = time.monotonic()
        self.tries = 0
        self.due = 0.0  # when it may be tried again
        self._path, self._descriptor = path, descriptor

    def add(self, line: str) -> None:
        """Keep a line; from now on it survives a kill."""
        if self._descriptor >= 0:
            os.write(self._descriptor, json.dumps(line).encode() + b"\n")
        self.lines.append(line)

    def done(self) -> None:
        """Forget the lines: they are sent, or refused for good."""
        if self._path is not None:
            try:
                os.unlink(self._path)
            except FileNotFoundError:
                pass
        self.leave()

    def leave(self) -> None:
        """Let go of the file; whoever comes next sends it."""
        if self._descriptor >= 0:
            os.close(self._descriptor)
        self._path, self._descriptor = None, -1


class Folder:
    """The files of one destination."""

    def __init__(self, root: str, destination: str) -> None:
        self.path = os.path.join(root, "influx", f"{crc32(destination.encode()):08x}")
        os.makedirs(self.path, mode=0o700, exist_ok=True)

    def new(self) -> Batch:
        """An empty batch, its lock held."""
        path = os.path.join(self.path, f"{time.time_ns():016x}-{os.urandom(4).hex()}")
        flags = os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_APPEND
        descriptor = seams.open_private(path, flags)
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        os.rename(path, path + SUFFIX)  # nobody sees it without its lock
        return Batch(path + SUFFIX, descriptor, [])

    def left(self) -> Iterator[Batch]:
        """The batches of processes that ended, oldest first."""
        for name in sorted(os.listdir(self.path)):
            if not name.endswith(SUFFIX):
                continue
            path = os.path.join(self.path, name)
            try:
                descriptor = seams.open_private(path, os.O_RDWR)
            except FileNotFoundError:
                continue
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
                lines = list(_lines(path))
            except OSError:  # its process is at work
                os.close(descriptor)
                continue
            found = Batch(path, descriptor, lines)
            if lines:
                yield found
            else:
                found.done()


def _lines(path: str) -> Iterator[str]:
    """The lines of a file; the last may be cut, where a disk was full or a process was killed."""
    with open(path, encoding="ascii") as file:
        for row in file:
            try:
                line = json.loads(row)
            except ValueError:
                continue
            if isinstance(line, str):
                yield line
