"""System metrics: the agent collects them; this module only asks for them in open.json."""

from __future__ import annotations

import sys

from .._exceptions import KymogramValidationError
from .._input import numeric
from . import environment

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

INTERVAL_S = 30.0
_LEAST_S = 0.1
_MOST_S = 1e6


def wanted(capture: Any, interval: Any) -> dict[str, int] | None:
    """The field `system` of open.json; None when they are switched off."""
    if capture is None:
        text = _variable("CAPTURE_SYSTEM_METRICS")
        capture = sys.platform == "linux" if text is None else _flag(text)
    if not capture:
        return None
    if interval is None:
        interval = _variable("SYSTEM_METRICS_INTERVAL_SECS") or INTERVAL_S
    seconds = numeric.seconds("system_metrics_interval_secs", interval)
    if seconds < _LEAST_S:
        raise KymogramValidationError(
            f"system_metrics_interval_secs is {seconds:g}, it must be at least {_LEAST_S:g}"
        )
    return {"interval_ms": int(min(seconds, _MOST_S) * 1000)}


def _variable(name: str) -> str | None:
    return environment.first(("KYMOGRAM_" + name, "METRANA_" + name))


def _flag(text: str) -> bool:
    if text.lower() not in ("1", "true", "yes", "on", "0", "false", "no", "off"):
        raise KymogramValidationError(
            f"KYMOGRAM_CAPTURE_SYSTEM_METRICS is {text!r}, it must be true or false"
        )
    return text.lower() in ("1", "true", "yes", "on")
