"""Which process logs an environment: one at a time.

Processes that share a spool see each other at an environment's first call, by
byte locks in a few files: a lock of fcntl belongs to a process, is not inherited
by fork and ends with the process, so nothing has to be cleaned up. Across
spools and hosts the server sees whose points of an environment overlap in time,
and tells both by way of the deliverer (docs/format/spool.md, shared.json).
"""

from __future__ import annotations

import os
import sys
from struct import Struct
from zlib import crc32

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

_OWN = "their steps mix; let each process log environments of its own"
_flock = Struct("hhqqi4x")
# The system looks through all locks of a file for each one: with thousands of
# environments in one file that is most of what their first calls cost.
_FILES = 16


class Owners:
    """The environments that this process has taken."""

    def __init__(self, root: str, run: str) -> None:
        self._path = os.path.join(root, "environments")
        self._run = run
        self._descriptors: dict[int, int] = {}  # by file, once one of its environments is logged
        self._pid = -1

    def claim(self, env: str) -> int | None:
        """Take an environment; the process that has it already, when another does."""
        if not sys.platform.startswith("linux"):
            return None
        import fcntl

        try:
            key = f"{self._run}\0{env}".encode()
            number = crc32(key)
            descriptor = self._open(number % _FILES)
            place = number << 20 | crc32(key[::-1]) & 0xFFFFF
            wanted = _flock.pack(fcntl.F_WRLCK, os.SEEK_SET, place, 1, 0)
            found = _flock.unpack(fcntl.fcntl(descriptor, fcntl.F_GETLK, wanted))
            if found[0] != fcntl.F_UNLCK:
                return int(found[4])
            fcntl.fcntl(descriptor, fcntl.F_SETLK, wanted)
        except OSError:
            return None  # a file system without locks
        return None

    def _open(self, file: int) -> int:
        if self._pid != os.getpid():  # a forked child has no locks
            self._close()
            self._pid = os.getpid()
        if file not in self._descriptors:
            flags = os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW
            self._descriptors[file] = os.open(f"{self._path}.{file:x}.lock", flags, 0o600)
        return self._descriptors[file]

    def _close(self) -> None:
        while self._descriptors:
            os.close(self._descriptors.popitem()[1])

    def release(self) -> None:
        """Let go of all environments."""
        if self._pid == os.getpid():
            self._close()


def told(env: str, more: int, who: str) -> str:
    """What a writer is told of another one."""
    others = f" (and {more:,} more)" if more else ""
    return f"the environment {env!r}{others} is also logged by {who}: {_OWN}"


def shared(folder: str) -> list[dict[str, Any]]:
    """What the server said of a writer's environments; none once its folder is delivered."""
    import json

    try:
        with open(os.path.join(folder, "shared.json"), encoding="utf-8") as file:
            found = json.load(file)
    except (OSError, ValueError):
        return []
    return [one for one in found if isinstance(one, dict)] if isinstance(found, list) else []


class Sharers:
    """Who else logs environments of this process, as the server sees it."""

    def __init__(self, folder: str) -> None:
        self._folder = folder
        self._count = 0
        self._writers: set[str] = set()

    def news(self, count: int, known: set[str]) -> list[str]:
        """What is to be said, a line a process; `known` are the environments that were told of."""
        if count <= self._count:
            return []
        self._count = count
        by: dict[str, list[dict[str, Any]]] = {}
        for one in shared(self._folder):
            by.setdefault(str(one.get("writer")), []).append(one)
        said = []
        for writer, ones in by.items():
            fresh = [one for one in ones if one.get("env_id") not in known]
            if fresh and writer not in self._writers:
                rank = ones[0].get("rank")
                who = f"process {ones[0].get('pid')} on {ones[0].get('host')}"
                who += "" if rank is None else f" (rank {rank})"
                said.append(told(str(fresh[0].get("env_id")), len(fresh) - 1, who))
                self._writers.add(writer)
        if not by and not known:  # the folder is delivered and gone
            said.append(f"{count:,} environments are also logged by another process: {_OWN}")
        known.update(str(one.get("env_id")) for ones in by.values() for one in ones)
        return said
