"""log(): one record a call, appended by one C call and without a lock.

What a call needs lies in `_points/tables.py`; a call that finds no entry
there takes the slow path, `_points/logger.py`.
"""

from __future__ import annotations

from time import time_ns
from zlib import crc32

from ._input.numeric import EXACT, STEP_MAX
from ._points import arrays, tables
from ._points.current import logger
from ._points.tables import ARRAYS, PLAIN, STEPPED
from ._spool.records import POINT_LENGTH, pack_float_body, pack_float_record

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any

    from ._types import Value

# Assigned: CPython takes an imported name for a module and compiles its .get() to a slower call.
AUTO = tables.AUTO


def log(
    metric_name: str | Mapping[str, Value],
    value: Value | None = None,
    scale: str | None = None,
    step: Value | None = None,
    labels: Mapping[str, str] | None = None,
    evaluation: bool | None = False,
    timestamp: Value | None = None,
    kill_timeout: float = 3.0,
    *,
    dtype: Any = None,
) -> None:
    """Log a value, or a mapping of names to values.

    A value is a number or a one-dimensional list or array. Without `step` the
    series goes on from its last step; an integer is the step of the first
    point; a sequence gives one a point. `timestamp` is Unix milliseconds.
    `dtype="int64"` keeps integers exact. `kill_timeout` is accepted and
    without effect: no call waits.
    """
    kind = value.__class__
    if (
        (kind is float or kind in PLAIN or (kind is int and -EXACT <= value <= EXACT))  # type: ignore[operator]
        and scale is None
        and labels is None
        and timestamp is None
        and dtype is None
        and not evaluation
    ):
        try:
            if step is None:
                entry = AUTO[metric_name]
                write, tick, seed, first, series = entry
                step = tick()
                if AUTO.get(metric_name) is not entry:
                    logger().late(series, tick, step, value)  # type: ignore[arg-type]
                    return
            elif step.__class__ is int and 0 <= step <= STEP_MAX:
                write, series, seed, first = STEPPED[metric_name]
                if step <= series.last:
                    logger().fell(series, step)
                series.last = step
            else:
                raise KeyError
        except (KeyError, TypeError):
            pass
        else:
            now = time_ns()
            crc = crc32(pack_float_body(step, now, value), seed)
            try:
                write(pack_float_record(POINT_LENGTH, crc, first, step, now, value))
            except ValueError:
                body = first + pack_float_body(step, now, value)
                logger().writer.append((series,), body, 1)
            return
    elif (
        kind in ARRAYS
        and scale is None
        and labels is None
        and dtype is None
        and not evaluation
        and arrays.log_again(metric_name, value, step, timestamp)
    ):
        return
    logger().log(metric_name, value, scale, step, labels, evaluation, timestamp, dtype)


def log_distributed(
    metric_name: str | Mapping[str, Value],
    value: Value | None = None,
    scale: str | None = None,
    step: Value | None = None,
    labels: Mapping[str, str] | None = None,
    evaluation: bool | None = False,
    timestamp: Value | None = None,
    kill_timeout: float = 3.0,
    *,
    dtype: Any = None,
) -> None:
    """Log into a series that several processes share; `step` is required."""
    logger().log(metric_name, value, scale, step, labels, evaluation, timestamp, dtype, True)
