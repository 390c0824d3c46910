"""Where the spool lies, the keys in it, and a writer's folder (docs/format/spool.md)."""

from __future__ import annotations

import os
import stat
import time

from .._exceptions import KymogramSpoolUnavailableError
from .._platform import seams
from . import page

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any


def host() -> str:
    """The host's name as the spool's folder has it."""
    name = seams.host().lower()
    plain = "abcdefghijklmnopqrstuvwxyz0123456789.-"
    return "".join(c if c in plain else "-" for c in name) or "-"


def candidates(environ: dict[str, str] | os._Environ[str]) -> list[str]:
    """The folders that may hold the spool, best first."""
    home = os.path.expanduser("~")
    state = environ.get("XDG_STATE_HOME") or os.path.join(home, ".local", "state")
    own = f"kymogram-{seams.user() or environ.get('USERNAME', 0)}"
    found = [
        environ.get("KYMOGRAM_SPOOL_DIR") or environ.get("METRANA_DISK_SPOOL_DIR") or "",
        os.path.join(state, "kymogram", "spool", host()),
        os.path.join("/dev/shm", own),
        os.path.join(environ.get("TMPDIR") or "/tmp", own),
    ]
    return [full(path) for path in found if path]


def full(path: str) -> str:
    """The path that means the same in any folder; as it is when ours is gone."""
    try:
        return os.path.abspath(path)
    except FileNotFoundError:
        return path


_OF_ALL = ("/tmp", "/private/tmp", "/var/tmp", "/dev/shm")


def make_root(path: str) -> None:
    """Make the spool's folder; refuse one of another user and a link."""
    os.makedirs(os.path.dirname(path), exist_ok=True)
    try:
        os.mkdir(path, 0o700)
    except FileExistsError:
        pass
    info = os.lstat(path)
    if not stat.S_ISDIR(info.st_mode):
        raise OSError(f"{path} is not a folder (a link is refused)")
    if seams.user() not in (None, info.st_uid):
        raise OSError(f"{path} belongs to user {info.st_uid}")
    if os.path.realpath(path) in _OF_ALL:  # closing it would shut all others out
        raise OSError(f"{path} is for all users; name a folder of its own, such as {path}/kymogram")
    if info.st_mode & 0o077 and seams.user() is not None:
        os.chmod(path, 0o700)
    os.makedirs(os.path.join(path, "writers"), 0o700, exist_ok=True)


def flock(path: str, *, wait: float = 0.0, shared: bool = False) -> int | None:
    """Lock a file; its descriptor, or None when another holds it."""
    how = os.O_RDONLY if shared else os.O_RDWR  # who only looks may do so where nobody may write
    descriptor = seams.open_private(path, how | os.O_CREAT)
    deadline = time.monotonic() + wait
    while True:
        if seams.lock(descriptor, shared=shared):
            return descriptor
        if time.monotonic() >= deadline:
            os.close(descriptor)
            return None
        time.sleep(0.005)


def write_file(path: str, data: bytes) -> None:
    """Write a private file whole and durable: under another name, then renamed."""
    _write(path, data, durable=True)


def replace_file(path: str, data: bytes) -> None:
    """Write a private file whole, which may be lost with the machine's power."""
    _write(path, data, durable=False)


def _write(path: str, data: bytes, *, durable: bool) -> None:
    temporary = f"{path}.{os.getpid()}.tmp"
    descriptor = seams.open_private(temporary, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
    try:
        view = memoryview(data)
        while view:
            view = view[os.write(descriptor, view) :]
        if durable:
            os.fsync(descriptor)
    finally:
        os.close(descriptor)
    os.replace(temporary, path)


def read_json(path: str, damaged: Callable[[], None] = lambda: None) -> dict[str, Any]:
    """A JSON object; empty when the file is absent, or cannot be read, and `damaged` is called."""
    import json

    try:
        with open(path, encoding="utf-8") as file:
            found = json.load(file)
    except (FileNotFoundError, NotADirectoryError):
        return {}
    except (OSError, ValueError):
        found = None
    if not isinstance(found, dict):
        damaged()
        return {}
    return found


def save_key(root: str, server: str, key: str) -> None:
    """Give the deliverer the key; only this user can read it."""
    import json

    path = os.path.join(root, "credentials")
    if read_json(path).get(server) == key:
        return
    lock = flock(path + ".lock", wait=1.0)
    try:
        write_file(path, json.dumps({**read_json(path), server: key}).encode())
    finally:
        if lock is not None:
            os.close(lock)


class Folder:
    """A writer's folder, made under a temporary name: `enter` gives it its own."""

    def __init__(self, root: str, writer: str, document: dict[str, Any]) -> None:
        import json

        self.root = root
        self.writer = writer
        name = ".tmp-" + writer if seams.RENAMES_OPEN_FOLDERS else writer
        self.path = os.path.join(root, "writers", name)
        self._document = json.dumps(document).encode()
        os.mkdir(self.path, 0o700)
        lock = flock(os.path.join(self.path, "lock"))
        if lock is None:
            raise OSError(f"{self.path}/lock is held by another")
        self.lock = lock
        try:
            page.create(os.path.join(self.path, "status"))
        except OSError:
            self.discard()
            raise

    def enter(self) -> None:
        """Show the folder to the deliverer."""
        # Without open.json a folder is no writer yet, where it has its name from the start.
        write_file(os.path.join(self.path, "open.json"), self._document)
        final = os.path.join(self.root, "writers", self.writer)
        if self.path != final:
            os.rename(self.path, final)
        self.path = final

    def discard(self) -> None:
        """Remove what was made so far; raises nothing, as an interrupt may be on its way."""
        if not os.path.isdir(self.path):  # it came behind the rename
            self.path = os.path.join(self.root, "writers", self.writer)
        try:
            for name in os.listdir(self.path):
                os.unlink(os.path.join(self.path, name))
            os.rmdir(self.path)
        except OSError:
            pass  # what is left is a writer without points
        finally:
            os.close(self.lock)


def is_over(folder: str) -> bool:
    """Whether a writer's process is over."""
    path = os.path.join(folder, "lock")
    try:
        # Shared: two that look at once are not taken for a living writer.
        lock = flock(path, shared=True) if os.path.exists(path) else None
    except OSError:
        return False
    if lock is None:
        return False
    os.close(lock)
    return True


class Usage:
    """What a writer knows of the bytes in its spool.

    Thousands of writers may wait in it, and to look at each for every segment would
    cost more than the segment: the last count is kept in a file for all of them.
    """

    def __init__(self, root: str) -> None:
        self._root = root
        self._path = os.path.join(root, "used")
        self._at = 0  # of the kept count that `added` is from
        self.added = 0  # by this writer since

    def room(self, cap: int, size: int) -> int:
        """What the cap leaves, at least. Near the cap it counts anew."""
        found = self._at_most()
        if found is not None and found + size <= cap - cap // 4:
            return cap - found
        return cap - self._count()

    def _at_most(self) -> int | None:
        """The kept count, and what went from the disk since: whoever took that."""
        try:
            at = os.stat(self._path).st_mtime_ns
            if not 0 <= time.time_ns() - at <= _COUNT_EVERY_NS:
                return None
            with open(self._path, "rb") as file:
                found, free = map(int, file.read().split())
            if at != self._at:
                self._at, self.added = at, 0
            return found + max(self.added, free - seams.free(self._root))
        except (OSError, ValueError):
            return None

    def _count(self) -> int:
        """Look at every writer, and keep what was found for all of them."""
        try:
            free = seams.free(self._root)
            found = used(self._root)
            replace_file(self._path, b"%d %d\n" % (found, free))
        except OSError:
            return used(self._root)  # the next one counts too
        return found


_COUNT_EVERY_NS = 60 * 10**9


def used(root: str) -> int:
    """Bytes of all segments in the spool, those that are made ahead among them."""
    total = 0
    try:
        with os.scandir(os.path.join(root, "writers")) as writers:
            for writer in writers:
                total += _sizes(writer.path, (*_SEGMENTS, ".next"))[1]
    except OSError:
        pass
    return total


_SEGMENTS = (".seg", ".bad")


def segments(folder: str) -> tuple[int, int]:
    """Segments of a writer and their bytes."""
    return _sizes(folder, _SEGMENTS)


def leftover(folder: str) -> tuple[int, int]:
    """Segments of a writer; the bytes of these and of its videos."""
    number, total = segments(folder)
    return number, total + _sizes(os.path.join(folder, "renderings"), (".mp4",))[1]


def _sizes(folder: str, endings: tuple[str, ...]) -> tuple[int, int]:
    number = total = 0
    try:
        with os.scandir(folder) as files:
            for file in files:
                if file.name.endswith(endings):
                    size = file.stat().st_size
                    number += size > 0  # an empty .bad marks the segment beside it
                    total += size
    except OSError:
        pass  # the deliverer removed it meanwhile
    return number, total


def others(root: str, but: str = "") -> list[str]:
    """Folders of writers whose processes are over and that are not delivered.

    But for one writer, and for those of the machine's metrics of its run: the
    deliverer makes them, and they are no other program's.
    """
    folder = os.path.join(root, "writers")
    try:
        names = sorted(os.listdir(folder))
    except OSError:
        return []
    own = _job(os.path.join(folder, but)) if but else None
    paths = [
        os.path.join(folder, name) for name in names if not name.startswith(".") and name != but
    ]
    return [path for path in paths if is_over(path) and (own is None or _watched(path) != own)]


def _job(folder: str) -> list[object]:
    """What a writer's run and job are called."""
    opened = read_json(os.path.join(folder, "open.json")).get("open")
    found = opened if isinstance(opened, dict) else {}
    return [found.get(key) for key in ("workspace", "project", "run_name", "orchestration_id")]


def _watched(folder: str) -> list[object] | None:
    """The job whose machine's metrics a writer logs; None for any other writer."""
    opened = read_json(os.path.join(folder, "open.json")).get("open")
    if isinstance(opened, dict) and str(opened.get("sdk", "")).startswith("system/"):
        return _job(folder)
    return None


def no_room(tried: list[str]) -> KymogramSpoolUnavailableError:
    """The error when no folder can hold the spool."""
    return KymogramSpoolUnavailableError(
        "no folder can hold the spool; tried " + "; ".join(tried) + ". "
        "Free some space there or make it writable, or name another folder in KYMOGRAM_SPOOL_DIR"
    )
