"""How many records and points a stretch of a segment holds.

A record's sequence is its place, and threads append without a lock, so the
number is found by counting. Loops log records of one size, hence whole runs of
equal lengths are checked by one strided slice: about 10 ns a record.
"""

from __future__ import annotations

from struct import Struct

from .records import SEALED, pack_length

_length_at = Struct("<I").unpack_from
_block_at = Struct("<BBBBII").unpack_from
_RUN = 64
_RUN_MAX = 8192


class Counts:
    """Records, and the points in them."""

    __slots__ = ("floats", "records", "rl")

    def __init__(self, records: int = 0, floats: int = 0, rl: int = 0) -> None:
        self.records = records
        self.floats = floats
        self.rl = rl

    def add(self, other: Counts) -> None:
        """Add another's numbers."""
        self.records += other.records
        self.floats += other.floats
        self.rl += other.rl

    def add_record(self, payload: bytes, sign: int = 1) -> None:
        """Add a record, or take it away; only RL blocks have several axes."""
        self.records += sign
        if payload[0] == 3:
            _, _, _, axes, rows, series = _block_at(payload, 0)
            if axes > 1:
                self.rl += sign * rows * series
            else:
                self.floats += sign * rows * series
        elif payload[0] in (2, 5):
            self.floats += sign

    def less(self, other: Counts) -> Counts:
        """What another has not; never below nothing."""
        return Counts(
            max(self.records - other.records, 0),
            max(self.floats - other.floats, 0),
            max(self.rl - other.rl, 0),
        )

    def copy(self) -> Counts:
        """These numbers, apart."""
        return Counts(self.records, self.floats, self.rl)


def count(region: memoryview, most: int = 1 << 62) -> Counts:
    """Count the first records of a region that starts and ends at a record's edge."""
    found = Counts()
    if len(region) < 8:
        return found
    words = region.cast("I")
    position, end, run, previous = 0, len(region), _RUN, -1
    while position < end and found.records < most:
        length: int = _length_at(region, position)[0]
        if length in (0, SEALED):
            break
        stride = 8 + (length + 7 & ~7)
        equal = 1
        if length == previous:
            possible = min(run, (end - position) // stride, most - found.records)
            equal = _equal(words, position // 4, stride // 4, length, possible)
            run = min(2 * run, _RUN_MAX) if equal == possible else _RUN
        previous = length
        stop = position + equal * stride
        _add(found, region[position:stop], words[position // 4 : stop // 4], stride, equal)
        position = stop
    words.release()
    return found


def _equal(words: memoryview, start: int, stride: int, length: int, possible: int) -> int:
    """How many records in a row have this length; each one proves where the next is."""
    found = words[start : start + possible * stride : stride].tobytes()
    wanted = pack_length(length)
    if found == wanted * possible:
        return possible
    return next(i for i in range(possible) if found[4 * i : 4 * i + 4] != wanted)


def _add(found: Counts, region: memoryview, words: memoryview, stride: int, records: int) -> None:
    """Add the points of records of one length."""
    found.records += records
    kinds = region[8::stride].tobytes()
    if kinds.count(3) == records and _alike(region, words, stride, records):
        _add_block(found, region, 0, records)
        return
    found.floats += kinds.count(2) + kinds.count(5)
    place = kinds.find(3)
    while place >= 0:
        _add_block(found, region, place * stride, 1)
        place = kinds.find(3, place + 1)


def _alike(region: memoryview, words: memoryview, stride: int, records: int) -> bool:
    """Whether all blocks have the same number of axes, rows and series."""
    each = region[11::stride], words[3 :: stride // 4], words[4 :: stride // 4]
    return all(part.tobytes() == part[:1].tobytes() * records for part in each)


def _add_block(found: Counts, region: memoryview, position: int, records: int) -> None:
    _, _, _, axes, rows, series = _block_at(region, position + 8)
    if axes > 1:
        found.rl += records * rows * series
    else:
        found.floats += records * rows * series
