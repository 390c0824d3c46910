"""The choices that init() and log() take; each also accepts its name as text."""

from __future__ import annotations

from enum import Enum

from ._exceptions import (
    KymogramValidationError,
    UnrecognizedKymogramBackpressureStrategyError,
    UnrecognizedKymogramErrorStrategyError,
)


class StandardMetricScale(str, Enum):
    """The scales that the page knows; any other text without spaces is one too."""

    ML_STEP = "ML_STEP"
    EPISODE = "EPISODE"
    ENVIRONMENT_STEP = "ENVIRONMENT_STEP"


class LogLevel(str, Enum):
    """How much the client says on stderr."""

    TRACE = "TRACE"
    DEBUG = "DEBUG"
    INFO = "INFO"
    SUCCESS = "SUCCESS"
    WARNING = "WARNING"
    ERROR = "ERROR"
    CRITICAL = "CRITICAL"
    OFF = "OFF"


class ErrorStrategy(str, Enum):
    """How errors of the delivery show."""

    SILENT = "silent"
    WARN = "warn"
    RAISE_ON_LOG = "raise_on_log"
    RAISE_ON_CLOSE = "raise_on_close"


class ResumeStrategy(str, Enum):
    """What init() does when the run's name is taken by another job."""

    NEVER = "never"
    ALLOW = "allow"


class BackpressureStrategy(str, Enum):
    """What log() does when the disk and 64 MiB of memory behind it are full."""

    DROP_NEW = "drop_new"
    BLOCK = "block"
    RAISE = "raise"


class Compression(str, Enum):
    """Accepted for compatibility: the agent chooses its own compression."""

    NONE = "none"
    ZSTD = "zstd"


def _plain(text: object) -> str:
    """DropNew, drop-new and DROP_NEW are one choice."""
    raw = text.value if isinstance(text, Enum) else text
    return str(raw).replace("_", "").replace("-", "").lower()


def _parse(
    kind: type[Enum], text: object, error: type[KymogramValidationError] = KymogramValidationError
) -> Enum:
    for member in kind:
        if _plain(member.value) == _plain(text):
            return member
    choices = ", ".join(str(member.value) for member in kind)
    raise error(f"{text!r} is not a {kind.__name__}: choose one of {choices}")


def resume_strategy(text: object) -> ResumeStrategy:
    """Parse the resume strategy."""
    return ResumeStrategy(_parse(ResumeStrategy, text))


def error_strategy(text: object) -> ErrorStrategy:
    """Parse the error strategy."""
    return ErrorStrategy(_parse(ErrorStrategy, text, UnrecognizedKymogramErrorStrategyError))


def backpressure_strategy(text: object) -> BackpressureStrategy:
    """Parse the backpressure strategy."""
    found = _parse(BackpressureStrategy, text, UnrecognizedKymogramBackpressureStrategyError)
    return BackpressureStrategy(found)


def log_level(text: object) -> LogLevel:
    """Parse the log level."""
    return LogLevel(_parse(LogLevel, text))


def compression(text: object) -> Compression:
    """Parse the compression."""
    return Compression(_parse(Compression, text))
