"""Records that find no room on the disk: in memory, with 4 bytes beside each payload."""

from __future__ import annotations

from collections import deque
from struct import Struct

from .count import Counts
from .records import pack_length, series_of

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

_CHUNK = 256 << 10
_length_at = Struct("<I").unpack_from


class Series:
    """A series as the spool knows it."""

    __slots__ = ("definition", "kind", "number")

    def __init__(self, number: int, kind: int, definition: bytes) -> None:
        self.number = number
        self.kind = kind
        self.definition = definition


class _Chunk(bytearray):
    """Records, each behind its length; those before `at` are gone."""

    at = 0


class Ring:
    """Records in order. A signal may cut each method; no record is lost or comes twice then."""

    def __init__(self) -> None:
        self._chunks: deque[_Chunk] = deque([_Chunk()])
        self._series: dict[int, Series] = {}  # of the records, by number
        self.counts = Counts()
        self.size = 0  # bytes

    def __bool__(self) -> bool:
        last = self._chunks[-1]
        return last.at < len(last) or (
            len(self._chunks) > 1 and any(chunk.at < len(chunk) for chunk in self._chunks)
        )

    def push(self, series: Sequence[Series], payload: bytes) -> None:
        """Take a record that uses these series."""
        for one in series:
            self._series[one.number] = one
        if len(self._chunks[-1]) >= _CHUNK:
            self._chunks.append(_Chunk())
        chunk = self._chunks[-1]
        chunk += pack_length(len(payload)) + payload
        self._count(payload, 1)

    def first(self) -> tuple[list[Series], bytes]:
        """The oldest record, and the series that it uses."""
        while self._chunks[0].at >= len(self._chunks[0]):
            self._chunks.popleft()
        payload = _payload(self._chunks[0])
        return [self._series[number] for number in series_of(payload)], payload

    def pop(self) -> None:
        """Let go of the oldest record."""
        payload = _payload(self._chunks[0])
        self._chunks[0].at += 4 + len(payload)
        self._count(payload, -1)
        if not self:
            self.clear()

    def clear(self) -> None:
        """Let go of all records."""
        self._chunks = deque([_Chunk()])
        self._series = {}
        self.counts = Counts()
        self.size = 0

    def __iter__(self) -> Iterator[tuple[list[Series], bytes]]:
        for chunk in self._chunks:
            at = chunk.at
            while at < len(chunk):
                payload = _payload(chunk, at)
                at += 4 + len(payload)
                yield [self._series[number] for number in series_of(payload)], payload

    def _count(self, payload: bytes, sign: int) -> None:
        self.counts.add_record(payload, sign)
        self.size += sign * (4 + len(payload))


def _payload(chunk: _Chunk, at: int | None = None) -> bytes:
    start = (chunk.at if at is None else at) + 4
    return bytes(chunk[start : start + _length_at(chunk, start - 4)[0]])
