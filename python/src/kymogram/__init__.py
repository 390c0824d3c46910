"""Kymogram: log a training run; every point that log() returned for is kept.

>>> import kymogram
>>> kymogram.init(run_name="run-001")
>>> kymogram.log("loss", 0.5)
>>> kymogram.close()
"""

from ._api import (
    add_tags,
    close,
    flush,
    get_env_last_rl_step_and_episode,
    get_last_step,
    get_metrics,
    is_initialized,
    is_offline,
    log_attributes,
    log_config,
    log_env_attributes,
    remove_tags,
    set_description,
    set_tags,
)
from ._enums import (
    BackpressureStrategy,
    Compression,
    ErrorStrategy,
    LogLevel,
    ResumeStrategy,
    StandardMetricScale,
)
from ._exceptions import (
    KymogramAuthError,
    KymogramClosingError,
    KymogramError,
    KymogramEventQueueFullError,
    KymogramLoggerClosedError,
    KymogramLoggerInitError,
    KymogramNotInitializedError,
    KymogramOrchestrationIdMismatchError,
    KymogramRunAlreadyExistsError,
    KymogramSenderError,
    KymogramValidationError,
    MetranaClosingError,
    MetranaError,
    MetranaEventQueueFullError,
    MetranaLoggerClosedError,
    MetranaLoggerInitError,
    MetranaNotInitializedError,
    MetranaOrchestrationIdMismatchError,
    MetranaRunAlreadyExistsError,
    MetranaSenderError,
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
from ._metrics import Metrics
from ._rl import log_rl_environment_step, log_rl_episode
from ._run import Run
from ._text import log_text

__version__ = "0.1.0"

__all__ = [
    "BackpressureStrategy",
    "Compression",
    "ErrorStrategy",
    "KymogramAuthError",
    "KymogramClosingError",
    "KymogramError",
    "KymogramEventQueueFullError",
    "KymogramLoggerClosedError",
    "KymogramLoggerInitError",
    "KymogramNotInitializedError",
    "KymogramOrchestrationIdMismatchError",
    "KymogramRunAlreadyExistsError",
    "KymogramSenderError",
    "KymogramValidationError",
    "LogLevel",
    "MetranaClosingError",
    "MetranaError",
    "MetranaEventQueueFullError",
    "MetranaLoggerClosedError",
    "MetranaLoggerInitError",
    "MetranaNotInitializedError",
    "MetranaOrchestrationIdMismatchError",
    "MetranaRunAlreadyExistsError",
    "MetranaSenderError",
    "MetranaValidationError",
    "Metrics",
    "NoKymogramApiKeyError",
    "NoMetranaApiKeyError",
    "ResumeStrategy",
    "Run",
    "StandardMetricScale",
    "UnrecognizedKymogramBackpressureStrategyError",
    "UnrecognizedKymogramErrorStrategyError",
    "UnrecognizedMetranaBackpressureStrategyError",
    "UnrecognizedMetranaErrorStrategyError",
    "__version__",
    "add_tags",
    "close",
    "flush",
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
    "log_rl_environment_step",
    "log_rl_episode",
    "log_text",
    "remove_tags",
    "set_description",
    "set_tags",
]
