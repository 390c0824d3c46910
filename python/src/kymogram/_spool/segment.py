"""One segment of a spool: reserve its space, map it, append, seal, count."""

from __future__ import annotations

import mmap
import os
from threading import Lock

from .._platform import seams
from .count import Counts, count
from .records import HEADER_SIZE, header, seal

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

# A mapped store into a file of these may find no room when it is written back
# (copy on write), or is not seen by another reader (network): written by pwrite.
_UNMAPPED = frozenset(
    "nfs nfs4 cifs smb3 smbfs 9p ceph lustre afs gpfs beegfs "
    "btrfs zfs bcachefs fuse fuseblk vboxsf virtiofs".split()
)


def mappable(folder: str) -> bool:
    """Whether files of the folder can be written through a map."""
    best, kind = "", ""
    folder = os.path.realpath(folder)  # mounts are listed without links
    try:
        with open("/proc/self/mounts", encoding="utf-8", errors="surrogateescape") as mounts:
            for line in mounts:
                _, point, name, *_ = line.split(" ")
                point = point.replace("\\040", " ")
                inside = folder == point or folder.startswith(point.rstrip("/") + "/")
                if inside and len(point) >= len(best):
                    best, kind = point, name
    except (OSError, ValueError):
        return True
    return kind not in _UNMAPPED and not kind.startswith("fuse.")


class _File:
    """What Segment needs of a map, over pwrite."""

    def __init__(self, descriptor: int, size: int) -> None:
        self._descriptor = os.dup(descriptor)
        self._size = size
        self._position = 0
        self._lock = Lock()

    def seek(self, position: int) -> None:
        self._position = position

    def tell(self) -> int:
        return self._position

    def size(self) -> int:
        return self._size

    def write(self, data: bytes | bytearray | memoryview) -> int:
        with self._lock:
            if self._descriptor < 0 or self._position + len(data) > self._size:
                raise ValueError("data out of range")
            done = 0
            try:
                while done < len(data):
                    rest = memoryview(data)[done:]
                    done += seams.pwrite(self._descriptor, rest, self._position + done)
            except OSError as error:
                raise ValueError("no room") from error
            self._position += done
            return done

    def region(self, start: int, stop: int) -> memoryview:
        return memoryview(seams.pread(self._descriptor, stop - start, start))

    def close(self) -> None:
        with self._lock:
            if self._descriptor >= 0:
                os.close(self._descriptor)
                self._descriptor = -1


class _Map(mmap.mmap):
    """A map that hands out its bytes."""

    def region(self, start: int, stop: int) -> memoryview:
        return memoryview(self)[start:stop]


class Segment:
    """A segment file; `write` appends one whole record or raises ValueError when it is full."""

    def __init__(
        self, folder: str, number: int, size: int, mapped: bool, ahead: bool = False
    ) -> None:
        self.number = number
        self.first = 0
        self.size = size
        self.defined: set[int] = set()
        self.before = Counts()  # what the segments before it hold
        self.closed = False
        self._seen = HEADER_SIZE, Counts()  # up to where it was counted, and what: one store
        self._temporary = os.path.join(folder, f".{number:08d}.{'next' if ahead else 'tmp'}")
        self._path = os.path.join(folder, f"{number:08d}.seg")
        _remove(self._temporary)  # not truncated: who has a file mapped would die of SIGBUS
        flags = os.O_RDWR | os.O_CREAT | os.O_EXCL
        descriptor = seams.open_private(self._temporary, flags)
        try:
            seams.reserve(descriptor, size)
            if mapped:
                seams.warm(descriptor, size)
            self._map: _Map | _File
            self._map = _Map(descriptor, size) if mapped else _File(descriptor, size)
        except BaseException:
            os.unlink(self._temporary)
            raise
        finally:
            os.close(descriptor)
        self.write: Callable[[bytes | bytearray | memoryview], int] = self._map.write

    def used(self) -> int:
        """Bytes that are written."""
        return self._map.tell()

    def discard(self) -> None:
        """Remove a segment that was never published."""
        self.close()
        _remove(self._temporary)

    def publish(self, writer: bytes, first: int, created_ns: int) -> None:
        """Write the header and give the file its name: now a reader sees it."""
        self.first = first
        self._map.seek(0)
        self._map.write(header(writer, self.number, first, created_ns))
        if not seams.RENAMES_OPEN_FOLDERS:
            self._rename_closed()
            return
        try:
            os.rename(self._temporary, self._path)
        except FileNotFoundError:
            if not os.path.exists(self._path):  # else an interrupted call had renamed it
                raise

    def _rename_closed(self) -> None:
        """Rename where no open file can be: between two maps; nobody writes yet."""
        mapped = isinstance(self._map, _Map)
        self._map.close()
        os.rename(self._temporary, self._path)
        descriptor = seams.open_private(self._path, os.O_RDWR)
        try:
            self._map = _Map(descriptor, self.size) if mapped else _File(descriptor, self.size)
        finally:
            os.close(descriptor)
        self._map.seek(HEADER_SIZE)
        self.write = self._map.write

    def seal(self) -> None:
        """Fill the rest in one step; a write of another thread in between makes it start over."""
        while True:
            used = self._map.tell()
            if self.size - used < 8:
                return
            try:
                self._map.write(seal(self.size - used))
                return
            except ValueError as error:
                if self._map.tell() == used:  # nobody wrote: the file takes no more
                    raise (error.__cause__ or error) from None

    def scan(self) -> Counts:
        """Count what was appended since the last look; everything so far is returned."""
        scanned, found = self._seen
        if self.closed:
            return found
        end = self._map.tell()
        if end > scanned:
            with self._map.region(scanned, end) as region:
                more = count(region)
            more.add(found)
            self._seen = end, found = end, more
        return found

    def first_of(self, records: int) -> Counts:
        """What the first records hold."""
        with self._map.region(HEADER_SIZE, self._map.tell()) as region:
            return count(region, records)

    def close(self) -> None:
        """Unmap; a later write raises ValueError."""
        self.closed = True
        try:
            self._map.close()
        except BufferError:
            pass  # a look was interrupted: its view, and the map, go with the traceback


def _remove(path: str) -> None:
    try:
        os.unlink(path)
    except OSError:
        pass
