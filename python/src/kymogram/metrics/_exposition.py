"""The families that a scrape gets, in Prometheus' text format and in OpenMetrics."""

from __future__ import annotations

import os
import threading
import weakref
from bisect import bisect_left
from time import time

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Any

    Labels = tuple[str, ...]

TEXT = "text/plain; version=0.0.4; charset=utf-8"
OPENMETRICS = "application/openmetrics-text; version=1.0.0; charset=utf-8"
SERIES_MAX = 10_000  # of one process; a name made of data would grow without end
# 0.1 ms to 10 min: a step of a loop, and a rendezvous.
BUCKETS = (0.0001, 0.0005, 0.001, 0.005, 0.01, 0.05, 0.1, 0.5, 1.0, 5.0, 10.0, 60.0, 600.0)

_EVENTS = (".count", ".success", ".failure")
_DURATION = ".duration.ms"


class Histogram:
    """Observations by size."""

    __slots__ = ("buckets", "sum")

    def __init__(self) -> None:
        self.buckets = [0] * (len(BUCKETS) + 1)
        self.sum = 0.0

    def observe(self, value: float) -> None:
        """Count one."""
        self.buckets[bisect_left(BUCKETS, value)] += 1
        self.sum += value


class Family:
    """Series of one name."""

    def __init__(self, name: str, kind: str, told: str, *labels: str, unit: str = "") -> None:
        self.name = name
        self.kind = kind
        self.told = told
        self.unit = unit
        self.labels = labels
        self.series: dict[Labels, Any] = {}

    def lines(self, openmetrics: bool) -> Iterator[str]:
        """The family as text."""
        counter = self.kind == "counter"
        name = self.name + "_total" if counter and not openmetrics else self.name
        yield f"# HELP {name} {self.told}\n# TYPE {name} {self.kind}\n"
        if openmetrics and self.unit:
            yield f"# UNIT {name} {self.unit}\n"
        sample = self.name + "_total" if counter else self.name
        for values, value in self.series.items():
            if isinstance(value, Histogram):
                yield from self._histogram(values, value)
            else:
                yield f"{sample}{self._labels(values)} {_number(value)}\n"

    def _histogram(self, values: Labels, histogram: Histogram) -> Iterator[str]:
        total = 0
        for bound, count in zip((*BUCKETS, float("inf")), histogram.buckets):
            total += count
            labels = self._labels(values, ("le", _number(bound)))
            yield f"{self.name}_bucket{labels} {total}\n"
        labels = self._labels(values)
        yield f"{self.name}_sum{labels} {_number(histogram.sum)}\n"
        yield f"{self.name}_count{labels} {total}\n"

    def _labels(self, values: Labels, *more: tuple[str, str]) -> str:
        pairs = [*zip(self.labels, values), *more]
        if not pairs:
            return ""
        return "{" + ",".join(f'{name}="{_escaped(value)}"' for name, value in pairs) + "}"


def _escaped(value: str) -> str:
    value = value.encode("utf-8", "replace").decode()
    return value.replace("\\", "\\\\").replace("\n", "\\n").replace('"', '\\"')


def _number(value: float) -> str:
    value = float(value)
    if value != value:
        return "NaN"
    if value - value != 0:
        return "+Inf" if value > 0 else "-Inf"
    return repr(value)


class Exposition:
    """The numbers of this process."""

    def __init__(self) -> None:
        self._gauges = Family("kymogram_metric", "gauge", "Last value.", "group", "name")
        self._events = Family(
            "kymogram_metric_events", "counter", "Sum of the values.", "group", "name"
        )
        self._durations = Family(
            "kymogram_metric_duration_seconds",
            "histogram",
            "Durations.",
            "group",
            "name",
            unit="seconds",
        )
        self._requests = Family(
            "kymogram_node_requests",
            "counter",
            "Requests that were answered.",
            "protocol",
            "route",
            "code",
        )
        self._latencies = Family(
            "kymogram_node_request_duration_seconds",
            "histogram",
            "Time to answer a request.",
            "protocol",
            "route",
            unit="seconds",
        )
        start = Family(
            "kymogram_node_start_time_seconds",
            "gauge",
            "When the node started, Unix time.",
            unit="seconds",
        )
        start.series[()] = time()
        self._families = [
            start,
            self._gauges,
            self._events,
            self._durations,
            self._requests,
            self._latencies,
        ]
        self._count = 0
        self._lock = threading.Lock()
        if hasattr(os, "register_at_fork"):
            mine = weakref.WeakMethod(self._forked)
            os.register_at_fork(after_in_child=lambda: (found := mine()) and found())

    def _forked(self) -> None:
        """In a forked child: another thread may have held the lock."""
        self._lock = threading.Lock()

    def _slot(self, family: Family, labels: Labels, fresh: Any) -> Any:
        """The value of a series, made if it is new."""
        found = family.series.get(labels)
        if found is not None:
            return found
        if self._count >= SERIES_MAX:
            raise ValueError(f"more than {SERIES_MAX} series: {family.name} {labels} is left out")
        self._count += 1
        family.series[labels] = fresh
        return fresh

    def metric(self, group: str, name: str, value: float) -> None:
        """Take a metric of the metrics API; the end of its name says what it is."""
        value = float(value)
        labels = (group, name)
        with self._lock:
            if name.endswith(_DURATION):
                if not value >= 0:
                    raise ValueError(f"{name} is a duration, so its value is not {value}")
                self._slot(self._durations, labels, Histogram()).observe(value / 1000)
            elif name.endswith(_EVENTS):
                if not value >= 0 or value == float("inf"):
                    raise ValueError(f"{name} counts, so its value is not {value}")
                self._events.series[labels] = self._slot(self._events, labels, 0.0) + value
            else:
                self._slot(self._gauges, labels, value)
                self._gauges.series[labels] = value

    def request(self, protocol: str, route: str, code: int, seconds: float) -> None:
        """Count a request of this process' server; route is a pattern, never a path."""
        labels = (protocol, route, str(code))
        with self._lock:
            self._requests.series[labels] = self._slot(self._requests, labels, 0) + 1
            self._slot(self._latencies, (protocol, route), Histogram()).observe(seconds)

    def text(self, openmetrics: bool = False) -> str:
        """All families."""
        with self._lock:
            parts = [line for family in self._families for line in family.lines(openmetrics)]
        return "".join(parts) + ("# EOF\n" if openmetrics else "")
