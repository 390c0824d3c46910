"""Records of NumPy arrays: what calls of one shape have in common is made once."""

from __future__ import annotations

import sys
from struct import Struct
from time import time_ns
from zlib import crc32

from .._input import numeric
from .._spool.records import (
    CONSTANT,
    FLOAT,
    LINEAR,
    NARROW,
    PADDING,
    PAYLOAD_LIMIT,
    RELATIVE,
    STEP,
    block_head,
    pack_head,
    pack_length,
)
from . import tables
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

_TEMPLATES = 64  # shapes of a series that are remembered
_pack_columns = Struct("<qq").pack


class Template:
    """What records of one shape begin with, and the CRC of it."""

    __slots__ = ("first", "length", "padding", "seed", "width")

    def __init__(self, first: bytes, tail: int, width: int) -> None:
        self.first = first
        self.width = width  # of a number
        self.length = len(first) + tail
        self.seed = crc32(first, crc32(pack_length(self.length)))
        self.padding = PADDING[-self.length & 7]

    def write(self, segment: Segment, columns: bytes, data: Buffer) -> None:
        """Append a record; ValueError when the segment is full."""
        # Copied before the checksum is taken: other threads may change an array meanwhile.
        rest = b"".join((columns, data))
        head = pack_head(self.length, crc32(rest, self.seed))
        segment.write(b"".join((head, self.first, rest, self.padding)))


def log_again(metric: Any, value: Any, step: Any) -> bool:
    """Log an array to a series of this segment; False where the slow path has to."""
    try:
        entry: Vector = VECTORS[metric]
    except (KeyError, TypeError):
        return False
    return entry.log(value, step)


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
    found: Buffer = value if value.flags.c_contiguous else value.tobytes()
    return found


class Vector:
    """The calls of one series with an array, in one segment."""

    __slots__ = ("logger", "segment", "series", "templates")

    def __init__(self, logger: Owner, series: StepSeries) -> None:
        self.logger = logger
        self.series = series
        self.segment = logger.writer.segment
        self.templates: dict[tuple[Any, tuple[int, ...], bool], Template] = {}

    def log(self, value: Any, step: int | None) -> bool:
        """Log an array at successive steps; False when it is none of the plain ones."""
        series, writer = self.series, self.logger.writer
        with writer.lock:
            absolute = step is not None or series.follows_absolute
            shape = value.shape
            template = self.templates.get((value.dtype, shape, absolute))
            if template is None:
                template = self._template(value, absolute)
                if template is None:
                    return False
            if step is None:
                step = series.take(shape[0])
            elif step.__class__ is not int or not 0 <= step < numeric.STEP_MAX - shape[0]:
                return False
            elif not series.follow(step, step + shape[0] - 1):
                self.logger.fell(series, step)
            columns, data = _pack_columns(time_ns(), step), contiguous(value, template.width)
            try:
                template.write(self.segment, columns, data)
            except ValueError:
                payload = b"".join((template.first, columns, data))
                writer.append((series,), payload, shape[0])
        return True

    def _template(self, value: Any, absolute: bool) -> Template | None:
        width = storable(value, self.logger.narrow)
        if not width or value.ndim != 1:
            return None
        mode = LINEAR if absolute else LINEAR | RELATIVE
        rows = value.shape[0]
        first = block_head(FLOAT, width, rows, [self.series.number], CONSTANT, [(STEP, mode)])
        found = Template(first, 16 + rows * width, width)
        if len(self.templates) >= _TEMPLATES:
            self.templates.clear()
        self.templates[value.dtype, value.shape, absolute] = found
        return found
