"""A `SummaryWriter` with the calls of torch's and tensorboardX's, without TensorBoard.

>>> from kymogram.tensorboard import SummaryWriter
>>> writer = SummaryWriter("runs/lr0.3")
>>> writer.add_scalar("loss", 0.5, 1)

Changing the import is all that a program needs.
"""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from . import _text
from ._adapters import Door
from ._documents import Histogram, log_histogram
from ._exceptions import KymogramValidationError
from ._input import numeric
from ._log import log
from ._points.current import current
from ._say import voice
from .metrics.handlers import spelled

__all__ = ["SummaryWriter"]

_BINS = 64
_BINS_MAX = 512


# What the writers of torch and tensorboardX have and a run cannot hold.
_PASSED = (
    "add_audio",
    "add_custom_scalars",
    "add_custom_scalars_marginchart",
    "add_custom_scalars_multilinechart",
    "add_embedding",
    "add_figure",
    "add_graph",
    "add_image",
    "add_image_with_boxes",
    "add_images",
    "add_mesh",
    "add_onnx_graph",
    "add_openvino_graph",
    "add_pr_curve",
    "add_pr_curve_raw",
    "add_tensor",
    "add_video",
)


class SummaryWriter:
    """Scalars, texts, histograms and hyper-parameters go into a Kymogram run.

    The first writer opens a run named as its folder (without `runs/`); further
    arguments are kymogram.init()'s. While a run is open, every writer logs into
    it. A writer with another folder than the first adds the label `writer` to its
    series, the folder's last part: so `runs/a/train` and `runs/a/val` stay apart.

    `purge_step=S` opens a new attempt that replaces the points from S on.
    A tag that no series can be called is spelled with `_`; the label
    `exact_name` keeps it. After close() the next add_… opens the run again, as
    TensorBoard's opens another file.

    Images, videos, sounds, graphs, embeddings and meshes are not kept, nor what
    a run cannot hold, such as a negative step. Each kind is warned of once.
    `passed` counts them by the method's name, and close() prints how many there
    were.
    """

    def __init__(
        self,
        log_dir: str | os.PathLike[str] | None = None,
        comment: str = "",
        purge_step: int | None = None,
        max_queue: int = 10,
        flush_secs: float = 120,
        filename_suffix: str = "",
        **arguments: Any,
    ) -> None:
        given = None if log_dir is None else os.fspath(log_dir)
        self.log_dir = given if given is not None else f"runs/{comment.strip('_-')}".rstrip("/")
        self.passed: dict[str, int] = {}
        self._door = Door(arguments)
        self._labels: dict[str, str] | None = None
        self._series: dict[str, tuple[str, dict[str, str] | None]] = {}
        if current.run is None:
            self._door.open(
                run_name=_run_name(self.log_dir),
                resume_strategy=None if purge_step is None else "allow",
                resume_from_step=purge_step,
            )
        elif given is not None and current.run.name != _run_name(given):
            self._labels = {"writer": os.path.basename(os.path.normpath(given))}
        self._run_name = current.run.name if current.run else None

    def get_logdir(self) -> str:
        """The folder that was asked for; nothing is written there."""
        return self.log_dir

    def add_scalar(
        self,
        tag: str,
        scalar_value: Any,
        global_step: int | None = None,
        walltime: float | None = None,
        new_style: bool = False,
        double_precision: bool = False,
        **_: Any,
    ) -> None:
        """Log a number; without global_step the series' next step is taken."""
        value = _scalar(tag, scalar_value)
        self._write("add_scalar", log, tag, value, global_step, walltime)

    def add_scalars(
        self,
        main_tag: str,
        tag_scalar_dict: Mapping[str, Any],
        global_step: int | None = None,
        walltime: float | None = None,
        **_: Any,
    ) -> None:
        """Log several numbers as MAIN_TAG/NAME."""
        for tag, one in tag_scalar_dict.items():
            value = _scalar(tag, one)
            self._write("add_scalars", log, f"{main_tag}/{tag}", value, global_step, walltime)

    def add_text(
        self,
        tag: str,
        text_string: str,
        global_step: int | None = None,
        walltime: float | None = None,
        **_: Any,
    ) -> None:
        """Log a text."""
        self._write("add_text", _text.log_text, tag, str(text_string), global_step, walltime)

    def add_histogram(
        self,
        tag: str,
        values: Any,
        global_step: int | None = None,
        bins: Any = "tensorflow",
        walltime: float | None = None,
        max_bins: int | None = None,
        **_: Any,
    ) -> None:
        """Log how values are distributed, in at most 512 bins.

        `bins` is a number, edges, or a method of numpy.histogram; "tensorflow"
        means 64 bins of equal width. Values that are not finite are left out.
        """
        finite = [one for one in numeric.floats(tag, _flat(values))[1] if math.isfinite(one)]
        if not finite:
            return self._pass("add_histogram", f"{tag!r} has no finite value", tag)
        edges, counts = _histogram(finite, bins, max_bins or _BINS_MAX)
        return self._histogram(tag, edges, counts, _stats(finite), global_step, walltime)

    def add_histogram_raw(
        self,
        tag: str,
        min: float,  # noqa: A002 - TensorBoard's names
        max: float,  # noqa: A002
        num: int,
        sum: float,  # noqa: A002
        sum_squares: float,
        bucket_limits: Iterable[float],
        bucket_counts: Iterable[float],
        global_step: int | None = None,
        walltime: float | None = None,
        **_: Any,
    ) -> None:
        """Log a histogram that is made already: the upper limit and count of each bucket."""
        limits = [float(one) for one in bucket_limits]
        counts = [float(one) for one in bucket_counts]
        if len(limits) != len(counts):
            raise KymogramValidationError(
                f"{tag!r} has {len(limits)} bucket limits and {len(counts)} counts"
            )
        if not limits:
            return
        first = float(min) if min < limits[0] else math.nextafter(limits[0], -math.inf)
        figures = (float(min), float(max), float(sum), float(sum_squares))
        self._histogram(tag, [first, *limits], counts, figures, global_step, walltime)

    def _histogram(
        self,
        tag: str,
        edges: list[float],
        counts: list[float],
        figures: tuple[float, float, float, float],
        global_step: int | None,
        walltime: float | None,
    ) -> None:
        known = all(map(math.isfinite, figures))  # else the squares left float64
        found = Histogram(edges, counts=counts, stats=figures if known else None)
        self._write("add_histogram", log_histogram, tag, found, global_step, walltime)

    def _write(
        self,
        method: str,
        log_one: Callable[..., None],
        tag: str,
        value: Any,
        global_step: Any,
        walltime: float | None,
    ) -> None:
        self._open()
        series, labels = self._series.get(tag) or self._named(tag)
        try:
            log_one(
                series,
                value,
                step=_step(global_step),
                labels=labels,
                timestamp=_time_ms(walltime),
            )
        except KymogramValidationError as error:
            self._pass(method, str(error), tag)

    def _named(self, tag: str) -> tuple[str, dict[str, str] | None]:
        series, exact = spelled(tag)
        labels = {**(self._labels or {}), **exact} if exact else self._labels
        if len(self._series) < 10_000:
            self._series[tag] = series, labels
        return series, labels

    def _open(self) -> None:
        if current.run is None:
            self._door.open(run_name=self._run_name, resume_strategy="allow")

    def add_hparams(
        self,
        hparam_dict: Mapping[str, Any],
        metric_dict: Mapping[str, Any],
        hparam_domain_discrete: Any = None,
        run_name: str | None = None,
        global_step: int | None = None,
        **_: Any,
    ) -> None:
        """Hyper-parameters go under `config/`, metrics are logged."""
        self._open()
        self._door.config(hparam_dict)
        self._door.numbers(metric_dict, _step(global_step), self._labels)

    def _pass(self, method: str, why: str, tag: str = "") -> None:
        self.passed[method] = self.passed.get(method, 0) + 1
        voice.warn(f"SummaryWriter.{method} keeps nothing: {why}", once=f"{method} {tag}")

    def __getattr__(self, name: str) -> Any:
        """Every other add_… of TensorBoard's writers: accepted, warned of once."""
        if name not in _PASSED:
            import difflib

            known = [one for one in (*dir(type(self)), *_PASSED) if not one.startswith("_")]
            meant = difflib.get_close_matches(name, known, 1)
            hint = f"; did you mean {meant[0]}?" if meant else ""
            raise AttributeError(f"SummaryWriter has no {name!r}{hint}")
        return lambda *_, **__: self._pass(name, "Kymogram has numbers, texts and histograms")

    def flush(self) -> None:
        """Nothing waits in this process: a point is in the spool when add_… returns."""

    def close(self) -> None:
        """End the run, if this writer opened it."""
        if self.passed:
            counts = ", ".join(f"{count} of {name}" for name, count in self.passed.items())
            voice.warn(f"SummaryWriter kept nothing of these calls: {counts}")
            self.passed = {}
        self._door.close()

    def __enter__(self) -> SummaryWriter:
        return self

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        if error is not None:
            self._door.fail()
        self.close()


def _run_name(folder: str) -> str | None:
    """A folder as a run's name; None makes one up."""
    name = os.path.normpath(folder).replace(os.sep, "/").strip("/")
    name = name.removeprefix("./").removeprefix("runs/")
    return None if name in ("", ".", "runs") else name[-256:]


def _step(given: Any) -> int | None:
    if isinstance(given, float) and math.isfinite(given):
        given = int(given)  # as TensorBoard does
    return None if given is None else numeric.step("global_step", given)


def _time_ms(walltime: float | None) -> float | None:
    return None if walltime is None else walltime * 1000


def _scalar(tag: str, value: Any) -> Any:
    """One number; arrays of one element count as it."""
    item = getattr(value, "item", None)
    if item is None or isinstance(value, (int, float)):
        return value
    try:
        return item()
    except (ValueError, RuntimeError, TypeError):
        raise KymogramValidationError(
            f"add_scalar takes one number; {tag!r} got an array"
        ) from None


def _flat(values: Any) -> Any:
    """One dimension."""
    for name in ("reshape", "flatten"):
        method = getattr(values, name, None)
        if method is not None:
            return method(-1) if name == "reshape" else method()
    return list(values) if hasattr(values, "__iter__") else [values]


def _histogram(values: list[float], bins: Any, most: int) -> tuple[list[float], list[float]]:
    """Edges and counts."""
    count = _BINS if bins == "tensorflow" else bins
    try:
        import numpy
    except ImportError:
        return _plain_histogram(values, count if isinstance(count, int) else _BINS)
    try:
        counts, edges = numpy.histogram(values, bins=count)
    except ValueError:  # so close together that float64 has no 64 numbers between them
        if not isinstance(count, int):
            raise
        return _one_bin(values)
    if len(counts) > min(most, _BINS_MAX):
        counts, edges = numpy.histogram(values, bins=min(most, _BINS_MAX))
    return [float(one) for one in edges], [float(one) for one in counts]


def _plain_histogram(values: list[float], bins: int) -> tuple[list[float], list[float]]:
    """Bins of equal width, without NumPy; each holds its lower edge, the last also its upper."""
    bins = max(1, min(bins, _BINS_MAX))
    low, high = min(values), max(values)
    if low == high:
        low, high = low - 0.5, high + 0.5
    if (high - low) / bins < 2 * math.ulp(max(abs(low), abs(high))):
        return _one_bin(values)
    edges = [low + (high - low) * place / bins for place in range(bins)] + [high]
    counts = [0.0] * bins
    for one in values:
        place = min(int((one - low) / (high - low) * bins), bins - 1)
        while place and one < edges[place]:
            place -= 1
        while place < bins - 1 and one >= edges[place + 1]:
            place += 1
        counts[place] += 1
    return edges, counts


def _one_bin(values: list[float]) -> tuple[list[float], list[float]]:
    edges = [math.nextafter(min(values), -math.inf), math.nextafter(max(values), math.inf)]
    return edges, [float(len(values))]


def _stats(values: list[float]) -> tuple[float, float, float, float]:
    squares = math.fsum(one * one for one in values)
    return min(values), max(values), math.fsum(values), squares
