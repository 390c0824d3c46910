"""Which process logs an environment: one at a time.

Processes that share a spool see each other at an environment's first call. Each has a
file of what it logs, locked as long as the process lives: a lock of fcntl belongs to a
process, is not inherited by fork and ends with the process. A process first appends its
new environments to its own file, then reads what others appended, so that of two that
come at once at least one sees the other. Across spools and hosts the server sees whose
points of an environment overlap in time, and tells both by way of the deliverer
(docs/format/spool.md, shared.json).
"""

from __future__ import annotations

import os
import sys
import time
from struct import Struct
from zlib import crc32

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable
    from typing import Any

_OWN = "their steps mix; let each process log environments of its own"
_flock = Struct("hhqqi4x")
_FILE = os.O_RDWR | os.O_CLOEXEC | os.O_NOFOLLOW
_STILL_NS = 1_000_000_000  # a folder that did not change for so long has no change unseen
_process = (-1, "")  # this process's number, and a word that no other has


def _word() -> str:
    global _process
    if _process[0] != os.getpid():
        _process = (os.getpid(), os.urandom(8).hex())
    return _process[1]


class Owners:
    """The environments that this process has taken, and those of others."""

    def __init__(self, root: str, run: str) -> None:
        self._folder = os.path.join(root, "environments", f"{crc32(run.encode()):08x}")
        self._run = run
        self._pid = -1
        self._forget()

    def _forget(self) -> None:
        self._own: tuple[int, str] | None = None  # descriptor and path of our file
        self._known: dict[str, _Other] = {}  # by the name of the file
        self._listed = -1  # when the folder changed last, as we know it

    def claim(self, envs: Iterable[str]) -> dict[str, int]:
        """Take environments; those that another process has already, with that process."""
        if not sys.platform.startswith("linux"):
            return {}
        marks = {_mark(self._run, env): env for env in envs}
        try:
            if self._pid != os.getpid():  # a forked child has no locks
                self.release()
                self._pid = os.getpid()
            if self._own is None:
                self._own = self._begin()
            os.write(self._own[0], b"".join(marks))
            return {marks[mark]: pid for mark, pid in self._others(marks).items()}
        except OSError:
            return {}  # a file system without locks

    def _begin(self) -> tuple[int, str]:
        """Our file: locked before anybody sees it."""
        os.makedirs(self._folder, 0o700, exist_ok=True)
        name = f"{os.getpid()}-{_word()}-{os.urandom(4).hex()}"
        path = os.path.join(self._folder, name)
        made = os.open(
            f"{self._folder}/.{name}", _FILE | os.O_CREAT | os.O_EXCL | os.O_APPEND, 0o600
        )
        try:
            _lock(made, True)
            os.rename(f"{self._folder}/.{name}", path)
        except OSError:
            os.close(made)
            raise
        return made, path

    def _others(self, marks: Iterable[bytes]) -> dict[bytes, int]:
        """Which of the marks are of other processes that live."""
        changed = os.stat(self._folder).st_mtime_ns
        if changed != self._listed:
            self._list()
            self._listed = changed if time.time_ns() - changed > _STILL_NS else -1
        found: dict[bytes, int] = {}
        for name, other in list(self._known.items()):
            try:
                other.read()
                both = other.marks.intersection(marks)
                pid = other.process() if both else 0
            except OSError:
                pid = None
            if pid is None:
                self._drop(name)
            else:
                found.update(dict.fromkeys(both, pid))
        return found

    def _list(self) -> None:
        """Find the files of others; those of processes that are gone are removed."""
        for name in os.listdir(self._folder):
            if name in self._known or _word() in name or name.startswith("."):
                continue
            self._known[name] = _Other(os.path.join(self._folder, name))
            try:
                if self._known[name].process() is None:
                    self._drop(name)
            except OSError:
                del self._known[name]  # gone meanwhile

    def _drop(self, name: str) -> None:
        try:
            os.unlink(self._known.pop(name).path)
        except OSError:
            pass  # another process was faster

    def release(self) -> None:
        """Let go of all environments."""
        if self._own is not None:
            os.close(self._own[0])
            if self._pid == os.getpid():
                try:
                    os.unlink(self._own[1])
                except OSError:
                    pass
        self._forget()


class _Other:
    """Another process's file, as far as it was read."""

    __slots__ = ("at", "marks", "path")

    def __init__(self, path: str) -> None:
        self.path = path
        self.at = 0
        self.marks: set[bytes] = set()

    def read(self) -> None:
        """Read what was appended."""
        if os.stat(self.path).st_size < self.at + 8:
            return
        with open(self.path, "rb") as file:
            file.seek(self.at)
            part = file.read()
        whole = len(part) // 8 * 8
        self.marks.update(part[i : i + 8] for i in range(0, whole, 8))
        self.at += whole

    def process(self) -> int | None:
        """The process whose file it is, None when it is gone."""
        file = os.open(self.path, _FILE)
        try:
            return _lock(file, False)
        finally:
            os.close(file)


def _mark(run: str, env: str) -> bytes:
    """Eight bytes that stand for an environment of a run."""
    key = f"{run}\0{env}".encode()
    return (crc32(key) << 32 | crc32(key[::-1])).to_bytes(8, "little")


def _lock(file: int, take: bool) -> int | None:
    """Lock a file's first byte, or tell who has it."""
    import fcntl

    wanted = _flock.pack(fcntl.F_WRLCK, os.SEEK_SET, 0, 1, 0)
    if take:
        fcntl.fcntl(file, fcntl.F_SETLK, wanted)
        return None
    found = _flock.unpack(fcntl.fcntl(file, fcntl.F_GETLK, wanted))
    return None if found[0] == fcntl.F_UNLCK else int(found[4])


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
