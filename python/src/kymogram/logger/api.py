"""The functions, under the names that programs written for Metrana import."""

from .._api import (
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
from .._documents import log_histogram, log_scatter, log_scatter3d
from .._enums import BackpressureStrategy, Compression, ErrorStrategy, LogLevel, ResumeStrategy
from .._exceptions import MetranaNotInitializedError, MetranaProcessForkError, NoMetranaApiKeyError
from .._init import init
from .._log import log, log_distributed
from .._rl import log_rl_environment_step, log_rl_episode

__all__ = [
    "BackpressureStrategy",
    "Compression",
    "ErrorStrategy",
    "LogLevel",
    "MetranaNotInitializedError",
    "MetranaProcessForkError",
    "NoMetranaApiKeyError",
    "ResumeStrategy",
    "add_tags",
    "check_sender_errors",
    "close",
    "failover_to_spool",
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
    "log_histogram",
    "log_rendering",
    "log_rl_environment_step",
    "log_rl_episode",
    "log_scatter",
    "log_scatter3d",
    "mark_rendering_event",
    "remove_tags",
    "set_description",
    "set_tags",
    "shutdown_logger",
    "tag_rendering",
]
