"""Which process logs an environment: byte locks in one file of the spool.

A lock of fcntl belongs to a process, is not inherited by fork and ends with the
process, so nothing has to be cleaned up. It sees the processes that share one
spool; of others the points themselves tell, which name their writer.
"""

from __future__ import annotations

import os
import sys
from struct import Struct
from zlib import crc32

_flock = Struct("hhqqi4x")


class Owners:
    """The environments that this process has taken."""

    def __init__(self, root: str, run: str) -> None:
        self._path = os.path.join(root, "environments.lock")
        self._run = run
        self._descriptor = -1
        self._pid = -1

    def claim(self, env: str) -> int | None:
        """Take an environment; the process that has it already, when another does."""
        if not sys.platform.startswith("linux"):
            return None
        import fcntl

        try:
            if self._pid != os.getpid():
                flags = os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW
                self._descriptor = os.open(self._path, flags, 0o600)
                self._pid = os.getpid()
            key = f"{self._run}\0{env}".encode()
            place = crc32(key) << 20 | crc32(key[::-1]) & 0xFFFFF
            wanted = _flock.pack(fcntl.F_WRLCK, os.SEEK_SET, place, 1, 0)
            found = _flock.unpack(fcntl.fcntl(self._descriptor, fcntl.F_GETLK, wanted))
            if found[0] != fcntl.F_UNLCK:
                return int(found[4])
            fcntl.fcntl(self._descriptor, fcntl.F_SETLK, wanted)
        except OSError:
            return None  # a file system without locks
        return None

    def release(self) -> None:
        """Let go of all environments."""
        if self._pid == os.getpid():
            os.close(self._descriptor)
            self._pid = -1
