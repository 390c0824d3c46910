"""log_rl_episode and log_rl_environment_step."""

from __future__ import annotations

from ._episodes.logger import RLLogger
from ._points.current import logger

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any

    from ._points.logger import Logger
    from ._types import Environments, Value, Values


def of(found: Logger) -> RLLogger:
    """The RL calls of a logger, made at the first."""
    rl: RLLogger | None = found.rl
    if rl is None:
        with found.writer.lock:
            rl = found.rl = found.rl or RLLogger(found)
    return rl


def log_rl_episode(
    metric_name: str,
    value: Value,
    rl_step: int,
    evaluation: bool | None = False,
    episode: Value | None = None,
    env_id: str | None = None,
    labels: Mapping[str, str] | None = None,
    timestamp: Value | None = None,
    kill_timeout: float = 3.0,
    *,
    dtype: Any = None,
) -> None:
    """Log a value an episode; without `episode` the series goes on from its last."""
    of(logger()).episode(
        metric_name, value, rl_step, evaluation, episode, env_id, labels, timestamp, dtype
    )


def log_rl_environment_step(
    metric_name: str,
    value: Values,
    rl_step: int,
    evaluation: bool | None = False,
    episode: Values | None = None,
    env_id: Environments | None = None,
    labels: Mapping[str, str] | None = None,
    timestamp: Values | None = None,
    kill_timeout: float = 3.0,
    *,
    env_step: Values | None = None,
    auto_start_from_one: bool = False,
    dtype: Any = None,
) -> None:
    """Log steps within an episode, of one environment or of many at once.

    One environment takes a number or an array of shape (T,); with M ids in
    `env_id` the value has shape (M,) or (M, T). `episode` and `timestamp` are
    one number, one an environment, (M,), or one a value, (M, T).

    The step within the episode is counted over updates until the episode changes.
    It begins with 0, or with 1 when the series' first call has
    `auto_start_from_one`. `env_step` gives it instead: the step of the first value,
    or one step for each value. Each environment belongs to one process: a second one is warned.
    """
    of(logger()).environment_step(
        metric_name,
        value,
        rl_step,
        evaluation,
        episode,
        env_id,
        labels,
        timestamp,
        dtype,
        env_step,
        auto_start_from_one,
    )
