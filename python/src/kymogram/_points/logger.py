"""The slow path of log(): names, kinds, steps, arrays, mappings; it makes the hot entries."""

from __future__ import annotations

from itertools import count
from struct import Struct
from time import time_ns
from zlib import crc32

from .._exceptions import KymogramValidationError
from .._input import naming, numeric
from .._input.numeric import EXACT, STEP_MAX
from .._say import voice
from .._spool.records import (
    CONSTANT,
    EACH,
    FLOAT,
    HAS_STEP,
    INT,
    POINT_LENGTH,
    POINT_LENGTH_CRC,
    RELATIVE,
    STEP,
    WIDE,
    Column,
    block,
    block_head,
    constant,
    linear,
    pack_float_body,
    pack_head,
    pack_i64,
    pack_length,
    pack_point,
)
from . import tables
from .arrays import Vector
from .columns import Given, again, given_steps, one_dimension, same_or_each, time_column
from .series import TICK, StepSeries
from .tables import ARRAYS, PLAIN, PLAIN_OR_INT, STEPPED, VECTORS, learn

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping
    from typing import Any

    from .._spool.records import Buffer
    from .._spool.ring import Series
    from .._spool.writer import Writer
    from .series import Key, Starts

# Assigned, not imported: see _log.
AUTO = tables.AUTO
GROUPS = tables.GROUPS
GROUPS_STEPPED = tables.GROUPS_STEPPED

_GROUP_MAX = 4096


class Logger:
    """The slow path of one writer: names, kinds, steps, arrays."""

    def __init__(self, writer: Writer, starts: Starts, dtype: Any = None) -> None:
        self.writer = writer
        self.starts = starts
        self.kind = numeric.kind_of(dtype) or FLOAT  # of series that do not name theirs
        self.narrow = numeric.rounds(dtype)
        self.falls = 0  # how often a step did not rise
        self._series: dict[Key, StepSeries] = {}
        self._aliases: dict[Any, StepSeries] = {}
        self.number: Callable[[], int] = count(1).__next__
        self.rl: Any = None  # the RL calls, made at the first: _rl.of

    # series

    def last_steps(self, most: int) -> tuple[int, list[dict[str, Any]]]:
        """How many series there are, and the last steps of the first, by name."""
        every = sorted(self._series.copy().values(), key=lambda one: one.metric)
        rows = [
            {"metric": one.metric, "labels": one.labels, "step": one.last_step()}
            for one in every[:most]
        ]
        return len(every), rows

    def find(
        self, metric: object, scale: object, labels: Any, evaluation: object, dtype: object
    ) -> tuple[Any, StepSeries]:
        """The series of a call, and the key under which the call is remembered."""
        alias = alias_of(metric, scale, labels, evaluation)
        try:
            found = self._aliases.get(alias)
        except TypeError:  # an unhashable name or label: the check below says which
            found, alias = None, None
        if found is None:
            found = self._define(
                naming.metric(metric), naming.scale(scale), naming.labels(labels, evaluation), dtype
            )
            self._aliases[alias] = found
        return alias, found

    def _define(self, metric: str, scale: str, labels: dict[str, str], dtype: object) -> StepSeries:
        key = (metric, scale, tuple(labels.items()))
        with self.writer.lock:
            found = self._series.get(key)
            if found is None:
                kind = numeric.kind_of(dtype) or self.kind
                start = self.starts.of(key)
                found = StepSeries(self.number(), kind, (metric, scale, labels), start)
                found = self._series.setdefault(key, found)
        return found

    def forget(
        self, metrics: Iterable[Any], scale: object, labels: Any, evaluation: object
    ) -> None:
        """Leave nothing of a first call that failed: its kind is not the series' yet."""
        with self.writer.lock:
            for metric in metrics:
                try:
                    found = self._aliases.get(alias_of(metric, scale, labels, evaluation))
                except TypeError:
                    continue
                if found is not None and found.untouched:
                    del self._aliases[alias_of(metric, scale, labels, evaluation)]
                    key = (found.metric, found.scale, tuple(found.labels.items()))
                    self._series.pop(key, None)

    def last_step(self, key: Key) -> tuple[bool, int | None]:
        """Whether the last step of a series is known here, and that step."""
        found = self._series.get(key)
        if found is not None and not found.untouched:
            return found.follows_absolute, found.last_step()
        if self.starts.behind:
            return False, None
        start = self.starts.of(key)
        return start is not None, start - 1 if start else None

    # log and log_distributed

    def log(
        self,
        metric: Any,
        value: Any,
        scale: object,
        step: Any,
        labels: Any,
        evaluation: object,
        timestamp: Any,
        dtype: object,
        distributed: bool = False,
    ) -> None:
        """Log a value, or a mapping of them."""
        if distributed and step is None:
            raise KymogramValidationError(
                "log_distributed needs step=: several writers meet at it (the global training step)"
            )
        if labels is not None and not hasattr(labels, "items"):
            labels = naming.labels(labels)
        several = hasattr(metric, "items")
        if several and value is not None:
            raise KymogramValidationError("log takes a mapping or a name and a value, not both")
        names = tuple(metric) if several else (metric,)
        try:
            if several:
                self._mapping(
                    names, metric, scale, step, labels, evaluation, timestamp, dtype, distributed
                )
                return
            alias, found = self.find(metric, scale, labels, evaluation, dtype)
            self.check(found, dtype, distributed)
            if (
                step is None
                and timestamp is None
                and value.__class__ in PLAIN
                and self._again(alias, value)
            ):
                return
            if (
                dtype is None
                and value.__class__ in ARRAYS
                and self._array(alias, found, value, step, timestamp)
            ):
                return
            numbers = numeric.convert(found.metric, value, found.kind, self.narrows(dtype))
            learn(value)
            if numbers[0] or numeric.is_sequence(step) or numeric.is_sequence(timestamp):
                self._vector(found, numbers, step, timestamp)
            else:
                self._point(alias, found, numbers[2], step, timestamp)
        except BaseException:
            self.forget(names, scale, labels, evaluation)
            raise

    def _array(self, alias: Any, found: StepSeries, value: Any, step: Any, timestamp: Any) -> bool:
        """Log an array by template, from the second call of a series in a segment on."""
        entry: Vector | None = VECTORS.get(alias)
        if entry is not None:
            return entry.log(value, step, timestamp)
        plain = found.kind == FLOAT and not found.distributed
        if plain and self.writer.hot and found.number in self.writer.segment.defined:
            VECTORS[alias] = entry = Vector(self, found)
            return entry.log(value, step, timestamp)
        return False

    def narrows(self, dtype: object) -> bool:
        """Whether arrays of floats are stored as float32."""
        return self.narrow if dtype is None else numeric.rounds(dtype)

    def check(self, found: StepSeries, dtype: object, distributed: bool) -> None:
        """Whether a series takes numbers of this dtype by this function."""
        if found.kind > INT:
            raise KymogramValidationError(
                f"{found.metric!r} holds no numbers; give them a name of their own"
            )
        if dtype is not None:
            numeric.fits(found.metric, found.kind, dtype)
        if found.distributed is None:
            found.distributed = distributed
        elif found.distributed != distributed:
            raise KymogramValidationError(
                f"{found.metric!r} was logged by log and by log_distributed; "
                "a series is either owned by one writer or shared, not both"
            )

    def _again(self, alias: Any, value: Any) -> bool:
        """The hot path, for calls with a scale or labels."""
        entry = AUTO.get(alias)
        if entry is None:
            return False
        write, tick, seed, first, found = entry
        step, now = tick(), time_ns()
        if AUTO.get(alias) is not entry:
            self.late(found, tick, step, value)
            return True
        body = pack_float_body(step, now, value)
        try:
            write(pack_head(POINT_LENGTH, crc32(body, seed)) + first + body)
        except ValueError:
            self.writer.append((found,), first + body, 1)
        return True

    def late(self, found: StepSeries, tick: Any, step: int, value: Any) -> None:
        """Log a point whose entry was removed after it took its step."""
        with self.writer.lock:
            if found.mode != TICK or found.tick is not tick:
                step = found.take(1)
            first = pack_point(2, FLOAT, found.flags, 0, found.number)
            self.writer.append((found,), first + pack_float_body(step, time_ns(), value), 1)

    def _point(
        self, alias: Any, found: StepSeries, data: Buffer, step: Any, timestamp: Any
    ) -> None:
        now = time_ns() if timestamp is None else numeric.time_ns(timestamp)
        number = None if step is None else numeric.step("step", step)
        with self.writer.lock:
            if number is None:
                number, flags = found.take(1), found.flags
            else:
                if not found.follow(number, number) and not found.distributed:
                    self.fell(found, number)
                flags = HAS_STEP
            first = pack_point(2, found.kind, flags, 0, found.number)
            body = b"".join((first, pack_i64(number), pack_i64(now), data))
            self.writer.append((found,), body, 1)
            if (
                self.writer.hot
                and found.kind == FLOAT
                and not found.distributed
                and timestamp is None
            ):
                self._install(alias, found, step is None)

    def _install(self, alias: Any, found: StepSeries, auto: bool) -> None:
        """Make the next call of this kind a hot one."""
        segment = self.writer.segment
        if alias is None or found.number not in segment.defined:
            return
        found.keys.add(alias)
        flags = found.flags if auto else HAS_STEP
        first = pack_point(2, FLOAT, flags, 0, found.number)
        seed = crc32(first, POINT_LENGTH_CRC)
        if auto:
            AUTO[alias] = (segment.write, found.start_ticking(), seed, first, found)
        else:
            STEPPED[alias] = (segment.write, found, seed, first)

    def _vector(
        self, found: StepSeries, numbers: numeric.Numbers, step: Any, timestamp: Any
    ) -> None:
        shape, width, data = numbers
        rows = one_dimension(found.metric, shape or (1,))
        when = time_column(timestamp, rows)
        given = given_steps(step, rows)
        if rows == 0:
            return
        with self.writer.lock:
            axes = [(STEP, self.axis(found, rows, given))]
            ids = [found.number]
            for _, payload, points in block(found.kind, rows, ids, when, axes, data, width):
                self.writer.append((found,), payload, points)

    def fell(self, found: StepSeries, step: int) -> None:
        """Tell that a series' step did not rise: kept, but seldom meant."""
        self.falls += 1
        voice.warn(
            f"the steps of {found.metric!r} do not rise: {step} came after a step that is not "
            "below it. The point is kept; of two at one step the later counts. Several writers "
            "of one series use log_distributed",
            once=f"fall {found.metric} {found.scale}",
        )

    def axis(self, found: StepSeries, rows: int, given: Given | None) -> Column:
        """The column of steps of a call, from which the series goes on."""
        if given is None:
            first = found.take(rows)
            return linear(first, not found.absolute)
        rises = found.follow(given.first, given.last) and given.rises
        if not rises and not found.distributed:
            self.fell(found, given.first)
        return given

    # mappings

    def _mapping(
        self,
        names: tuple[Any, ...],
        values: Mapping[str, Any],
        scale: object,
        step: Any,
        labels: Any,
        evaluation: object,
        timestamp: Any,
        dtype: object,
        distributed: bool,
    ) -> None:
        simple = (
            scale is None
            and labels is None
            and timestamp is None
            and dtype is None
            and not evaluation
            and not distributed
        )
        if simple and self._group(names, values, step):
            return
        # It is no plain one, or not known yet.
        step, timestamp = again(step), again(timestamp)
        found: list[tuple[StepSeries, numeric.Numbers]] = []
        narrow = self.narrows(dtype)
        for name in names:
            one = self.find(name, scale, labels, evaluation, dtype)[1]
            self.check(one, dtype, distributed)
            numbers = numeric.convert(one.metric, values[name], one.kind, narrow)
            learn(values[name])
            found.append((one, numbers))
        many = numeric.is_sequence(step) or numeric.is_sequence(timestamp)
        for one, numbers in found:  # nothing is written before everything is checked
            rows = one_dimension(one.metric, numbers[0] or (1,))
            given_steps(step, rows)
            time_column(timestamp, rows)
        scalars = [] if many else [(one, data) for one, (shape, _, data) in found if not shape]
        with self.writer.lock:
            for one, numbers in found:
                if many or numbers[0]:
                    self._vector(one, numbers, step, timestamp)
            if scalars:
                self._row(scalars, step, timestamp)
            if simple and self.writer.hot and 1 < len(scalars) == len(found) <= _GROUP_MAX:
                self._install_group(names, [one for one, _ in found], step is None)

    def _row(self, found: list[tuple[StepSeries, Buffer]], step: Any, timestamp: Any) -> None:
        """One row of several series: a block for each kind and way of counting."""
        now = time_ns() if timestamp is None else numeric.time_ns(timestamp)
        given = None if step is None else numeric.step("step", step)
        parts: dict[tuple[int, bool], list[tuple[StepSeries, int, Buffer]]] = {}
        for one, data in found:
            if given is None:
                number = one.take(1)
                relative = not one.absolute
            else:
                if not one.follow(given, given) and not one.distributed:
                    self.fell(one, given)
                number, relative = given, False
            parts.setdefault((one.kind, relative), []).append((one, number, data))
        for (kind, relative), rows in parts.items():
            steps = [number for _, number, _ in rows]
            axis = same_or_each(steps, relative)
            ids = [one.number for one, _, _ in rows]
            data = b"".join([data for _, _, data in rows])
            self._write(
                {one.number: one for one, _, _ in rows},
                block(kind, 1, ids, constant(now), [(STEP, axis)], data),
            )

    def _write(
        self, known: Mapping[int, Series], records: Iterable[tuple[list[int], bytes, int]]
    ) -> None:
        for ids, payload, points in records:
            self.writer.append([known[number] for number in ids], payload, points)

    def _install_group(self, names: tuple[str, ...], found: list[StepSeries], auto: bool) -> None:
        segment = self.writer.segment
        plain = all(one.kind == FLOAT and one.number in segment.defined for one in found)
        absolute = found[0].absolute if auto else True
        if not plain or len(set(map(id, found))) < len(found):
            return
        if auto and any(one.absolute != absolute for one in found):
            return
        for name, one in zip(names, found):
            one.keys.add(name)
        relative = 0 if absolute else RELATIVE
        same = _template(found, CONSTANT | relative)
        if not auto:
            GROUPS_STEPPED[names] = (segment.write, found, *same)
            return
        each = _template(found, CONSTANT | EACH | relative)
        ticks = [one.start_ticking() for one in found]
        GROUPS[names] = (segment.write, ticks, found, same, each)

    def _group(self, names: tuple[str, ...], values: Mapping[str, Any], step: Any) -> bool:
        """The hot path of mappings: one block from a template."""
        row = values.values()
        kinds = set(map(type, row))
        if not kinds <= PLAIN and not (
            kinds <= PLAIN_OR_INT and min(row) >= -EXACT and max(row) <= EXACT
        ):
            return False
        now = time_ns()
        if step is None:
            entry = GROUPS.get(names)
            if entry is None:
                return False
            write, ticks, found, same, each = entry
            steps = [tick() for tick in ticks]
            if GROUPS.get(names) is not entry:
                self._late_group(found, ticks, steps, row, now)
                return True
            if steps.count(steps[0]) == len(steps):
                pack, seed, head, first = same
                tail = pack(now, steps[0], *row)
            else:
                pack, seed, head, first = each
                tail = pack(now, *steps, *row)
        else:
            entry = GROUPS_STEPPED.get(names)
            if entry is None or step.__class__ is not int or not 0 <= step <= STEP_MAX:
                return False
            write, found, pack, seed, head, first = entry
            for one in found:
                if step <= one.last:
                    self.fell(one, step)
                one.last = step
            tail = pack(now, step, *row)
        try:
            write(pack_head(head, crc32(tail, seed)) + first + tail)
        except ValueError:
            self.writer.append(found, first + tail, len(found))
        return True

    def _late_group(
        self, found: list[StepSeries], ticks: list[Any], steps: list[int], row: Any, now: int
    ) -> None:
        with self.writer.lock:
            for one, tick, step, value in zip(found, ticks, steps, row):
                if one.mode != TICK or one.tick is not tick:
                    step = one.take(1)
                first = pack_point(2, FLOAT, one.flags, 0, one.number)
                self.writer.append((one,), first + pack_float_body(step, now, value), 1)


def alias_of(metric: object, scale: object, labels: Any, evaluation: object) -> Any:
    """The key under which a call is remembered."""
    if scale is None and not labels and not evaluation:
        return metric
    pairs = None if labels is None else tuple(labels.items())
    return metric, scale, pairs, bool(evaluation)


def _template(found: list[StepSeries], mode: int) -> tuple[Any, int, int, bytes]:
    """What is the same in every block of these series: packer, CRC, length, first bytes."""
    ids = [one.number for one in found]
    first = block_head(FLOAT, WIDE, 1, ids, CONSTANT, [(STEP, mode)])
    steps = len(ids) if mode & EACH else 1
    packer = Struct(f"<{1 + steps}q{len(ids)}d")
    length = len(first) + packer.size
    return packer.pack, crc32(first, crc32(pack_length(length))), length, first
