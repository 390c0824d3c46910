"""Handlers for files, runs, and several destinations at once."""

from __future__ import annotations

import json
import os
import sys

from .._log import log
from .._points.current import current
from ._outlet import outlets
from .api import MetricHandler

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import IO, Any

    from .._run import Run
    from .api import MetricData

NAME_LABEL = "exact_name"
"""The label that keeps what a series cannot be called, percent-encoded."""

_RESERVED = frozenset('()[],=<>!~"|')  # of Kymogram's query language


class JSONLinesMetricHandler(MetricHandler):
    """Writes one JSON object a line: timestamp, group_name, name, value.

    `file` is a path, to which lines are appended, or an open text file; stdout
    without one. NaN and the infinities are the texts "NaN", "Infinity" and
    "-Infinity", since JSON has no numbers for them.
    """

    def __init__(self, file: str | os.PathLike[str] | IO[str] | None = None) -> None:
        self._path = None
        self._file: Any = file
        if file is None:
            self._file = sys.stdout
        elif isinstance(file, (str, os.PathLike)):
            self._path = os.fspath(file)
            self._file = open(self._path, "a", encoding="utf-8")  # noqa: SIM115 - lives as long

    def emit(self, metric_data: MetricData) -> None:
        """Write one line."""
        value: object = metric_data.value
        if isinstance(value, float) and value - value != 0:
            value = "NaN" if value != value else "Infinity" if value > 0 else "-Infinity"
        document = {
            "timestamp": metric_data.timestamp,
            "group_name": metric_data.group_name,
            "name": metric_data.name,
            "value": value,
        }
        self._file.write(json.dumps(document, ensure_ascii=False, default=float) + "\n")
        self._file.flush()


class FanOutMetricHandler(MetricHandler):
    """Gives every metric to several handlers; one that fails or blocks holds no other up."""

    at_once = True  # it only fills the queues of the others

    def __init__(self, *handlers: MetricHandler) -> None:
        if not handlers:
            raise TypeError("a fan-out wants at least one handler")
        self.handlers = handlers
        self._outlets = outlets.keep(handlers)

    def emit(self, metric_data: MetricData) -> None:
        """Hand one metric to each."""
        for outlet in self._outlets:
            outlet.put(metric_data)


class KymogramMetricHandler(MetricHandler):
    """Logs metrics as series of a run: the series of a metric is `<group>/<name>`.

    It logs to the run that kymogram.init() opened; without an open run metrics
    are dropped and counted as failed. Characters that a series' name cannot have,
    as in `f.<locals>.g`, become `_`, and the label `exact_name` keeps `<group>/<name>`.
    """

    at_once = True  # log() never waits

    def __init__(self, run: Run | None = None) -> None:
        self._run = run
        self._names: dict[tuple[str, str], tuple[str, dict[str, str] | None]] = {}

    def emit(self, metric_data: MetricData) -> None:
        """Log one metric."""
        key = metric_data[1:3]
        named = self._names.get(key)
        if named is None:
            named = series_of(*key)
            if len(self._names) < 10_000:
                self._names[key] = named
        if self._run is not None and self._run is not current.run:
            raise RuntimeError(f"the run {self._run.name} is closed or not the current one")
        log(named[0], float(metric_data.value), labels=named[1])


def series_of(group: str, name: str) -> tuple[str, dict[str, str] | None]:
    """The name and the labels of a metric's series."""
    series = f"{_safe(group)}/{_safe(name)}"
    labels = {}
    if series != f"{group}/{name}":
        labels = {NAME_LABEL: _encoded(f"{group}/{name}")}
    return series, labels or None


def spelled(name: str) -> tuple[str, dict[str, str] | None]:
    """The name and the labels of the series of a name that others gave."""
    series = _safe(name)
    return series, None if series == name else {NAME_LABEL: _encoded(name)}


def _safe(text: str) -> str:
    """The text with `_` for what a series' name cannot have."""
    out = "".join("_" if c in _RESERVED or c.isspace() or not c.isprintable() else c for c in text)
    return "_" + out[1:] if out.startswith(":") else out or "_"


def _encoded(text: str) -> str:
    """The text with `%XX` for what a label's value cannot have."""
    return "".join(
        "".join(f"%{b:02X}" for b in c.encode("utf-8", "surrogatepass"))
        if c in "%=&" or not (c.isprintable() or c == " ")
        else c
        for c in text
    )
