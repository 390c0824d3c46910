"""The module's functions: each acts on the current run."""

from __future__ import annotations

from ._points.current import current
from ._run import CLOSE_TIMEOUT_S, FLUSH_TIMEOUT_S, current_run

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from typing import Any

    from ._metrics import CloseInfo, Metrics
    from ._run import Run


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
    """Log attributes under a path, "" for a mapping of paths; None removes one."""
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


def log_rendering(
    frame: Any,
    rl_step: int,
    episode: int,
    env_id: str | None = None,
    kill_timeout: float = 3.0,
    *,
    name: str | None = None,
) -> None:
    """Append a frame to the video of an environment's episode.

    `frame` is uint8, (H, W, 3) in RGB, or (H, W) or (H, W, 1) in grey, with even
    H and W; it is copied. Another episode of the environment ends the video and
    begins the next. Each `name` is a video of its own, such as one for each agent.
    Encoding (H.264, mp4) and upload happen in the background: the call waits for
    neither. When the queue is full, the frame is dropped and counted. Needs
    `pip install 'kymogram[rendering]'`.
    Raises KymogramValidationError, a ValueError, for a frame that breaks a rule.
    """
    current_run().log_rendering(frame, rl_step, episode, env_id, name=name)


def tag_rendering(
    tag_name: str,
    episode: int | None = None,
    env_id: str | None = None,
    kill_timeout: float = 3.0,
    *,
    name: str | None = None,
) -> None:
    """Tag the videos of an episode of an environment, without one of its last.

    `name` is one of several videos. With upload_renderings="triggered" only
    tagged and marked videos are uploaded.
    """
    current_run().tag_rendering(tag_name, episode, env_id, name=name)


def mark_rendering_event(
    condition_name: str,
    episode: int | None = None,
    env_id: str | None = None,
    trigger: bool | None = None,
    kill_timeout: float = 3.0,
    *,
    name: str | None = None,
    from_frame: int | None = None,
    to_frame: int | None = None,
) -> None:
    """Name a moment of an episode's videos: its frames from 0, else the frame logged last.

    Called at each frame while something lasts, it makes one mark from the first
    to the last of them. Without `episode` it is the environment's last; `name`
    is one of several videos. trigger=False does not make the video one to
    upload under upload_renderings="triggered".
    """
    current_run().mark_rendering_event(
        condition_name,
        episode,
        env_id,
        trigger,
        name=name,
        from_frame=from_frame,
        to_frame=to_frame,
    )


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


def check_sender_errors(kill_timeout: float = 3.0) -> list[str]:
    """The errors of the delivery since the last call, oldest first.

    What passes by itself, such as a server that is away, is no error until it
    lasted for max_send_retries tries.
    """
    return current_run().check_sender_errors()


def failover_to_spool(kill_timeout: float = 3.0) -> None:
    """Nothing to do: every point is in the spool before log() returns."""
    current_run()


def flush(
    timeout_secs: float | None = FLUSH_TIMEOUT_S,
    kill_timeout: float = 3.0,
    *,
    durable: bool = False,
) -> bool:
    """Wait until the server has everything logged so far; True when it does.

    `durable` first forces the points to this machine's disk. Without a
    connection it returns False within a second. None is no limit.
    """
    return current_run().flush(timeout_secs, durable=durable)


def close(close_timeout: float | None = CLOSE_TIMEOUT_S) -> CloseInfo | None:
    """End the run and wait for its delivery, at most close_timeout seconds.

    Left out, the limit is init()'s close_timeout (15 s); None is no limit; 0
    returns at once. What is not delivered by then stays in the spool, and the
    agent delivers it. Returns None when no run is open.
    """
    run: Run | None = current.run
    return None if run is None else run.close(close_timeout)


def shutdown_logger(close_timeout: float | None = CLOSE_TIMEOUT_S) -> CloseInfo | None:
    """End this process's part of the run, as close() does.

    A run is running as long as any process has it open, so leaving and closing
    are the same here.
    """
    return close(close_timeout)
