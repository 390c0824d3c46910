"""Points into a run: one record for the numbers of a kind, one for each text.

The same point sent through the Influx door becomes the same series (docs/influx.md).
What a point's names and types decide is kept as a plan, so that the next one of them is packed by
one call of struct.
"""

from __future__ import annotations

from struct import Struct, error
from typing import NamedTuple

from .._input.numeric import EXACT
from .._spool.records import (
    CONSTANT,
    FLOAT,
    HAS_STEP,
    INT,
    PAYLOAD_LIMIT,
    WIDE,
    block_head,
    pack_i64,
    pack_point,
    record,
    series,
)
from .._spool.ring import Series
from .call import Refused
from .tags import AXES, Standard, split, step

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from typing import Any

    from .._points.logger import Logger
    from .call import Call
    from .values import Field

TEXT = 3
_KINDS: dict[type, int] = {float: FLOAT, int: INT, str: TEXT}
_NAMES = {FLOAT: "float64", INT: "int64", TEXT: "text"}
_PLANS = 4096  # one for each measurement, labels and fields
_LABELS, _LABEL_NAME, _LABEL_VALUE, _METRIC = 64, 128, 1024, 1024
_DOCUMENT = 24  # bytes of a text's record before the text
_SCALE = "ML_STEP"


class Point(NamedTuple):
    """A call with its tags sorted out."""

    measurement: str
    axes: Mapping[str, int]
    labels: Mapping[str, str]
    fields: Mapping[str, Field]
    time: int


class _Part(NamedTuple):
    """Numbers of one kind: their places among the fields, and their record."""

    places: tuple[int, ...]
    series: list[Series]
    head: bytes
    pack: Callable[..., bytes]


class _Plan(NamedTuple):
    """How points with the same names and types are packed. A text has a record of its own."""

    numbers: list[_Part]
    texts: list[tuple[int, str, Series]]  # place, name


class Sink:
    """Writes points with a run's logger."""

    def __init__(
        self, logger: Callable[[], Logger], standard: Standard, tell: Callable[[str, str], None]
    ) -> None:
        self._current = logger
        self._standard = standard
        self._labels = standard.labels()
        self._tell = tell
        self._logger: Logger | None = None
        self._series: dict[tuple[str, tuple[tuple[str, str], ...]], Series] = {}
        self._plans: dict[Any, _Plan | None] = {}

    def write(self, call: Call) -> int:
        """Append a point; the number of its bytes. Raises Refused after what could be kept."""
        point = self._point(call)
        logger = self._current()
        if logger is not self._logger:  # the first call, or the first in a forked child
            self._logger, self._series, self._plans = logger, {}, {}
        axes, values = _axes(point.axes), list(point.fields.values())
        key = (
            point.measurement,
            tuple(point.labels.items()),
            tuple(point.fields),
            tuple(map(type, values)),
            tuple(axes),
        )
        try:
            plan = self._plans[key]
        except KeyError:
            plan = self._plan(point, axes, values)
            if len(self._plans) >= _PLANS:
                self._plans.clear()
            self._plans[key] = plan
        if plan is None:
            return self._one_by_one(logger, point, axes)
        try:
            return self._packed(logger, plan, point, axes, values)
        except (error, Refused):  # an integer beyond int64, a text that is too long
            return self._one_by_one(logger, point, axes)

    def _point(self, call: Call) -> Point:
        """The axes and labels of a call: the caller's tag goes before the process's."""
        axes, labels = split(call.tags)
        for name in labels.keys() & self._standard._fields:
            self._tell(
                f"the tag {name!r} is also one of the logger's: the caller's is the label of the "
                f"series, the logger's ({getattr(self._standard, name)!r}) the run's attribute",
                f"collide {name}",
            )
        if self._labels:
            labels = {**self._labels, **labels}
        return Point(call.measurement, axes, labels, call.fields, call.time)

    def _packed(
        self,
        logger: Logger,
        plan: _Plan,
        point: Point,
        axes: Mapping[int, int],
        values: list[Any],
    ) -> int:
        ready: list[tuple[list[Series], bytes]] = []
        for place, name, one in plan.texts:
            ready.append(([one], self._text(point, name, values[place], one)))
        for part in plan.numbers:
            numbers = [values[place] for place in part.places]
            payload = part.head + part.pack(point.time, *axes.values(), *numbers)
            ready.append((part.series, payload))
        size = 0
        for written, payload in ready:
            logger.writer.append(written, payload, len(written))
            size += len(payload)
        return size

    def _plan(self, point: Point, axes: Mapping[int, int], values: list[Any]) -> _Plan | None:
        """How such points are packed; None where a field needs a look at each value."""
        _check(point)
        places: dict[int, list[int]] = {}
        found, texts = [], []
        for place, (name, value) in enumerate(point.fields.items()):
            kind = _KINDS[type(value)]
            one = self._find(point, name, kind)
            if one.kind != kind:
                return None
            found.append(one)
            if kind == TEXT:
                texts.append((place, name, one))
            else:
                places.setdefault(kind, []).append(place)
        numbers = [
            self._part(kind, at, [found[i] for i in at], axes) for kind, at in places.items()
        ]
        return _Plan(numbers, texts)

    def _part(
        self, kind: int, places: list[int], found: list[Series], axes: Mapping[int, int]
    ) -> _Part:
        modes = [(axis, CONSTANT) for axis in axes]
        head = block_head(kind, WIDE, 1, [one.number for one in found], CONSTANT, modes)
        number = "d" if kind == FLOAT else "q"
        packer = Struct(f"<{1 + len(axes)}q{len(found)}{number}")
        return _Part(tuple(places), found, head, packer.pack)

    def _find(self, point: Point, field: str, kind: int) -> Series:
        """The series of a field, made at its first point."""
        metric = f"{_escaped(point.measurement)}/{field}"
        key = (metric, tuple(sorted(point.labels.items())))
        found = self._series.get(key)
        if found is None:
            if not field or len(metric.encode()) > _METRIC or not _clean(metric):
                raise Refused(
                    f"the metric {metric[:60]!r} has {len(metric.encode()):,} bytes: a name has 1 "
                    f"to {_METRIC:,} and no control characters; shorten the field's name"
                )
            assert self._logger is not None
            with self._logger.writer.lock:  # another thread may be at the same one
                found = self._series.get(key)
                if found is None:
                    number = self._logger.number()
                    name = _definition(metric, dict(key[1]))
                    found = Series(number, kind, record(series(kind, number, name)))
                    self._series[key] = found
        return found

    def _one_by_one(self, logger: Logger, point: Point, axes: Mapping[int, int]) -> int:
        """A point with a value that is not of its series' kind, or beyond a limit."""
        size, refused = 0, []
        for name, value in point.fields.items():
            try:
                one = self._find(point, name, _KINDS[type(value)])
                if one.kind == TEXT:
                    payload = self._text(point, name, value, one)
                else:
                    number = _converted(point, name, value, one.kind)
                    part = self._part(one.kind, [0], [one], axes)
                    payload = part.head + part.pack(point.time, *axes.values(), number)
            except Refused as why:
                refused.append(str(why))
                continue
            logger.writer.append((one,), payload, 1)
            size += len(payload)
        if refused:
            raise Refused("; ".join(refused))
        return size

    def _text(self, point: Point, name: str, value: Field, one: Series) -> bytes:
        """The record of a text, which has no axis but the step."""
        if not isinstance(value, str):
            raise _other_kind(point, name, value, TEXT)
        data = value.encode(errors="replace")
        if len(data) > PAYLOAD_LIMIT - _DOCUMENT:
            raise Refused(
                f"the text of {point.measurement}/{name} has {len(data):,} bytes, at most "
                f"{PAYLOAD_LIMIT - _DOCUMENT:,}: keep it in a file and log its name"
            )
        number = step(point.axes)
        head = pack_point(5, TEXT, 0 if number is None else HAS_STEP, 0, one.number)
        return b"".join((head, pack_i64(number or 0), pack_i64(point.time), data))


def _definition(metric: str, labels: Mapping[str, str]) -> bytes:
    """The JSON that defines a series: points of one step are told apart by their times."""
    import json

    found = {"metric": metric, "scale": _SCALE, "labels": labels, "unique": "time"}
    return json.dumps(found, ensure_ascii=False, separators=(",", ":")).encode()


def _axes(given: Mapping[str, int]) -> dict[int, int]:
    """The axes by their numbers, rising, with the step that they give."""
    if not given:
        return {}
    found = {AXES[name]: value for name, value in given.items()}
    number = step(given)
    if number is not None:
        found[AXES["step"]] = number
    return dict(sorted(found.items()))


def _check(point: Point) -> None:
    """The rules of labels, as the server has them."""
    if len(point.labels) > _LABELS:
        raise Refused(
            f"{point.measurement} has {len(point.labels):,} tags, a series at most {_LABELS}: "
            "what differs from point to point belongs into fields"
        )
    for name, value in point.labels.items():
        if len(name.encode(errors="replace")) > _LABEL_NAME:
            raise Refused(f"the tag {name[:60]!r}… has a name of more than {_LABEL_NAME} bytes")
        if len(value.encode(errors="replace")) > _LABEL_VALUE:
            raise Refused(f"the tag {name!r} has a value of more than {_LABEL_VALUE:,} bytes")
        if not _clean(name) or not _clean(value):
            raise Refused(f"the tag {name!r} holds a control character: {value!r}")


def _clean(text: str) -> bool:
    """Whether the server takes it as a name."""
    if text.isprintable():
        return True
    return not any(c < " " or "\x7f" <= c <= "\x9f" or "\ud800" <= c <= "\udfff" for c in text)


def _escaped(measurement: str) -> str:
    """A measurement as the start of a metric: the first slash always ends it."""
    return measurement.replace("%", "%25").replace("/", "%2F")


def _converted(point: Point, name: str, value: Field, kind: int) -> Field:
    """A number as its series has it, where that is exact."""
    if isinstance(value, int) and kind == INT and -(1 << 63) <= value < 1 << 63:
        return value
    if isinstance(value, int) and kind == FLOAT and -EXACT <= value <= EXACT:
        return float(value)
    if isinstance(value, float) and (kind == FLOAT or (value.is_integer() and abs(value) < 1e18)):
        return value if kind == FLOAT else int(value)
    raise _other_kind(point, name, value, kind)


def _other_kind(point: Point, name: str, value: Field, kind: int) -> Refused:
    return Refused(
        f"{point.measurement}/{name} is {_NAMES[kind]} since its first point, and {value!r:.60} is "
        "not: convert it, or give it a field of its own"
    )
