"""The module's functions: each acts on the current run."""

from __future__ import annotations

from ._log import current
from ._run import CLOSE_TIMEOUT_S, FLUSH_TIMEOUT_S, current_run

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from typing import Any

    from ._metrics import Metrics


def is_initialized() -> bool:
    """Whether a run is open."""
    return current.run is not None


def is_offline() -> bool:
    """Whether the points now wait for a server that does not answer."""
    return current_run().is_offline()


def log_config(config: Mapping[str, Any], kill_timeout: float = 3.0) -> None:
    """Log a nested configuration under `config/`."""
    current_run().log_config(config)


def log_attributes(prefix_path: str, value: Any, kill_timeout: float = 3.0) -> None:
    """Log attributes under a path; None removes one."""
    current_run().log_attributes(prefix_path, value)


def log_env_attributes(
    env_id: str, value: Mapping[str, Any], episode: int | None = None, kill_timeout: float = 3.0
) -> None:
    """Log attributes of an environment, of one of its episodes if given."""
    current_run().log_env_attributes(env_id, value, episode)


def set_tags(tags: Sequence[str], kill_timeout: float = 3.0) -> None:
    """Replace the run's tags."""
    current_run().set_tags(tags)


def add_tags(tags: Sequence[str], kill_timeout: float = 3.0) -> None:
    """Add tags."""
    current_run().add_tags(tags)


def remove_tags(tags: Sequence[str], kill_timeout: float = 3.0) -> None:
    """Remove tags."""
    current_run().remove_tags(tags)


def set_description(description: str | None, kill_timeout: float = 3.0) -> None:
    """Set the run's description; "" clears it."""
    current_run().set_description(description)


def get_last_step(
    metric_name: str,
    scale: str | None = None,
    labels: Mapping[str, str] | None = None,
    kill_timeout: float = 3.0,
) -> int | None:
    """The last step of a series, None when it has no point yet."""
    return current_run().get_last_step(metric_name, scale, labels)


def get_env_last_rl_step_and_episode(
    env_id: str | None = None, kill_timeout: float = 3.0
) -> tuple[int | None, int | None]:
    """The last (rl_step, episode) of an environment."""
    return current_run().get_env_last_rl_step_and_episode(env_id)


def get_metrics(kill_timeout: float = 3.0) -> Metrics:
    """Counters of what was logged, kept, sent and dropped."""
    return current_run().get_metrics()


def flush(timeout: float = FLUSH_TIMEOUT_S, durable: bool = False) -> bool:
    """Wait until the server has everything logged so far; True when it does."""
    return current_run().flush(timeout, durable)


def close(close_timeout: float = CLOSE_TIMEOUT_S) -> None:
    """End the run and wait for its delivery, at most close_timeout seconds."""
    if current.run is not None:
        current.run.close(close_timeout)
