"""What one call of log() says, and what stands between it and a sink."""

from __future__ import annotations

from typing import NamedTuple

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any

    from .values import Field


class Refused(ValueError):
    """A point or field that can never be stored: what, the rule, the remedy."""


class Call(NamedTuple):
    """A point as the caller has it; the measurement has its prefix."""

    measurement: str
    tags: Mapping[str, Any]
    fields: Mapping[str, Field]
    time: int
