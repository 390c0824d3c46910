"""Columns of one length: what a reader of points, buckets and runs gets.

A column is a NumPy array where NumPy is installed, masked where it has gaps, else an
array of the standard library, or a list with None for gaps. What is no number is a
list of str or of the server's documents.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from . import frames

WORDS = {"NaN": float("nan"), "Infinity": float("inf"), "-Infinity": float("-inf")}
_FLOATS = ("min", "max", "mean")
_TEXTS = ("writer", "run")


class Columns(Mapping[str, Any]):
    """Columns of one length, by name."""

    def __init__(self, series: Mapping[str, Any], columns: Mapping[str, Any]) -> None:
        self.series = dict(series)
        self.kind: str = self.series.get("kind", "float64")
        self._columns = dict(columns)

    def __getitem__(self, name: str) -> Any:
        return self._columns[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._columns)

    def __len__(self) -> int:
        return len(self._columns)

    def __repr__(self) -> str:
        return (
            f"<{type(self).__name__} {self.series.get('metric')}: {self.rows} rows, {list(self)}>"
        )

    @property
    def rows(self) -> int:
        """How many rows the columns have."""
        return len(next(iter(self._columns.values()), []))

    def to_pandas(self) -> Any:
        """A DataFrame; integer columns with gaps are pandas' Int64."""
        return frames.pandas_frame(self._columns)

    def to_polars(self) -> Any:
        """A polars DataFrame; gaps are null."""
        return frames.polars_frame(self._columns)


class Points(Columns):
    """Points by column: the series' axes, time_ns, value, attempt, writer (and run).

    `value` is float64 or int64; for text, histogram and scatter series a list
    of str or of the documents.
    """


class Bucketed(Columns):
    """Buckets by column: lo, hi, min, max, mean, count, nan, pos_inf, neg_inf.

    min, max and mean are of the finite values, NaN where a bucket has none.
    """


def from_json(columns: Mapping[str, list[Any]], kind: str) -> dict[str, Any]:
    """The columns of an answer in JSON."""
    made = {}
    for name, values in columns.items():
        kind_of = letter(name, kind)
        if kind_of == "d":
            nothing = WORDS["NaN"]  # the mean of a bucket without a finite value
            values = [nothing if one is None else WORDS.get(one, one) for one in values]
        made[name] = column(values, kind_of)
    return made


def letter(name: str, kind: str) -> str:
    """What a column holds: d float64, q int64, "" no number."""
    if name in _FLOATS:
        return "d"
    if name == "value":
        return {"float64": "d", "int64": "q"}.get(kind, "")
    return "" if name in _TEXTS else "q"


def column(values: list[Any], letter: str) -> Any:
    """A column of one kind; only integers have gaps."""
    gaps = letter == "q" and None in values
    numpy = frames.numpy()
    if numpy is None:
        return array(letter, values) if letter and not gaps else values
    if not letter:
        return values
    if not gaps:
        return numpy.array(values, dtype="f8" if letter == "d" else "i8")
    filled = numpy.array([0 if one is None else one for one in values], dtype="i8")
    return numpy.ma.masked_array(filled, mask=[one is None for one in values])


def join(parts: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Parts below one another; a column that a part lacks has gaps there.

    Parts are emptied on the way, so that no column is in memory twice for long.
    """
    left = [dict(part) for part in parts]
    for part in parts:
        if isinstance(part, Columns):
            part._columns.clear()
    if len(left) == 1:
        return left[0]
    rows = [len(next(iter(part.values()), [])) for part in left]
    names = dict.fromkeys(name for part in left for name in part)  # in one order
    return {name: _joined([part.pop(name, None) for part in left], rows) for name in names}


def _joined(parts: Sequence[Any], rows: Sequence[int]) -> Any:
    there = [part for part in parts if part is not None and len(part)]
    gaps = any(part is None and n for part, n in zip(parts, rows))
    numpy = frames.numpy()
    if numpy is not None and all(isinstance(part, numpy.ndarray) for part in there):
        kinds = {part.dtype.kind for part in there}
        if kinds == {"i", "f"} and not all(_is_float(part) for part in there):
            return _joined([None if p is None else p.tolist() for p in parts], rows)
        kind = numpy.result_type(*there) if there else numpy.dtype("f8")
        if not gaps and not any(isinstance(part, numpy.ma.MaskedArray) for part in there):
            return numpy.concatenate([numpy.empty(0, kind), *there], dtype=kind)
        full = [
            numpy.ma.masked_all(n, kind) if part is None else part for part, n in zip(parts, rows)
        ]
        return numpy.ma.concatenate(full)
    if numpy is None and not gaps and len({getattr(p, "typecode", "") for p in there}) == 1:
        first = there[0][:]
        for part in there[1:]:
            first.extend(part)
        return first
    return [one for part, n in zip(parts, rows) for one in ([None] * n if part is None else part)]


def _is_float(numbers: Any) -> bool:
    """Whether float64 holds all of these exactly."""
    most = 2**53
    return numbers.dtype.kind == "f" or bool(((numbers <= most) & (numbers >= -most)).all())


def aligned(axis: str, named: Mapping[str, Points]) -> tuple[dict[str, Any], dict[str, int]]:
    """One column a series beside one another, a row for each x that any of them has.

    Of points with one x the last counts. Also tells how many each series has that are
    not there for that.
    """
    numpy = frames.numpy()
    if numpy is None:
        raise frames.missing("a wide frame needs", "numpy")
    every = [points[axis] for points in named.values() if points.rows]
    xs = numpy.unique(numpy.concatenate([numpy.empty(0, "i8"), *every]))
    made: dict[str, Any] = {axis: xs}
    for name, points in named.items():
        values = points["value"]
        if not isinstance(values, numpy.ndarray):
            values = _objects(numpy, values)
        made[name] = numpy.ma.masked_all(len(xs), values.dtype)
        if points.rows:
            made[name][numpy.searchsorted(xs, points[axis])] = values
    return made, {name: points.rows - int(made[name].count()) for name, points in named.items()}


def _objects(numpy: Any, values: Sequence[Any]) -> Any:
    made = numpy.empty(len(values), object)
    made[:] = values
    return made
