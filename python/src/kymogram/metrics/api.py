"""The metrics API of torchelastic, under its own names.

A metric is a number with a group and a name. Where the metrics of a group go is
configured once; the code that publishes them does not know.
"""

from __future__ import annotations

import abc
import inspect
import sys
import time
import warnings
from functools import wraps
from typing import NamedTuple, overload

from ._outlet import Counts, Outlet, outlets

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any, TypeVar

    F = TypeVar("F", bound=Callable[..., Any])

RESERVED_GROUP = "torchelastic"
"""The group of the metrics that torchelastic publishes itself, and the default one."""

_UNSET: Any = object()
_now = time.time


class MetricData(NamedTuple):
    """One metric as a handler gets it; the timestamp is Unix seconds."""

    timestamp: float
    group_name: str
    name: str
    value: float


class MetricsConfig:
    """Parameters for initialize_metrics(), kept for programs that import the name."""

    __slots__ = ("params",)

    def __init__(self, params: dict[str, str] | None = None) -> None:
        self.params = params if params is not None else {}


class MetricHandler(abc.ABC):
    """Brings metrics to a destination.

    emit() runs in a thread of its own, behind a queue of 10,000 metrics: what it
    raises is counted, and when it is too slow metrics are dropped and counted. A
    handler with `at_once = True` is called by the thread that publishes; it must
    never wait.
    """

    at_once = False

    @abc.abstractmethod
    def emit(self, metric_data: MetricData) -> None:
        """Take one metric."""


class ConsoleMetricHandler(MetricHandler):
    """Prints metrics to stdout: `[timestamp][group]: name=value`."""

    def emit(self, metric_data: MetricData) -> None:
        """Print one metric."""
        timestamp, group, name, value = metric_data
        sys.stdout.write(f"[{timestamp}][{group}]: {name}={value}\n")
        sys.stdout.flush()


class NullMetricHandler(MetricHandler):
    """Forgets metrics; what every group has until it is configured."""

    at_once = True

    def emit(self, metric_data: MetricData) -> None:
        """Forget one metric."""


ConsoleMetricsHandler = ConsoleMetricHandler
NullMetricsHandler = NullMetricHandler

_groups: dict[str | None, Outlet | None] = {}  # None: metrics of the group are forgotten
_fallback: list[Outlet | None] = [None]  # of the groups that are not configured
_outlet_of = _groups.get


class MetricStream:
    """The metrics of one group."""

    def __init__(self, group_name: str, handler: MetricHandler) -> None:
        self.group_name = group_name
        self.handler = handler

    def add_value(self, metric_name: str, metric_value: float) -> None:
        """Publish a metric to the handler that the stream began with."""
        if not isinstance(self.handler, NullMetricHandler):
            data = MetricData(_now(), self.group_name, metric_name, metric_value)
            outlets.of(self.handler).put(data)


def configure(handler: MetricHandler, group: str | None = None) -> None:
    """Send the metrics of a group to a handler; without a group, those of all others."""
    if isinstance(handler, type) or not callable(getattr(handler, "emit", None)):
        raise TypeError(
            f"a metric handler is an object with a method emit(metric_data), not {handler!r}; "
            "for example kymogram.metrics.ConsoleMetricHandler()"
        )
    outlet = None if type(handler) is NullMetricHandler else outlets.of(handler)
    if group is None:
        _fallback[0] = outlet
    else:
        _groups[group] = outlet
    outlets.retain([*_groups.values(), _fallback[0]])


def getStream(group: str) -> MetricStream:  # noqa: N802 - torchelastic's name
    """The stream of a group, to its handler of now."""
    outlet = _outlet_of(group, _fallback[0])
    return MetricStream(group, _NULL if outlet is None else outlet.handler)


_NULL = NullMetricHandler()


def put_metric(
    metric_name: str = _UNSET,
    metric_value: float = _UNSET,
    metric_group: str = RESERVED_GROUP,
    *,
    name: str = _UNSET,
    value: float = _UNSET,
    group: str | None = None,
) -> None:
    """Publish a metric. It never waits, and a handler's failure never shows here.

    `name`, `value` and `group` are short names of the same three.
    """
    if group is not None:
        metric_group = group
    outlet = _outlet_of(metric_group, _fallback[0])
    if metric_value is _UNSET:
        if value is _UNSET:
            raise TypeError('put_metric wants a name and a value: put_metric("loss", 1)')
        metric_value = value
    if metric_name is _UNSET:
        if name is _UNSET:
            raise TypeError('put_metric wants a name and a value: put_metric("loss", 1)')
        metric_name = name
    if outlet is not None:
        outlet.put(MetricData(_now(), metric_group, metric_name, metric_value))


def publish_metric(metric_group: str, metric_name: str, metric_value: float) -> None:
    """Publish a metric; the name that torchelastic had before put_metric()."""
    warnings.warn("use put_metric(name, value, group)", DeprecationWarning, stacklevel=2)
    put_metric(metric_name, metric_value, metric_group)


def get_elapsed_time_ms(start_time_in_seconds: float) -> int:
    """Whole milliseconds since a time.time()."""
    return int((_now() - start_time_in_seconds) * 1000)


def _metric_name(function: Callable[..., Any]) -> str:
    """The qualified name; that of a plain function with its leaf module."""
    name: str = getattr(function, "__qualname__", type(function).__qualname__)
    module: str = getattr(function, "__module__", None) or ""
    if "." in name or not module:
        return name
    return f"{module.rpartition('.')[2]}.{name}"


class _Call:
    """One call of a profiled function."""

    __slots__ = ("group", "name", "start")

    def __init__(self, name: str, group: str) -> None:
        self.name = name
        self.group = group
        self.start = time.perf_counter()

    def __enter__(self) -> None:
        pass

    def __exit__(self, kind: object, error: object, trace: object) -> None:
        milliseconds = (time.perf_counter() - self.start) * 1000
        put_metric(self.name, milliseconds, self.group)
        put_metric(f"{self.name}.duration.ms", milliseconds, self.group)
        put_metric(f"{self.name}.count", 1, self.group)
        put_metric(f"{self.name}.{'success' if kind is None else 'failure'}", 1, self.group)


@overload
def prof(fn: F, group: str = ...) -> F: ...
@overload
def prof(fn: str | None = ..., group: str = ...) -> Callable[[F], F]: ...
def prof(fn: F | str | None = None, group: str = RESERVED_GROUP) -> Any:
    """Decorate a function: every call publishes its duration and its outcome.

    `<name>` and `<name>.duration.ms` are the duration in milliseconds,
    `<name>.count` is 1, and so is `<name>.success` or `<name>.failure`. The name
    is the qualified one (`Class.method`), that of a plain function
    `module.function`. Exceptions pass through. Use it as `@prof`,
    `@prof(group="agent")` or `@prof("agent")`.
    """
    if isinstance(fn, str):
        return prof(group=fn)
    if fn is None:
        return lambda function: _profiled(function, group)
    return _profiled(fn, group)


@overload
def profile(group: F) -> F: ...
@overload
def profile(group: str | None = ...) -> Callable[[F], F]: ...
def profile(group: Any = None) -> Any:
    """prof(), by torchelastic's older name: `@profile`, `@profile("agent")`."""
    if callable(group):
        return _profiled(group, RESERVED_GROUP)
    return prof(group=RESERVED_GROUP if group is None else group)


def _profiled(function: Any, group: str) -> Any:
    if not callable(function):
        raise TypeError(f"prof decorates a function, not {function!r}")
    name = _metric_name(function)
    if inspect.iscoroutinefunction(function):

        @wraps(function)
        async def awaited(*args: Any, **kwargs: Any) -> Any:
            with _Call(name, group):
                return await function(*args, **kwargs)

        return awaited

    @wraps(function)
    def called(*args: Any, **kwargs: Any) -> Any:
        with _Call(name, group):
            return function(*args, **kwargs)

    return called


def flush(timeout: float = 2.0) -> bool:
    """Wait until the handlers took what was published so far; True when they did."""
    return outlets.flush(timeout)


def counts() -> list[Counts]:
    """For each handler in use: how much it took, failed at, and was too slow for."""
    return outlets.counts()


def initialize_metrics(cfg: MetricsConfig | None = None) -> None:
    """Nothing: torchelastic calls it, and configure() is all there is."""
