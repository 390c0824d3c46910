"""Kymogram: log a training run; every point that log() returned for is kept.

>>> import kymogram
>>> kymogram.init(run_name="run-001")
>>> kymogram.log("loss", 0.5)
>>> kymogram.close()
"""

from ._api import (
    add_tags,
    check_sender_errors,
    close,
    failover_to_spool,
    flush,
    get_env_last_rl_step_and_episode,
    get_last_step,
    get_metrics,
    is_initialized,
    is_offline,
    log_attributes,
    log_config,
    log_env_attributes,
    log_rendering,
    mark_rendering_event,
    remove_tags,
    set_description,
    set_tags,
    shutdown_logger,
    tag_rendering,
)
from ._documents import Histogram, log_histogram, log_scatter, log_scatter3d
from ._enums import (
    BackpressureStrategy,
    Compression,
    DeliveryPolicy,
    DiskCompression,
    ErrorStrategy,
    InitMode,
    LogLevel,
    RenderingUploadMode,
    ResumeStrategy,
    StandardMetricScale,
)
from ._exceptions import (
    KymogramAuthError,
    KymogramClosingError,
    KymogramError,
    KymogramErrorQueueFullError,
    KymogramEventQueueFullError,
    KymogramLoggerClosedError,
    KymogramLoggerInitError,
    KymogramNotInitializedError,
    KymogramOrchestrationIdMismatchError,
    KymogramProcessForkError,
    KymogramRunAlreadyExistsError,
    KymogramSenderError,
    KymogramSpoolUnavailableError,
    KymogramTimeoutError,
    KymogramUndeliverableSpoolError,
    KymogramValidationError,
    MetranaClosingError,
    MetranaError,
    MetranaErrorQueueFullError,
    MetranaEventQueueFullError,
    MetranaLoggerClosedError,
    MetranaLoggerInitError,
    MetranaNotInitializedError,
    MetranaOrchestrationIdMismatchError,
    MetranaProcessForkError,
    MetranaRunAlreadyExistsError,
    MetranaSenderError,
    MetranaSpoolUnavailableError,
    MetranaTimeoutError,
    MetranaUndeliverableSpoolError,
    MetranaValidationError,
    NoKymogramApiKeyError,
    NoMetranaApiKeyError,
    UnrecognizedKymogramBackpressureStrategyError,
    UnrecognizedKymogramErrorStrategyError,
    UnrecognizedMetranaBackpressureStrategyError,
    UnrecognizedMetranaErrorStrategyError,
)
from ._init import init
from ._log import log, log_distributed
from ._metrics import CloseInfo, Metrics
from ._rendering import KymogramRenderingError
from ._replay import follow_spool, replay_spool
from ._rl import log_rl_environment_step, log_rl_episode
from ._run import Run
from ._settings import DiskConfig
from ._text import log_text

__version__ = "0.1.0"

# What few programs need, loaded when it is asked for: kymogram.query.Client works as it stands.
_MODULES = ("logger", "metrics", "query", "types", "utils")


def __getattr__(name: str) -> object:
    from importlib import import_module

    if name not in _MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return import_module(f".{name}", __name__)


def __dir__() -> list[str]:
    return sorted({*globals(), *_MODULES})


__all__ = [
    "BackpressureStrategy",
    "CloseInfo",
    "Compression",
    "DeliveryPolicy",
    "DiskCompression",
    "DiskConfig",
    "ErrorStrategy",
    "Histogram",
    "InitMode",
    "KymogramAuthError",
    "KymogramClosingError",
    "KymogramError",
    "KymogramErrorQueueFullError",
    "KymogramEventQueueFullError",
    "KymogramLoggerClosedError",
    "KymogramLoggerInitError",
    "KymogramNotInitializedError",
    "KymogramOrchestrationIdMismatchError",
    "KymogramProcessForkError",
    "KymogramRenderingError",
    "KymogramRunAlreadyExistsError",
    "KymogramSenderError",
    "KymogramSpoolUnavailableError",
    "KymogramTimeoutError",
    "KymogramUndeliverableSpoolError",
    "KymogramValidationError",
    "LogLevel",
    "MetranaClosingError",
    "MetranaError",
    "MetranaErrorQueueFullError",
    "MetranaEventQueueFullError",
    "MetranaLoggerClosedError",
    "MetranaLoggerInitError",
    "MetranaNotInitializedError",
    "MetranaOrchestrationIdMismatchError",
    "MetranaProcessForkError",
    "MetranaRunAlreadyExistsError",
    "MetranaSenderError",
    "MetranaSpoolUnavailableError",
    "MetranaTimeoutError",
    "MetranaUndeliverableSpoolError",
    "MetranaValidationError",
    "Metrics",
    "NoKymogramApiKeyError",
    "NoMetranaApiKeyError",
    "RenderingUploadMode",
    "ResumeStrategy",
    "Run",
    "StandardMetricScale",
    "UnrecognizedKymogramBackpressureStrategyError",
    "UnrecognizedKymogramErrorStrategyError",
    "UnrecognizedMetranaBackpressureStrategyError",
    "UnrecognizedMetranaErrorStrategyError",
    "__version__",
    "add_tags",
    "check_sender_errors",
    "close",
    "failover_to_spool",
    "flush",
    "follow_spool",
    "get_env_last_rl_step_and_episode",
    "get_last_step",
    "get_metrics",
    "init",
    "is_initialized",
    "is_offline",
    "log",
    "log_attributes",
    "log_config",
    "log_distributed",
    "log_env_attributes",
    "log_histogram",
    "log_rendering",
    "log_rl_environment_step",
    "log_rl_episode",
    "log_scatter",
    "log_scatter3d",
    "log_text",
    "mark_rendering_event",
    "remove_tags",
    "replay_spool",
    "set_description",
    "set_tags",
    "shutdown_logger",
    "tag_rendering",
]
