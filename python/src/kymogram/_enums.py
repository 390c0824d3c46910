"""The choices that init() and log() take; each also accepts its name as text.

The members carry Metrana's names (``BackpressureStrategy.DropNew``) and, as
aliases, the usual spelling of constants (``DROP_NEW``).
"""

from __future__ import annotations

from enum import Enum

from ._exceptions import (
    KymogramValidationError,
    UnrecognizedKymogramBackpressureStrategyError,
    UnrecognizedKymogramErrorStrategyError,
)


def _plain(text: object) -> str:
    """DropNew, drop-new and DROP_NEW are one choice."""
    raw = text.value if isinstance(text, Enum) else text
    return str(raw).replace("_", "").replace("-", "").lower()


class CaseInsensitiveEnum(str, Enum):
    """An enumeration whose members are found by value or name in any spelling."""

    @classmethod
    def _missing_(cls, value: object) -> CaseInsensitiveEnum | None:
        wanted = _plain(value)
        for name, member in cls.__members__.items():
            if wanted in (_plain(member.value), _plain(name)):
                return member
        return None


class StandardMetricScale(str, Enum):
    """The scales that the page knows; any other text without spaces is one too."""

    ML_STEP = "ML_STEP"
    EPISODE = "EPISODE"
    ENVIRONMENT_STEP = "ENVIRONMENT_STEP"


class LogLevel(CaseInsensitiveEnum):
    """How much the client prints on stderr."""

    Trace = "TRACE"
    Debug = "DEBUG"
    Info = "INFO"
    Success = "SUCCESS"
    Warn = "WARNING"
    Error = "ERROR"
    Critical = "CRITICAL"
    Off = "OFF"
    TRACE = "TRACE"
    DEBUG = "DEBUG"
    INFO = "INFO"
    SUCCESS = "SUCCESS"
    WARNING = "WARNING"
    ERROR = "ERROR"
    CRITICAL = "CRITICAL"
    OFF = "OFF"


class ErrorStrategy(CaseInsensitiveEnum):
    """How errors of the delivery show."""

    Silent = "silent"
    Warn = "warn"
    RaiseOnLog = "raise_on_log"
    RaiseOnClose = "raise_on_close"
    SILENT = "silent"
    WARN = "warn"
    RAISE_ON_LOG = "raise_on_log"
    RAISE_ON_CLOSE = "raise_on_close"


class ResumeStrategy(CaseInsensitiveEnum):
    """What init() does when the run's name is taken by another job."""

    Never = "never"
    Allow = "allow"
    NEVER = "never"
    ALLOW = "allow"


class BackpressureStrategy(CaseInsensitiveEnum):
    """What happens to new points when the queue is full.

    Under `spool` and `spool_then_raise` the queue is the disk: at most the
    spool's cap, then 64 MiB of memory. Under the others it is `queue_capacity`
    points that the server has not acknowledged.
    """

    Spool = "spool"  # drop and count them: the default
    SpoolThenRaise = "spool_then_raise"
    DropNew = "drop_new"
    Block = "block"
    Raise = "raise"
    SPOOL = "spool"
    SPOOL_THEN_RAISE = "spool_then_raise"
    DROP_NEW = "drop_new"
    BLOCK = "block"
    RAISE = "raise"


class Compression(CaseInsensitiveEnum):
    """How the agent packs what it sends."""

    Off = "none"
    Zstd = "zstd"
    NONE = "none"
    ZSTD = "zstd"


class InitMode(CaseInsensitiveEnum):
    """Whether init() asks the server."""

    OnlineOnly = "online_only"
    Offline = "offline"
    ONLINE_ONLY = "online_only"
    OFFLINE = "offline"


class DeliveryPolicy(CaseInsensitiveEnum):
    """What happens when points cannot be kept: an error, or a counted loss."""

    AllOrCrash = "all_or_crash"
    TolerateLoss = "tolerate_loss"
    ALL_OR_CRASH = "all_or_crash"
    TOLERATE_LOSS = "tolerate_loss"


class RenderingUploadMode(CaseInsensitiveEnum):
    """Which videos go to the server."""

    All = "all"
    Triggered = "triggered"  # those that were tagged or marked
    Off = "off"
    ALL = "all"
    TRIGGERED = "triggered"
    OFF = "off"


class DiskCompression(CaseInsensitiveEnum):
    """Accepted for compatibility: the spool is not compressed."""

    Off = "none"
    Lz4 = "lz4"
    Zstd = "zstd"


def _parse(
    kind: type[CaseInsensitiveEnum],
    text: object,
    error: type[KymogramValidationError] = KymogramValidationError,
) -> CaseInsensitiveEnum:
    try:
        return kind(text)
    except ValueError:
        choices = ", ".join(str(member.value) for member in kind)
        raise error(f"{text!r} is not a {kind.__name__}: choose one of {choices}") from None


def resume_strategy(text: object) -> ResumeStrategy:
    """Parse the resume strategy."""
    try:
        return ResumeStrategy(text)
    except ValueError:
        raise KymogramValidationError(
            f"{text!r} is not a ResumeStrategy: choose one of never, allow. It is init()'s first "
            "parameter, as in Metrana 0.5.2: give the names as workspace_name=, project_name=, "
            "run_name="
        ) from None


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


def init_mode(text: object) -> InitMode:
    """Parse the init mode."""
    return InitMode(_parse(InitMode, text))


def delivery_policy(text: object) -> DeliveryPolicy:
    """Parse the delivery policy."""
    return DeliveryPolicy(_parse(DeliveryPolicy, text))
