"""Records of NumPy arrays: what calls of one shape have in common is made once."""

from __future__ import annotations

import sys
from zlib import crc32

from .._spool.records import (
    EXPLICIT,
    FLOAT,
    LINEAR,
    NARROW,
    PADDING,
    PAYLOAD_LIMIT,
    RELATIVE,
    STEP,
    block_head,
    pack_head,
    pack_i64,
    pack_length,
)
from . import tables
from .columns import given_steps, time_column
from .tables import VECTORS

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Protocol

    from .._spool.records import Buffer
    from .._spool.segment import Segment
    from .._spool.writer import Writer
    from .series import StepSeries

    class Owner(Protocol):
        """What a vector needs of the logger that made it."""

        writer: Writer
        narrow: bool

        def fell(self, found: StepSeries, step: int) -> None: ...


WIDTHS = tables.WIDTHS  # assigned, not imported: see _log

HEAD = 8  # bytes before a payload
_LARGE = 64 << 10  # bytes of a record
_COUNTED = 256  # calls after which the segment is counted
_TEMPLATES = 64  # shapes of a series that are remembered


class Template:
    """What records of one shape begin with, and the CRC of it."""

    __slots__ = ("calls", "first", "length", "padding", "seed", "width")

    def __init__(self, first: bytes, tail: int, width: int) -> None:
        self.first = first
        self.width = width  # of a number
        self.length = len(first) + tail
        self.seed = crc32(first, crc32(pack_length(self.length)))
        self.padding = PADDING[-self.length & 7]
        self.calls = 0

    def write(self, writer: Writer, segment: Segment, *rest: Buffer) -> None:
        """Append a record, under the writer's lock; ValueError when the segment is full."""
        # Copied before the checksum is taken: other threads may change an array meanwhile.
        if self.length > _LARGE:
            self._write_large(writer, segment, rest)
        else:
            data = b"".join(rest)
            head = pack_head(self.length, crc32(data, self.seed))
            segment.write(b"".join((head, self.first, data, self.padding)))
        self.calls += 1
        if not self.calls % _COUNTED:
            segment.scan()  # while the records are in the cache: the call that fills it would wait

    def _write_large(self, writer: Writer, segment: Segment, rest: tuple[Buffer, ...]) -> None:
        """The same in memory that is there already: new pages cost more than the copies."""
        record = writer.scratch(HEAD + self.length + len(self.padding))
        at = start = HEAD + len(self.first)
        record[HEAD:start] = self.first
        for part in rest:
            record[at : at + len(part)] = part
            at += len(part)
        record[at:] = self.padding
        record[:HEAD] = pack_head(self.length, crc32(record[start:at], self.seed))
        segment.write(record)
        writer.spare[:] = [record.obj]


def log_again(metric: Any, value: Any, step: Any, timestamp: Any) -> bool:
    """Log an array to a series of this segment; False where the slow path has to."""
    try:
        entry: Vector = VECTORS[metric]
    except (KeyError, TypeError):
        return False
    return entry.log(value, step, timestamp)


def storable(value: Any, narrow: bool) -> int:
    """Bytes a number that an array is stored with, else 0."""
    width = WIDTHS.get(value.dtype, 0)
    if not width or not value.size or value.nbytes > PAYLOAD_LIMIT // 2:
        return 0
    return NARROW if narrow else width


def contiguous(value: Any, width: int) -> Buffer:
    """The bytes of an array, without a copy where they lie in order and are so wide."""
    if value.itemsize != width:
        with sys.modules["numpy"].errstate(all="ignore"):  # beyond float32 is Inf, or 0
            value = value.astype("<f4", order="C")
    return memoryview(value).cast("B") if value.flags.c_contiguous else memoryview(value.tobytes())


class Vector:
    """The calls of one series with an array, in one segment."""

    __slots__ = ("logger", "segment", "series", "templates")

    def __init__(self, logger: Owner, series: StepSeries) -> None:
        self.logger = logger
        self.series = series
        self.segment = logger.writer.segment
        self.templates: dict[tuple[Any, tuple[int, ...], int, int], Template] = {}

    def log(self, value: Any, step: Any, timestamp: Any) -> bool:
        """Log an array; False when it is none of the plain ones."""
        series, writer, shape = self.series, self.logger.writer, value.shape
        if len(shape) != 1 or not shape[0]:
            return False
        rows = shape[0]
        when = time_column(timestamp, rows)
        given = given_steps(step, rows)
        with writer.lock:
            if given is None:
                mode = LINEAR if series.follows_absolute else LINEAR | RELATIVE
            else:
                mode = given.mode
            key = value.dtype, shape, mode, when.mode
            template = self.templates.get(key)
            if template is None:
                template = self._template(value, *key)
                if template is None:
                    return False
            steps: Buffer
            if given is None:
                steps = pack_i64(series.take(rows))
            else:
                steps = given.data
                if not (series.follow(given.first, given.last) and given.rises):
                    self.logger.fell(series, given.first)
            data = contiguous(value, template.width)
            try:
                template.write(writer, self.segment, when.data, steps, data)
            except ValueError:
                payload = b"".join((template.first, when.data, steps, data))
                writer.append((series,), payload, rows)
        return True

    def _template(
        self, value: Any, dtype: Any, shape: tuple[int, ...], step: int, time: int
    ) -> Template | None:
        width, rows = storable(value, self.logger.narrow), shape[0]
        columns = 8 * sum(rows if mode == EXPLICIT else 1 for mode in (step, time))
        if not width or columns + rows * width > PAYLOAD_LIMIT // 2:
            return None
        first = block_head(FLOAT, width, rows, [self.series.number], time, [(STEP, step)])
        found = Template(first, columns + rows * width, width)
        if len(self.templates) >= _TEMPLATES:
            self.templates.clear()
        self.templates[dtype, shape, step, time] = found
        return found
