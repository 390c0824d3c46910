"""The environment's settings, under the names that programs written for Metrana import.

Every variable METRANA_X is also read as KYMOGRAM_X, which wins.
"""

from __future__ import annotations

from .. import _enums
from .._arguments import checks, table
from .._host import environment
from .._input import numeric
from .._opening import settings

METRANA_API_KEY = "METRANA_API_KEY"
METRANA_BACKPRESSURE_STRATEGY = "METRANA_BACKPRESSURE_STRATEGY"
METRANA_ERROR_MODES = "METRANA_ERROR_MODES"
METRANA_EVENT_QUEUE_MAX_SIZE = "METRANA_EVENT_QUEUE_MAX_SIZE"
METRANA_LOG_LEVEL = "METRANA_LOG_LEVEL"
METRANA_ORCHESTRATION_ID = "METRANA_ORCHESTRATION_ID"
METRANA_RENDERING_CLOSE_TIMEOUT = "METRANA_RENDERING_CLOSE_TIMEOUT"
METRANA_RENDER_ERROR_QUEUE_MAX_SIZE = "METRANA_RENDER_ERROR_QUEUE_MAX_SIZE"
METRANA_RESUME_STRATEGY = "METRANA_RESUME_STRATEGY"
METRANA_SKIP_DRAIN_RENDER_ON_CLOSE = "METRANA_SKIP_DRAIN_RENDER_ON_CLOSE"


def get_api_key() -> str | None:
    """The key of the environment."""
    return environment.setting("API_KEY")


def get_backpressure_strategy() -> _enums.BackpressureStrategy:
    """The strategy of the environment, else the default."""
    return _enums.backpressure_strategy(environment.setting("BACKPRESSURE_STRATEGY") or "spool")


def get_error_strategy() -> _enums.ErrorStrategy:
    """The error strategy of the environment, else the default."""
    return _enums.error_strategy(environment.setting("ERROR_MODES") or "warn")


def get_event_queue_max_size() -> int:
    """Most un-acked points, of the environment, else the default."""
    return int(table.Arguments({}).take("queue_capacity"))


def get_log_level() -> _enums.LogLevel:
    """The level of the environment, else the default."""
    return _enums.log_level(environment.setting("LOG_LEVEL") or "SUCCESS")


def get_orchestration_id() -> str | None:
    """The job's identifier of the environment."""
    return environment.setting("ORCHESTRATION_ID")


def get_render_error_queue_max_size() -> int:
    """Most errors that wait for check_sender_errors(), of the environment, else the default."""
    return settings.errors_kept()


def get_rendering_close_timeout() -> float | None:
    """Seconds that close() waits for renderings, of the environment; None is no limit."""
    text = environment.setting("RENDERING_CLOSE_TIMEOUT")
    return None if text is None else numeric.seconds("KYMOGRAM_RENDERING_CLOSE_TIMEOUT", text)


def get_resume_strategy() -> _enums.ResumeStrategy:
    """The strategy of the environment, else the default."""
    return _enums.resume_strategy(environment.setting("RESUME_STRATEGY") or "never")


def get_skip_drain_render_on_close() -> bool:
    """Whether close() drops frames that wait, of the environment."""
    text = environment.setting("SKIP_DRAIN_RENDER_ON_CLOSE")
    return text is not None and checks.flag("SKIP_DRAIN_RENDER_ON_CLOSE", text)
