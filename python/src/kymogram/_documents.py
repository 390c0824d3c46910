"""log_histogram and log_scatter: one document a step (Histogram, Scatter in api/openapi.yaml)."""

from __future__ import annotations

import math
from itertools import pairwise

from . import _text
from ._exceptions import KymogramValidationError
from ._input import numeric

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any

    Stats = tuple[float, float, float, float]

HISTOGRAM, SCATTER = 4, 5
BINS = 512
_TITLE_BYTES = 1024
_STATS = ("min", "max", "sum", "sum_of_squares")


class Histogram:
    """One point of a histogram series: n ≤ 512 bins between n + 1 rising edges.

    Give either `counts`, how many values fell into each bin, or `densities`,
    as numpy.histogram has them with and without density=True. `stats` are the
    exact (min, max, sum, sum of squares) of the values before they were
    binned; with densities the sums are divided by the number of values.
    """

    __slots__ = ("bin_edges", "counts", "densities", "stats")

    def __init__(
        self,
        bin_edges: Any,
        *,
        counts: Any = None,
        densities: Any = None,
        stats: Stats | None = None,
    ) -> None:
        self.bin_edges = _numbers("bin_edges", bin_edges)
        self.counts = None if counts is None else _numbers("counts", counts)
        self.densities = None if densities is None else _numbers("densities", densities)
        self.stats = None if stats is None else _stats(stats)
        self._check()

    @classmethod
    def from_numpy(cls, np_histogram: tuple[Any, Any], stats: Stats | None = None) -> Histogram:
        """What numpy.histogram returned: whole numbers are counts, others densities."""
        try:
            values, edges = np_histogram
        except (TypeError, ValueError):
            raise KymogramValidationError(
                "from_numpy takes what numpy.histogram returned: (values, bin edges)"
            ) from None
        found = _numbers("values", values)
        if all(value == math.floor(value) for value in found):
            return cls(edges, counts=found, stats=stats)
        return cls(edges, densities=found, stats=stats)

    def _check(self) -> None:
        edges = self.bin_edges
        if not 2 <= len(edges) <= BINS + 1:
            raise KymogramValidationError(
                f"bin_edges has {len(edges)} numbers; a histogram has 2 to {BINS + 1}"
            )
        rising = all(a < b for a, b in pairwise(edges))
        if not rising or not all(map(math.isfinite, edges)):
            raise KymogramValidationError("bin_edges are finite and strictly rising")
        if (self.counts is None) == (self.densities is None):
            raise KymogramValidationError("a histogram has either counts or densities")
        what = "counts" if self.densities is None else "densities"
        values = self.counts if self.densities is None else self.densities
        assert values is not None
        if len(values) != len(edges) - 1:
            raise KymogramValidationError(
                f"{what} has {len(values)} numbers for {len(edges) - 1} bins"
            )
        if not all(math.isfinite(value) and value >= 0 for value in values):
            raise KymogramValidationError(f"{what} are finite and not negative")

    def document(self) -> dict[str, Any]:
        """The JSON of the point."""
        found: dict[str, Any] = {"bin_edges": self.bin_edges}
        if self.counts is not None:
            found["counts"] = [int(v) if v == math.floor(v) else v for v in self.counts]
        if self.densities is not None:
            found["densities"] = self.densities
        if self.stats is not None:
            found["stats"] = dict(zip(_STATS, self.stats))
        return found


def _numbers(what: str, value: Any) -> list[float]:
    """A list of floats from whatever holds one dimension of numbers."""
    shape, found = numeric.floats(what, value)
    if len(shape) != 1:
        raise KymogramValidationError(f"{what} has shape {shape}; it is one dimension of numbers")
    return found


def _stats(value: Any) -> Stats:
    found = _numbers("stats", list(value))
    if len(found) != len(_STATS) or not all(map(math.isfinite, found)):
        raise KymogramValidationError("stats are four finite numbers: " + ", ".join(_STATS))
    return found[0], found[1], found[2], found[3]


def _json(values: list[float]) -> list[float | str]:
    return [value if math.isfinite(value) else _infinite(value) for value in values]


def _infinite(value: float) -> str:
    return "NaN" if value != value else "Infinity" if value > 0 else "-Infinity"


def _write(
    kind: int,
    metric_name: str,
    document: dict[str, Any],
    step: int | None,
    scale: str | None,
    labels: Mapping[str, str] | None,
    evaluation: object,
    timestamp: Any,
) -> None:
    import json

    data = json.dumps(document, ensure_ascii=False, separators=(",", ":"), allow_nan=False)
    _text.document(
        kind, metric_name, data.encode(), step, scale, labels, timestamp, evaluation=evaluation
    )


def log_histogram(
    metric_name: str,
    histogram: Any,
    step: int | None = None,
    *,
    scale: str | None = None,
    labels: Mapping[str, str] | None = None,
    evaluation: bool | None = None,
    timestamp: Any = None,
    kill_timeout: float = 3.0,
) -> None:
    """Log a Histogram, or what numpy.histogram returned, into a series of its own.

    A metric holds numbers or histograms, not both. Without `step` the series
    goes on from its last step; the same step again replaces the histogram.
    """
    if not isinstance(histogram, Histogram):
        if not isinstance(histogram, (tuple, list)) or len(histogram) != 2:
            raise KymogramValidationError(
                "log_histogram takes numpy.histogram(values), or kymogram.Histogram(bin_edges, "
                f"counts=…), not {type(histogram).__name__}"
            )
        histogram = Histogram.from_numpy(tuple(histogram))
    document = histogram.document()
    _write(HISTOGRAM, metric_name, document, step, scale, labels, evaluation, timestamp)


def log_scatter(
    metric_name: str,
    xs: Any,
    ys: Any,
    step: int | None = None,
    *,
    x_title: str | None = None,
    y_title: str | None = None,
    scale: str | None = None,
    labels: Mapping[str, str] | None = None,
    evaluation: bool | None = None,
    timestamp: Any = None,
    kill_timeout: float = 3.0,
) -> None:
    """Log k dots as one point of a scatter series: xs and ys of shape (k,)."""
    document = _scatter({"x": xs, "y": ys}, {"x_title": x_title, "y_title": y_title})
    _write(SCATTER, metric_name, document, step, scale, labels, evaluation, timestamp)


def log_scatter3d(
    metric_name: str,
    xs: Any,
    ys: Any,
    zs: Any,
    step: int | None = None,
    *,
    x_title: str | None = None,
    y_title: str | None = None,
    z_title: str | None = None,
    scale: str | None = None,
    labels: Mapping[str, str] | None = None,
    evaluation: bool | None = None,
    timestamp: Any = None,
    kill_timeout: float = 3.0,
) -> None:
    """Log k dots in three dimensions: xs, ys and zs of shape (k,)."""
    titles = {"x_title": x_title, "y_title": y_title, "z_title": z_title}
    document = _scatter({"x": xs, "y": ys, "z": zs}, titles)
    _write(SCATTER, metric_name, document, step, scale, labels, evaluation, timestamp)


def _scatter(columns: dict[str, Any], titles: dict[str, str | None]) -> dict[str, Any]:
    found: dict[str, Any] = {name: _json(_numbers(name, one)) for name, one in columns.items()}
    lengths = {name: len(one) for name, one in found.items()}
    if len(set(lengths.values())) > 1:
        raise KymogramValidationError(f"the dots have unequal lengths: {lengths}")
    for name, title in titles.items():
        if title is not None:
            _check_title(name, title)
            found[name] = title
    return found


def _check_title(name: str, title: object) -> None:
    if not isinstance(title, str) or len(title.encode(errors="replace")) > _TITLE_BYTES:
        raise KymogramValidationError(f"{name} is text of at most {_TITLE_BYTES} bytes")
    if not all(character >= " " and character != "\x7f" for character in title):
        raise KymogramValidationError(f"{name} contains a control character: {title!r}")
