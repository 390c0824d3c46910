"""The bytes of a spool's records (docs/format/spool.md). Pure functions, no I/O."""

from __future__ import annotations

from struct import Struct
from zlib import crc32

try:  # json's own part in C: importing its package would take 4 ms
    from _json import encode_basestring as _quoted
except ImportError:  # another Python
    from json.encoder import encode_basestring as _quoted

quoted = _quoted  # a text as JSON writes it with ensure_ascii=False
FLOAT, INT = 1, 2
CONSTANT, LINEAR, EXPLICIT, STRETCHES, EACH, RELATIVE, RISING = 0, 1, 2, 3, 4, 8, 16
HAS_STEP, STEP_IS_RELATIVE = 1, 2
UPDATE = 4  # the type of a record that changes the run
UPDATE_HEAD = b"\x04\0\0\0\0\0\0\0"  # what such a record begins with
STEP, RL_STEP, EPISODE, ENV_STEP = 1, 2, 3, 4

MAGIC = b"KYMSPOOL"
FORMAT = 3  # of the spool
HEADER_SIZE = 64
SEALED = 0xFFFFFFFF
PAYLOAD_LIMIT = 1 << 20  # a call above it becomes several records
UPDATE_SIZE = 200_000  # bytes of changes in a record
WIDE, NARROW = 8, 4  # bytes of a value: NARROW is float32 or int32, as the kind says

pack_head = Struct("<II").pack
pack_length = Struct("<I").pack
pack_i64 = Struct("<q").pack
pack_f64 = Struct("<d").pack
pack_point = Struct("<BBBBI").pack
pack_float_body = Struct("<qqd").pack  # step, time and value, behind pack_point's bytes
pack_float_record = Struct("<II8sqqd").pack  # the same with the record's head and those bytes
# Behind the axes in a block of one number: its series, time, step, rl_step (, episode), value.
pack_counted_episode = Struct("<I4xqqqd").pack
pack_given_episode = Struct("<I4xqqqqd").pack
_pack_block = Struct("<BBBBIII").pack
_pack_header = Struct("<8sHHI16sQQQI").pack
_id_at = Struct("<I").unpack_from
PADDING = [bytes(n) for n in range(8)]

POINT_LENGTH = 32
POINT_LENGTH_CRC = crc32(pack_length(POINT_LENGTH))


def header(writer: bytes, number: int, first: int, created_ns: int) -> bytes:
    """The 64 bytes at the start of a segment."""
    plain = _pack_header(MAGIC, FORMAT, HEADER_SIZE, 0, writer, number, first, created_ns, 0)
    return plain + pack_length(crc32(plain))


def record(payload: bytes) -> bytes:
    """Head, payload and padding."""
    length = len(payload)
    return b"".join(
        (
            pack_head(length, crc32(payload, crc32(pack_length(length)))),
            payload,
            PADDING[-length & 7],
        )
    )


def seal(rest: int) -> bytes:
    """What fills the last `rest` bytes of a segment."""
    return pack_length(SEALED) + bytes(rest - 4)


def series(kind: int, number: int, key: bytes) -> bytes:
    """Payload that defines a series; key is its JSON."""
    return pack_point(1, kind, 0, 0, number) + key


def update(document: bytes) -> bytes:
    """Payload of changes to the run; document is their JSON array."""
    return UPDATE_HEAD + document


def series_of(payload: bytes) -> tuple[int, ...]:
    """The numbers of the series that a record uses."""
    if payload[0] in (2, 5):
        return _id_at(payload, 4)
    if payload[0] != 3:
        return ()
    axes, series = payload[3], _id_at(payload, 8)[0]
    return Struct(f"<{series}I").unpack_from(payload, 16 + 8 * axes)


Buffer = bytes | memoryview


class Column:
    """One column of a block: its mode and its numbers."""

    __slots__ = ("data", "mode")

    def __init__(self, mode: int, data: Buffer) -> None:
        self.mode = mode
        self.data = data

    def series(self, index: int, rows: int) -> Column:
        """The column of one series alone."""
        found = self.several(index, index + 1, rows)
        return Column(self.mode & ~EACH, found.data)

    def several(self, start: int, stop: int, rows: int) -> Column:
        """The column of the series start…stop."""
        if not self.mode & EACH:
            return self
        width = 8 * (rows if self.mode & 3 == EXPLICIT else 1)
        return Column(self.mode, self.data[start * width : stop * width])

    def rows(self, start: int, stop: int) -> Column:
        """The rows start…stop of a column of one series."""
        how = self.mode & 3
        if how == EXPLICIT:
            return Column(self.mode, self.data[8 * start : 8 * stop])
        if how == LINEAR:
            first = int.from_bytes(self.data, "little", signed=True)
            return Column(self.mode, pack_i64(first + start))
        return self


def constant(value: int) -> Column:
    """The same number in every row."""
    return Column(CONSTANT, pack_i64(value))


def linear(first: int, relative: bool = False) -> Column:
    """Make a column of first, first + 1, … ."""
    return Column(LINEAR | (RELATIVE if relative else 0), pack_i64(first))


def stretches(firsts: Buffer, lengths: bytes, flags: int = 0) -> Column:
    """The rows of all series as stretches: the first number of each (i64) and its rows (u32)."""
    many = pack_i64(len(lengths) // 4)
    data = b"".join((many, firsts, lengths, PADDING[-len(lengths) & 7]))
    return Column(STRETCHES | EACH | flags, data)


def int64s(data: Buffer) -> tuple[int, ...]:
    """The numbers of a column."""
    return Struct(f"<{len(data) // 8}q").unpack(data)


def numbers(ids: list[int] | bytes) -> bytes:
    """Series ids as a block holds them."""
    data = ids if isinstance(ids, bytes) else Struct(f"<{len(ids)}I").pack(*ids)
    return data + PADDING[-len(data) & 7]


def block_start(
    kind: int, width: int, rows: int, series: int, time: int, axes: list[tuple[int, int]]
) -> bytes:
    """The start of a block, up to the ids of its series; time and axes are modes."""
    stored = 0 if width == WIDE else width
    parts = [_pack_block(3, kind, time, len(axes), rows, series, stored)]
    return b"".join(parts + [pack_point(axis, mode, 0, 0, 0) for axis, mode in axes])


def block_head(
    kind: int, width: int, rows: int, ids: list[int], time: int, axes: list[tuple[int, int]]
) -> bytes:
    """The start of a block: everything before its columns."""
    return block_start(kind, width, rows, len(ids), time, axes) + numbers(ids)


def block(
    kind: int,
    rows: int,
    ids: list[int],
    time: Column,
    axes: list[tuple[int, Column]],
    values: Buffer,
    width: int = WIDE,
) -> list[tuple[list[int], bytes, int]]:
    """The payloads of S series × R rows, each with its ids and number of points."""
    size = 40 + 4 * len(ids) + 8 * len(axes) + len(time.data) + len(values)
    size += sum(len(column.data) for _, column in axes)
    if size <= PAYLOAD_LIMIT:
        modes = [(axis, column.mode) for axis, column in axes]
        parts = [
            block_head(kind, width, rows, ids, time.mode, modes),
            time.data,
            *(column.data for _, column in axes),
            values,
        ]
        return [(ids, b"".join(parts), rows * len(ids))]
    if len(ids) > 1:
        return _by_series(kind, rows, ids, time, axes, values, width)
    return _by_rows(kind, rows, ids, time, axes, values, width)


def _by_series(
    kind: int,
    rows: int,
    ids: list[int],
    time: Column,
    axes: list[tuple[int, Column]],
    values: Buffer,
    width: int,
) -> list[tuple[list[int], bytes, int]]:
    """Both halves of the series."""
    found = []
    half = len(ids) // 2
    for start, stop in (0, half), (half, len(ids)):
        picked = [(axis, column.several(start, stop, rows)) for axis, column in axes]
        data = values[width * rows * start : width * rows * stop]
        some = ids[start:stop]
        found += block(kind, rows, some, time.several(start, stop, rows), picked, data, width)
    return found


def _by_rows(
    kind: int,
    rows: int,
    ids: list[int],
    time: Column,
    axes: list[tuple[int, Column]],
    values: Buffer,
    width: int,
) -> list[tuple[list[int], bytes, int]]:
    found = []
    step = (PAYLOAD_LIMIT - 4096) // (8 * (2 + len(axes)))
    for start in range(0, rows, step):
        stop = min(start + step, rows)
        picked = [(axis, column.rows(start, stop)) for axis, column in axes]
        data = values[width * start : width * stop]
        found += block(kind, stop - start, ids, time.rows(start, stop), picked, data, width)
    return found
