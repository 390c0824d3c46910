"""init(); what it does is in _opening/opening.py, what it takes in _arguments/table.py."""

from __future__ import annotations

import sys

from ._opening.opening import open_run
from ._run import Run

TYPE_CHECKING = False
if TYPE_CHECKING:
    import os
    from collections.abc import Mapping, Sequence
    from typing import Any, NoReturn


def init(
    # Made from _arguments/table.py by python/arguments.py.
    resume_strategy: str | None = None,
    orchestration_id: str | None = None,
    backpressure_strategy: str | None = None,
    compression: str | None = None,
    error_strategy: str | None = None,
    log_level: str | None = None,
    autoconfigure_loguru: bool = True,
    create_project_if_missing: bool = True,
    api_key: str | None = None,
    logger_id: int | None = None,
    fork_from_run: str | None = None,
    fork_at_step: int | None = None,
    tags: Sequence[str] | None = None,
    description: str | None = None,
    config: Mapping[str, Any] | None = None,
    queue_capacity: int | None = None,
    enqueue_timeout_secs: float = 0.1,
    init_timeout_secs: float = 120.0,
    connect_timeout_secs: float = 5.0,
    max_pending_requests: int = 30,
    max_send_retries: int | None = 60,
    send_retry_initial_backoff_secs: float = 0.05,
    send_retry_max_backoff_secs: float = 15.0,
    batch_max_age_secs: float = 1.0,
    max_msg_size: int = 1048576,
    rendering_output_dir: str | os.PathLike[str] | None = None,
    rendering_fps: int = 30,
    rendering_max_concurrent_encoders: int = 16,
    rendering_queue_max_size: int | None = None,
    skip_drain_render_on_close: bool | None = None,
    rendering_close_timeout: float | None = None,
    *,
    workspace_name: str = "default",
    project_name: str = "default",
    run_name: str | None = None,
    experiment_name: str | None = None,
    display_name: str | None = None,
    organization: str | None = None,
    server: str | None = None,
    ingestion_url: str | None = None,
    resume_from_step: int | None = None,
    close_timeout: float = 15.0,
    capture_environment: bool | None = None,
    init_mode: str | None = None,
    delivery_policy: str | None = None,
    default_dtype: Any = None,
    disk: Any = None,
    rendering_error_strategy: str | None = None,
    rendering_num_encoder_threads: int | None = None,
    rendering_delete_after_upload: bool | None = None,
    upload_renderings: str | None = None,
    capture_system_metrics: bool | None = None,
    system_metrics_interval_secs: float | None = None,
    capture_console: bool | None = None,
    artifact_api_url: str | None = None,
    query_api_url: str | None = None,
    rendering_storage: str | None = None,
    rendering_upload_concurrency: int | None = None,
    rendering_upload_warn_threshold: int | None = None,
    rendering_upload_close_timeout: float | None = None,
    disk_spool_retry_timeout_secs: float | None = None,
    ack_stall_timeout_secs: float | None = None,
    close_spool_reserve_secs: float | None = None,
    # Made until here.
    **unknown: NoReturn,
) -> Run:
    """Open a run and make it the current one. Waits for the server at most 0.8 s.

    Without a server the run begins offline: the points go to the spool, and
    the agent delivers them later. Every process of a job that names the same
    run writes into it. docs/python-reference.md explains every argument; in short:

    Where: `server` (also `ingestion_url`, KYMOGRAM_SERVER) is
    http://127.0.0.1:7070 by default; the key is `api_key`, KYMOGRAM_API_KEY, or
    the one of the server in credentials.json. `organization` goes before the
    workspace. Without `run_name` a readable one is made up. `init_mode="offline"`
    does not ask the server at all.

    Which run: `resume_strategy` "never" joins a run of the same
    `orchestration_id` only, "allow" any. `resume_from_step=S` hides what earlier
    attempts logged at S and later. `fork_from_run` and `fork_at_step` name the
    run that this one continues. Processes with one `logger_id` are one writer.

    Run metadata: `config`, `tags`, `description`, the commit,
    the machine (`capture_environment`).

    `capture_console=True` keeps the lines of stdout and stderr with the run.

    Queue: under the default `backpressure_strategy="spool"` the disk is the
    queue (`disk`: its folder, or DiskConfig with a cap). Under "drop_new",
    "block" and "raise", `queue_capacity` bounds the points that the server has
    not acked; while it is full, a call waits `enqueue_timeout_secs` ("block": no limit).

    Sending: the agent keeps at most `max_pending_requests` batches in flight,
    none above `max_msg_size` bytes or older than `batch_max_age_secs`, packed by
    `compression` ("none", "zstd"). A failed try is repeated after a wait that
    doubles from `send_retry_initial_backoff_secs` to
    `send_retry_max_backoff_secs`. After `max_send_retries` the error is told as
    `error_strategy` says; under "drop_new", "block" and "raise" the batch is
    dropped and counted then, None tries for ever.

    Accepted and without effect, as there is nothing left for them to decide:
    `autoconfigure_loguru`, `create_project_if_missing`, `connect_timeout_secs`,
    the addresses and times of Metrana's other services.
    """
    return open_run(locals(), Run)


if sys.platform == "win32":
    raise ImportError("kymogram's Python client needs a POSIX system (Linux, macOS, WSL)")
