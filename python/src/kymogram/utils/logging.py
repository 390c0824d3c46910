"""What the client prints, under the names that programs written for Metrana import."""

from __future__ import annotations

from .. import _enums, _say
from .._exceptions import KymogramWarning, MetranaWarning
from .._host import environment

__all__ = ["KymogramWarning", "MetranaWarning", "configure_logging", "warn", "warn_once"]


def configure_logging(level: str | None = None) -> None:
    """Choose the least level that is said on stderr; None takes the environment's."""
    chosen = level or environment.setting("LOG_LEVEL") or "SUCCESS"
    _say.set_level(_enums.log_level(chosen).value)


def warn(message: str) -> None:
    """Say a warning."""
    _say.voice.warn(message)


def warn_once(message: str, *, key: str | None = None, ttl_seconds: float | None = None) -> None:
    """Say a warning once under its key; `ttl_seconds` is accepted and without effect."""
    _say.voice.warn(message, once=key or message)
