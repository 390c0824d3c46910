"""What init() is told, as one object: how a run is kept and delivered."""

from __future__ import annotations

from .._arguments import checks
from .._host import environment
from .._videos.options import Options

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from .._arguments.table import Arguments

ERRORS_KEPT = 1000
_AGENT_AGE_S = 0.2  # the agent's own: short enough for a page that shows points at once
_DEFAULT_AGE_S = 1.0
_LONGEST_INTERVAL_S = 1e6
_RENDERING = (
    "rendering_output_dir rendering_fps rendering_max_concurrent_encoders "
    "rendering_queue_max_size rendering_close_timeout rendering_error_strategy "
    "rendering_num_encoder_threads rendering_delete_after_upload rendering_storage "
    "rendering_upload_concurrency rendering_upload_warn_threshold "
    "rendering_upload_close_timeout skip_drain_render_on_close upload_renderings"
).split()


class Settings:
    """How one run is kept and delivered."""

    __slots__ = (
        "backpressure",
        "cap",
        "close_timeout",
        "console",
        "dtype",
        "enqueue_timeout",
        "error_strategy",
        "errors_kept",
        "init_timeout",
        "key",
        "new_job",
        "new_name",
        "offline",
        "pace",
        "queue_capacity",
        "rendering",
        "retries",
        "spool",
        "system",
    )

    def __init__(self) -> None:
        self.key: str | None = None
        self.init_timeout = 0.0  # how long get_last_step waits; init_mode="offline" asks nobody
        self.error_strategy = "warn"
        self.backpressure = "spool"
        self.queue_capacity = 10_000
        self.enqueue_timeout = 0.1
        self.retries: int | None = None
        self.close_timeout = 15.0
        self.errors_kept = ERRORS_KEPT
        self.dtype: Any = None
        self.spool: str | None = None
        self.cap: int | None = None
        self.offline = False
        self.console = False  # lines of stdout and stderr are kept with the run
        self.new_name = False  # the name of another job's run leads to a new run
        self.new_job = False  # and no other process has this job: its run has no other points
        self.pace: dict[str, Any] = {}
        self.rendering: dict[str, Any] = {}  # as Options of _videos takes them
        self.system: dict[str, int] | None = None  # `system` of open.json

    @property
    def bound(self) -> int | None:
        """Most points that the server has not acked; None where the disk is the bound."""
        return None if self.backpressure.startswith("spool") else self.queue_capacity


def read(arguments: Arguments) -> Settings:
    """The settings that init() was given. The order is that in which wrong ones are reported."""
    take, found = arguments.take, Settings()
    found.error_strategy = take("error_strategy")
    found.backpressure = _backpressure(arguments)
    found.queue_capacity = take("queue_capacity")
    found.enqueue_timeout = take("enqueue_timeout_secs")
    found.close_timeout = take("close_timeout")
    found.errors_kept = errors_kept()
    found.retries = take("max_send_retries")
    found.dtype = take("default_dtype")
    found.spool, found.cap = take("disk")
    found.offline = take("init_mode") == "offline"
    found.pace = _pace(arguments, found)
    found.rendering = {name: arguments[name] for name in _RENDERING}
    uploads = Options(found.rendering, found.error_strategy, "").uploads
    if uploads is not None:
        found.pace["rendering_uploads"] = uploads
    found.system = _system(arguments)
    found.console = take("capture_console")
    return found


def _backpressure(arguments: Arguments) -> str:
    """The strategy; a delivery policy of all_or_crash asks for an error when all is full."""
    crash = arguments.take("delivery_policy") == "all_or_crash"
    chosen = arguments.take("backpressure_strategy")
    return chosen or ("spool_then_raise" if crash else "spool")


def errors_kept() -> int:
    """Most errors that wait for check_sender_errors(); 0 is no limit."""
    text = environment.setting("RENDER_ERROR_QUEUE_MAX_SIZE")
    if text is None:
        return ERRORS_KEPT
    return checks.count("KYMOGRAM_RENDER_ERROR_QUEUE_MAX_SIZE", text, 0)


def _pace(arguments: Arguments, found: Settings) -> dict[str, Any]:
    """How the agent sends: `pace` of docs/format/spool.md."""
    take = arguments.take
    age = take("batch_max_age_secs")
    asked: dict[str, Any] = {
        "max_pending_requests": take("max_pending_requests"),
        "max_msg_size": take("max_msg_size"),
        "retry_first_ms": take("send_retry_initial_backoff_secs"),
        "retry_last_ms": take("send_retry_max_backoff_secs"),
    }
    if not _AGENT_AGE_S <= age <= _DEFAULT_AGE_S:
        asked["batch_max_age_ms"] = checks.in_ms(age)
    compression = take("compression")
    if compression is not None:
        asked["compression"] = compression
    if found.bound is not None and found.retries is not None:
        asked["give_up_after"] = found.retries
    return asked


def _system(arguments: Arguments) -> dict[str, int] | None:
    """The field `system` of open.json: the agent's samples; None when they are switched off."""
    if not arguments.take("capture_system_metrics"):
        return None
    seconds = arguments.take("system_metrics_interval_secs")
    return {"interval_ms": int(min(seconds, _LONGEST_INTERVAL_S) * 1000)}
