"""The writer of a spool: appends records, rotates segments, keeps what finds no room.

The hot path (`kymogram/_log.py`) writes into the current segment without a lock; every
other path comes through `append`, under one lock. A full segment makes a write
raise ValueError, which leads here.
"""

from __future__ import annotations

import errno
import os
import sys
import time
from collections import deque
from threading import Event, RLock, local
from zlib import crc32

from .._exceptions import KymogramEventQueueFullError, KymogramLoggerClosedError
from .._platform import seams
from . import folders, jobs
from .count import Counts, count
from .owners import Owners
from .page import Page, Status
from .records import (
    FORMAT,
    HEADER_SIZE,
    PADDING,
    UPDATE,
    UPDATE_SIZE,
    pack_head,
    pack_length,
    record,
    update,
)
from .ring import Ring, Series
from .segment import Segment, mappable

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence
    from typing import Any

FIRST_SIZE = 256 << 10
LAST_SIZE = 4 << 20  # small enough to bring into memory ahead of the writes
CAP = 8 << 30
RING = 64 << 20
_GATE_S, _GATE_MAX_S = 0.0005, 0.02  # how often a full queue is looked at
_MADE_IN_CALL = 1 << 20  # bytes that a call may have to bring into memory itself
_LARGE_CALLS = 64  # that a segment takes at least, within its limits
_LAST_WORDS = 1 << 20  # past the cap: what was dropped, changes of the run, its end
_UNCOUNTED = ("close", "dropped")  # no changes of the run
_AMPLE = 8  # times a segment's size that a disk has free, to make one ahead
_RETRY_S = 1.0  # how often a full disk is tried again

HAS_GIL: bool = getattr(sys, "_is_gil_enabled", lambda: True)()


class Writer:
    """One writer's life: a folder with its segments, and memory behind it."""

    def __init__(
        self,
        root: str,
        writer: str,
        document: dict[str, Any],
        *,
        cap: int | None = None,
        first_size: int = FIRST_SIZE,
        ring: int = RING,
        backpressure: str = "spool",
        bound: int | None = None,
        enqueue_timeout: float = 0.1,
        forget: Callable[[], None] = lambda: None,
    ) -> None:
        self.writer = writer
        self.root = root
        self.lock = RLock()
        self.closed = False
        self.dropped = Counts()
        self.updates = [0, 0]  # of the run, of environments
        self._unreported = 0
        self._identity = bytes.fromhex(writer)
        self._mapped = mappable(root)
        self._cap = cap if cap is not None else min(CAP, seams.free(root) // 10)
        self._usage = folders.Usage(root)
        self._size = first_size
        self._ahead: Segment | None = None
        self._sealed: deque[Segment] = deque()  # full; unmapping takes a millisecond
        self.rotated = Event()  # the helper prepares the next segment
        self._ring = Ring()
        self._ring_limit = ring
        self._backpressure = backpressure
        self._forget = forget
        self._busy = False
        self.spare: list[Any] = []
        self._retry_at = 0.0
        self._refusal: OSError | None = None  # why the last segment could not be made
        self._next: Segment | None = None  # the one that follows, once it is chosen
        self._draining = self._released = False
        self._bound = bound
        self._enqueue_timeout = enqueue_timeout
        self._taken = 0  # points, where a bound needs them
        self._turned_away = local()
        # Where segments begin: the number of the first record, the segment's, what was before.
        self._begins: deque[tuple[int, int, Counts]] = deque([(1, 0, Counts())])
        opened = document.get("open") or {}
        place = (str(opened.get(key)) for key in ("workspace", "project", "run_name"))
        self._owners = Owners(root, "\0".join(place))
        opened = {**opened, "writer": writer}
        try:
            jobs.add(root, opened)
            self.folder = folders.Folder(root, writer, {**document, "format": FORMAT})
        except BaseException:
            jobs.remove(root, opened)
            raise
        try:
            self.segment = Segment(self.folder.path, 0, first_size, self._mapped)
            self.segment.publish(self._identity, 1, time.time_ns())
            self._page = Page(os.path.join(self.folder.path, "status"))
            self.folder.enter()
        except BaseException:
            self.folder.discard()
            jobs.remove(root, opened)
            raise

    # appending

    def scratch(self, size: int) -> memoryview:
        """Memory in which a large record is put together: `spare` has it between two."""
        try:
            memory = self.spare.pop()  # a signal handler that logs meanwhile finds none
        except IndexError:
            memory = bytearray()
        if len(memory) < size:
            memory = bytearray(size)
        return memoryview(memory)[:size]

    @property
    def hot(self) -> bool:
        """Whether calls may write without the lock; a bound has to count every point."""
        return HAS_GIL and self._bound is None

    def gate(self) -> None:
        """Before a call that logs points: wait for room, as the strategy says."""
        if self._bound is None:
            return
        self._turned_away.now = False
        deadline = time.monotonic() + self._enqueue_timeout
        pause = _GATE_S
        while self._taken - self._page.decided() >= self._bound and not self.closed:
            if self._backpressure != "block" and time.monotonic() >= deadline:
                if self._backpressure == "raise":
                    raise KymogramEventQueueFullError(
                        f"{self._bound:,} points are not acked by the server (queue_capacity), "
                        f"also after enqueue_timeout_secs = {self._enqueue_timeout:g}"
                    )
                self._turned_away.now = True
                return
            time.sleep(pause)
            pause = min(2 * pause, _GATE_MAX_S)

    def append(self, series: Sequence[Series], payload: bytes, points: int) -> None:
        """Append a record that uses these series; never fails for want of room."""
        while True:
            with self.lock:
                if self.closed:
                    raise KymogramLoggerClosedError("the run is closed; init() opens another")
                if points and self._bound is not None:
                    if getattr(self._turned_away, "now", False):
                        self._drop(payload, points)
                        return
                    self._taken += points
                if not self._ring or self._drain():
                    if self._store(series, payload):
                        return
                    if not self._busy:
                        self._retry_at = time.monotonic() + _RETRY_S
                if self._hold(series, payload, points):
                    return
                self._taken -= points
                if self._backpressure in ("raise", "spool_then_raise"):
                    raise KymogramEventQueueFullError(
                        f"the spool {self.root} ({self.why_full}) and "
                        f"{self._ring_limit >> 20} MiB of memory are full"
                    )
                if self._backpressure != "block":
                    self._drop(payload, points)
                    return
            time.sleep(0.01)

    def claim(self, envs: Iterable[str]) -> dict[str, int]:
        """Take environments for this process; those that another has, with that process."""
        return self._owners.claim(envs)

    def append_update(self, updates: list[dict[str, Any]]) -> None:
        """Append changes of the run."""
        import json

        counted = [
            one["op"] == "set_env_attribute" for one in updates if one["op"] not in _UNCOUNTED
        ]
        self.updates[0] += len(counted) - sum(counted)
        self.updates[1] += sum(counted)
        documents = [json.dumps(one, ensure_ascii=False, allow_nan=False)[1:] for one in updates]
        if documents:
            self._append_documents(f'{{"time_ns":{time.time_ns()},', documents)

    def _append_documents(self, start: str, documents: list[str]) -> None:
        """Append objects without their opening brace: the time comes first."""
        text = f",{start}".join(documents)
        if len(text) > UPDATE_SIZE and len(documents) > 1:
            half = len(documents) // 2
            self._append_documents(start, documents[:half])
            self._append_documents(start, documents[half:])
            return
        self.append((), update(f"[{start}{text}]".encode()), 0)

    def append_changes(self, payload: bytes, count: int) -> None:
        """Append a record of so many changes of the run; without the lock where it may."""
        self.updates[0] += count
        if HAS_GIL and not (self.closed or self._ring.size):
            length = len(payload)
            head = pack_head(length, crc32(payload, crc32(pack_length(length))))
            try:
                self.segment.write(head + payload + PADDING[-length & 7])
                return
            except ValueError:  # full
                pass
        self.append((), payload, 0)

    def _store(self, series: Sequence[Series], payload: bytes) -> bool:
        """Write into the current segment, or into the next; False when there is no room."""
        if self._busy:
            return False  # a signal handler logs while this thread rotates
        data = record(payload)
        while True:
            segment = self.segment
            try:
                for one in series:
                    if one.number not in segment.defined:
                        segment.write(one.definition)
                        segment.defined.add(one.number)
                segment.write(data)
                return True
            except ValueError:
                need = HEADER_SIZE + len(data) + sum(len(one.definition) for one in series)
                if not self._rotate(need):
                    return False

    def _hold(self, series: Sequence[Series], payload: bytes, points: int) -> bool:
        """Keep a record in memory; False when that is full too. Updates are always kept."""
        if points and self._ring.size + len(payload) > self._ring_limit and not self._busy:
            return False
        self._ring.push(series, payload)
        return True

    def _drop(self, payload: bytes, points: int) -> None:
        self.dropped.add_record(payload)
        self._unreported += points

    def _drain(self) -> bool:
        """Move what memory holds to the disk; False while there is no room."""
        if self._busy or self._draining or time.monotonic() < self._retry_at:
            return False  # a signal handler logs while this thread is at it
        try:
            self._draining = True
            while self._ring:
                series, payload = self._ring.first()
                if not self._store(series, payload):
                    self._retry_at = time.monotonic() + _RETRY_S
                    return False
                self._ring.pop()
        finally:
            self._draining = False
        if self._unreported:
            number, self._unreported = self._unreported, 0
            why = "spool_full" if self._bound is None else "queue_full"
            self.append_update([{"op": "dropped", "count": number, "text": why}])
        return True

    # segments

    def _rotate(self, need: int) -> bool:
        """Seal the current segment and open the next; False when there is no room for it.

        One that an interrupt cut goes on where it was: the segment is in `_next`
        before it is seen by anybody, and counts from the assignment on.
        """
        try:
            self._busy = True
            old = self.segment
            if self._next is None or self._next is old:
                self._next = self._reserve(need)
            segment = self._next
            if segment is None:
                return False
            old.seal()
            counts = old.scan()
            first = old.first + counts.records
            segment.publish(self._identity, first, time.time_ns())
            segment.before = old.before.copy()
            segment.before.add(counts)
            self._begins.append((first, segment.number, segment.before))
            self._forget()
            self.segment = segment
            self._sealed.append(old)
            self.rotated.set()
            return True
        except OSError as error:
            self._refusal = error
            return False
        finally:
            self._busy = False

    def _reserve(self, need: int) -> Segment | None:
        """The next segment: as large as the schedule, the cap and the disk allow."""
        ahead, self._ahead = self._ahead, None
        number = self.segment.number + 1
        if ahead is not None and ahead.size >= need and ahead.number == number:
            self._size = ahead.size
            return ahead
        if ahead is not None:
            ahead.discard()
        smallest, ample = (-(-size // 4096) * 4096 for size in (need, _LARGE_CALLS * need))
        largest = max(min(LAST_SIZE, self._cap // 8 & ~4095), smallest)
        wanted = min(max(2 * self._size, ample), largest)
        size = min(wanted, max(_MADE_IN_CALL, ample)) if self._mapped else wanted
        room = self._usage.room(self._cap, size)
        refusal = None
        while True:
            if size <= room:
                try:
                    segment = Segment(self.folder.path, number, size, self._mapped)
                    self._size = wanted
                    self._usage.added += size
                    return segment
                except OSError as error:
                    refusal = error
            if size <= max(smallest, 64 << 10):
                self._refusal = refusal
                return None
            wanted = size = max(size // 2 & ~4095, smallest)

    def prepare(self) -> None:
        """Make the next segment before it is needed, its pages in memory (the helper's work).

        The lock is not held while it is made: calls go on meanwhile.
        """
        self.rotated.clear()
        try:
            self._make_ahead()
        finally:
            self._unmap()

    def _make_ahead(self) -> None:
        with self.lock:  # a rotation under way has taken the one made ahead
            current, size = self.segment, self._size
            if self.closed or self._ahead is not None or not self._mapped:
                return
        try:
            if current.number == 0 and current.used() < current.size // 4:
                return  # nothing says yet that a second one will be needed
        except ValueError:
            return  # closed just now
        size = min(2 * size, max(LAST_SIZE, size), self._cap // 8 & ~4095)
        if size < 64 << 10 or size > self._usage.room(self._cap, size):
            return
        if self._ring or seams.free(self.root) < _AMPLE * size:
            return  # where room is short, the records come first
        segment = Segment(self.folder.path, current.number + 1, size, True, ahead=True)
        self._usage.added += size
        with self.lock:
            if self.closed or self.segment is not current or self._ahead is not None:
                segment.discard()
            else:
                self._ahead = segment

    def _unmap(self) -> None:
        """Let go of segments that are full; a write to one raises either way."""
        while self._sealed:
            try:
                self._sealed.popleft().close()
            except (IndexError, BufferError):
                return

    # looking

    def sequence(self) -> int:
        """The number of the last record."""
        with self.lock:
            return self.segment.first - 1 + self.segment.scan().records

    def counts(self) -> Counts:
        """Records and points in the spool since the start."""
        with self.lock:
            found = self.segment.before.copy()
            found.add(self.segment.scan())
            return found

    def held(self) -> Counts:
        """Points in memory, for which the disk has no room."""
        with self.lock:
            return self._ring.counts.copy()

    @property
    def full(self) -> bool:
        """Whether records wait in memory."""
        return bool(self._ring)

    def status(self) -> Status:
        """What the deliverer says."""
        return self._page.read()

    def tick(self) -> None:
        """Once a second: count what was appended, write what waits in memory."""
        with self.lock:
            if self.closed:
                return
            if self._ring or self._unreported:
                self._drain()
            self.segment.scan()

    def decided(self, mark: int) -> Counts:
        """Records and points up to a sequence, counted from where they lie."""
        with self.lock:
            while len(self._begins) > 1 and self._begins[1][0] <= mark + 1:
                self._begins.popleft()
            first, number, before = self._begins[0]
            found = before.copy()
            if mark >= first:
                found.add(self._first_of(number, mark + 1 - first))
            return found

    def _first_of(self, number: int, records: int) -> Counts:
        """What the first records of a segment hold."""
        segment = self.segment
        if number == segment.number and not segment.closed:
            return segment.first_of(records)
        try:
            with open(os.path.join(self.folder.path, f"{number:08d}.seg"), "rb") as file:
                return count(memoryview(file.read())[HEADER_SIZE:], records)
        except OSError:  # delivered and deleted: nothing of it is pending
            if len(self._begins) > 1:
                return self._begins[1][2].less(self._begins[0][2])
            return segment.scan()

    @property
    def why_full(self) -> str:
        """Why the spool takes no more, in words, and what helps."""
        error = self._refusal
        if error is None:
            return f"{self._cap >> 20:,} MiB are its share of the disk; delivery frees it"
        if error.errno == errno.EROFS:
            return "its file system is read-only; mount it writable again"
        if error.errno in (errno.ENOSPC, errno.EDQUOT):
            return "the disk is full; free some of it"
        return f"the disk says {error.strerror or error}"

    @property
    def why_dropped(self) -> str:
        """Why points of this process were dropped, in words."""
        if self._bound is not None:
            return f"{self._bound:,} points were not acked by the server (queue_capacity)"
        return f"the spool {self.root} took no more ({self.why_full}), nor did the memory"

    def sync(self) -> None:
        """Force everything appended so far to the disk."""
        with self.lock:
            folder = self.folder.path
        for name in sorted(os.listdir(folder)):
            if name.endswith(".seg"):
                _fsync(os.path.join(folder, name))
        _fsync(folder)
        _fsync(os.path.dirname(folder))

    # ending

    def end(self, status: str, signal: str = "") -> int:
        """Write the close record, with what ended the process; the number of the last record."""
        with self.lock:
            if not self.closed:
                self._retry_at = 0.0
                self._drain()
                by = {"signal": signal} if signal else {}
                self.append_update([{"op": "close", "text": status, **by}])
            return self.sequence()

    @property
    def waits(self) -> bool:
        """Whether records wait in memory."""
        return bool(self._ring or self._unreported)

    def press(self) -> int:
        """Try the disk again at once; the number of the last record."""
        with self.lock:
            self._retry_at = 0.0
            self._drain()
            return self.sequence()

    def _last_words(self) -> None:
        """Give up the points that found no room, and say so past the cap: the ledger tells."""
        self._retry_at = 0.0
        if self._busy or self._draining or self._drain():
            return  # a signal handler closes what its own thread is at
        kept = [(series, payload) for series, payload in self._ring if payload[0] == UPDATE]
        lost = self._ring.counts.copy()
        lost.records -= len(kept)
        self.dropped.add(lost)
        self._unreported += lost.floats + lost.rl
        self._ring.clear()
        self._cap = max(self._cap, folders.used(self.root) + _LAST_WORDS)
        self._retry_at = 0.0
        if self._drain():  # how many were dropped, then what else there was to say
            for series, payload in kept:
                self._ring.push(series, payload)
            self._drain()

    def close(self) -> None:
        """Unmap and let go of the lock: the deliverer sees that this writer ended."""
        with self.lock:
            if self._released:
                return
            if self.waits and not self.closed:
                self._last_words()
            self.closed = True
            self._forget()
            self.segment.scan()
            self.segment.close()
            self._unmap()
            for unused in (self._ahead, self._next):
                if unused is not None and unused is not self.segment:
                    unused.discard()
            self.rotated.set()
            self._owners.release()
            self._released = True
            os.close(self.folder.lock)

    def abandon(self) -> None:
        """In a forked child: the parent goes on writing here, this process must not."""
        self.closed = self._released = True
        try:
            os.close(self.folder.lock)
        except OSError:
            pass


def _fsync(path: str) -> None:
    try:
        descriptor = seams.open_private(path, os.O_RDONLY)
    except FileNotFoundError:
        return  # delivered and deleted meanwhile
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
