"""Durations as they are written everywhere → seconds: 90d, 36h, 1h30m, 250ms.

The Go package internal/duration reads the same texts (testdata/durations.json).
"""

from __future__ import annotations

import re

_UNITS = {"w": 604_800, "d": 86_400, "h": 3_600, "m": 60, "s": 1, "ms": 1e-3, "[uµμ]s": 1e-6}
_UNITS["ns"] = 1e-9
_NUMBER = r"(\d+\.?\d*|\.\d+)"
# The largest unit comes first, each once; an m that is followed by an s is no minute.
_FORM = re.compile(
    "".join(f"(?:{_NUMBER}{unit}{'(?!s)' if unit == 'm' else ''})?" for unit in _UNITS), re.ASCII
)
_MOST = (1 << 63) / 1e9  # what Go can hold


def parse(text: str) -> float | None:
    """The seconds of a duration; None where the text is none."""
    found = _FORM.fullmatch(text) if text else None
    if found is None:
        return None
    sizes = _UNITS.values()
    total = sum(
        float(part) * size for part, size in zip(found.groups(), sizes, strict=True) if part
    )
    return total if total < _MOST else None
