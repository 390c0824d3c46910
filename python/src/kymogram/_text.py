"""log_text: a text a step, in a series of its own."""

from __future__ import annotations

from time import time_ns

from ._exceptions import KymogramValidationError
from ._input import naming, numeric
from ._points.current import logger
from ._points.logger import Logger
from ._points.series import StepSeries
from ._spool.records import HAS_STEP, PAYLOAD_LIMIT, pack_i64, pack_point

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any

TEXT, HISTOGRAM, SCATTER = 3, 4, 5
_NAMES = {TEXT: "text", HISTOGRAM: "histogram", SCATTER: "scatter"}
_HEAD = 24


def log_text(
    metric_name: str,
    text: str,
    step: int | None = None,
    scale: str | None = None,
    labels: Mapping[str, str] | None = None,
    timestamp: Any = None,
) -> None:
    """Log a text, at most 1 MiB of UTF-8, into a series of its own.

    Without `step` the series goes on from its last step; `timestamp` is Unix
    milliseconds. A metric holds numbers or texts, not both.
    """
    if not isinstance(text, str):
        raise KymogramValidationError(
            f"the text of {metric_name!r} is a {type(text).__name__}, not a str"
        )
    document(TEXT, metric_name, text.encode(errors="replace"), step, scale, labels, timestamp)


def document(
    kind: int,
    metric_name: str,
    data: bytes,
    step: int | None,
    scale: str | None = None,
    labels: Mapping[str, str] | None = None,
    timestamp: Any = None,
    evaluation: object = False,
) -> None:
    """Log one document of a kind."""
    if len(data) > PAYLOAD_LIMIT - _HEAD:
        raise KymogramValidationError(
            f"the {_NAMES[kind]} of {metric_name!r} has {len(data)} bytes, "
            f"at most {PAYLOAD_LIMIT - _HEAD}"
        )
    found = logger()
    when = time_ns() if timestamp is None else numeric.time_ns(timestamp)
    given = None if step is None else numeric.step("step", step)
    target = _series(found, kind, metric_name, scale, labels, evaluation)
    with found.writer.lock:
        if given is None:
            number, flags = target.take(1), target.flags
        else:
            target.follow(given, given)
            number, flags = given, HAS_STEP
        head = pack_point(5, kind, flags, 0, target.number)
        body = b"".join((head, pack_i64(number), pack_i64(when), data))
        found.writer.append((target,), body, 1)


def _series(
    found: Logger, kind: int, metric: object, scale: object, labels: Any, evaluation: object
) -> StepSeries:
    name, place = naming.metric(metric), naming.scale(scale)
    pairs = naming.labels(labels, evaluation)
    key = (name, place, tuple(pairs.items()))
    with found.writer.lock:
        target = found._series.get(key)
        if target is None:
            start = found.starts.of(key)
            target = StepSeries(found.number(), kind, (name, place, pairs), start)
            found._series[key] = target
    if target.kind != kind:
        held = _NAMES.get(target.kind, "number")
        raise KymogramValidationError(
            f"{name!r} holds {held}s; give its {_NAMES[kind]}s a name of their own"
        )
    return target
