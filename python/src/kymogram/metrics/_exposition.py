"""The families that a scrape gets, in Prometheus' text format and in OpenMetrics."""

from __future__ import annotations

import os
import threading
import weakref
from bisect import bisect_left
from time import time

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
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


_REQUEST = ("protocol", "route")


def _node(name: str, kind: str, told: str, *labels: str) -> Family:
    return Family(f"kymogram_node_{name}", kind, told, *labels)


def _seconds(name: str, kind: str, told: str, *labels: str) -> Family:
    return Family(f"kymogram_{name}_seconds", kind, told, *labels, unit="seconds")


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


STATES = ("starting", "ready", "degraded", "stopping")


class Exposition:
    """The numbers of this process, in the families that the agent has too."""

    def __init__(self) -> None:
        named = ("group", "name")
        self._gauges = Family("kymogram_metric", "gauge", "Last value.", *named)
        self._events = Family("kymogram_metric_events", "counter", "Sum of the values.", *named)
        self._durations = _seconds("metric_duration", "histogram", "Durations.", *named)
        self._requests = _node("requests", "counter", "Requests answered.", *_REQUEST, "code")
        told = "Time to answer a request."
        self._latencies = _seconds("node_request_duration", "histogram", told, *_REQUEST)
        self._state = _node("state", "gauge", "1 for what the node is doing.", "state")
        told = "Validations that ended, by result."
        self._validations = _node("validations", "counter", told, "result")
        told = "Time that a validation took."
        self._validation = _seconds("node_validation_duration", "histogram", told)
        told = "When a validation last succeeded, Unix time."
        self._validated = _seconds("node_last_validation_timestamp", "gauge", told)
        self._scores = _node("score", "gauge", "Score that the node gave, by uid.", "uid")
        told = "When weights were last set, Unix time."
        self._weights = _seconds("node_last_weights_timestamp", "gauge", told)
        start = _seconds("node_start_time", "gauge", "When the node started, Unix time.")
        start.series[()] = time()
        self._families = [one for one in vars(self).values() if isinstance(one, Family)] + [start]
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

    def state(self, state: str) -> None:
        """Say what the node is doing."""
        if state not in STATES:
            raise ValueError(f"a node's state is one of {', '.join(STATES)}, not {state!r}")
        with self._lock:
            self._state.series = {(one,): float(one == state) for one in STATES}

    def validated(self, seconds: float, failed: bool) -> None:
        """Count a validation."""
        label = ("failure" if failed else "success",)
        with self._lock:
            self._validations.series[label] = self._validations.series.get(label, 0) + 1
            self._validation.series.setdefault((), Histogram()).observe(max(0.0, seconds))
            if not failed:
                self._validated.series[()] = time()

    def scores(self, by_uid: Mapping[int, float]) -> None:
        """Replace all scores."""
        for uid in by_uid:
            if not 0 <= uid <= 65535:
                raise ValueError(f"a uid is 0 to 65535, not {uid}")
        with self._lock:
            self._scores.series = {(str(int(uid)),): float(by_uid[uid]) for uid in sorted(by_uid)}

    def weights(self) -> None:
        """Say that weights were set now."""
        with self._lock:
            self._weights.series[()] = time()

    def text(self, openmetrics: bool = False) -> str:
        """All families."""
        with self._lock:
            used = [family for family in self._families if family.series]
            parts = [line for family in used for line in family.lines(openmetrics)]
        return "".join(parts) + ("# EOF\n" if openmetrics else "")
