"""What init() is told: arguments first, then KYMOGRAM_X, then METRANA_X, then defaults."""

from __future__ import annotations

from .. import _enums
from .._exceptions import KymogramValidationError
from .._host import environment
from .._input import numeric
from .._spool import folders

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

QUEUE_CAPACITY = 10_000
ERRORS_KEPT = 1000
_AGENT_AGE_S = 0.2  # the agent's own: short enough for a page that shows points at once
_DEFAULT_AGE_S = 1.0
_TRUE = ("1", "true", "yes", "on")
_FALSE = ("0", "false", "no", "off")


class Settings:
    """How one run is kept and delivered."""

    __slots__ = (
        "backpressure",
        "cap",
        "close_timeout",
        "dtype",
        "enqueue_timeout",
        "error_strategy",
        "errors_kept",
        "key",
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
        self.error_strategy = "warn"
        self.backpressure = "spool"
        self.queue_capacity = QUEUE_CAPACITY
        self.enqueue_timeout = 0.1
        self.retries: int | None = None
        self.close_timeout = 15.0
        self.errors_kept = ERRORS_KEPT
        self.dtype: Any = None
        self.spool: str | None = None
        self.cap: int | None = None
        self.offline = False
        self.pace: dict[str, Any] = {}
        self.rendering: dict[str, Any] = {}  # as _rendering_options takes them
        self.system: dict[str, int] | None = None  # `system` of open.json

    @property
    def bound(self) -> int | None:
        """Most points that the server has not acked; None where the disk is the bound."""
        return None if self.backpressure.startswith("spool") else self.queue_capacity


def flag(name: str, default: bool) -> bool:
    """A yes or no of the environment."""
    text = environment.setting(name)
    if text is None:
        return default
    if text.lower() in _TRUE or text.lower() in _FALSE:
        return text.lower() in _TRUE
    raise KymogramValidationError(f"KYMOGRAM_{name} is true or false, got {text!r}")


def seconds(what: str, value: Any) -> float:
    """A time limit in seconds."""
    return numeric.seconds(what, value)


def count(what: str, value: Any, least: int = 1) -> int:
    """A whole number that is not below the least."""
    try:
        number = int(str(value)) if isinstance(value, str) else numeric.exact_int(what, value)
    except ValueError:
        number = least - 1
    if number < least:
        raise KymogramValidationError(f"{what} is a whole number from {least} on, got {value!r}")
    return number


def queue_capacity(given: Any) -> int:
    """Most un-acked points; Metrana takes 0, where one finds room all the same."""
    text = environment.setting("EVENT_QUEUE_MAX_SIZE") if given is None else given
    return QUEUE_CAPACITY if text is None else max(count("queue_capacity", text, 0), 1)


def error_queue_size() -> int:
    """Most errors that wait for check_sender_errors(); 0 is no limit."""
    text = environment.setting("RENDER_ERROR_QUEUE_MAX_SIZE")
    return ERRORS_KEPT if text is None else count("KYMOGRAM_RENDER_ERROR_QUEUE_MAX_SIZE", text, 0)


def backpressure(given: object, policy: object) -> str:
    """The strategy; a delivery policy of all_or_crash asks for an error when all is full."""
    chosen = given or environment.setting("BACKPRESSURE_STRATEGY")
    policy = policy or environment.setting("DELIVERY_POLICY")
    crash = policy is not None and _enums.delivery_policy(policy).value == "all_or_crash"
    if not chosen:
        return "spool_then_raise" if crash else "spool"
    return str(_enums.backpressure_strategy(chosen).value)


def pace(
    found: Settings,
    *,
    max_pending_requests: Any,
    batch_max_age_secs: Any,
    max_msg_size: Any,
    compression: object,
    first_backoff: Any,
    last_backoff: Any,
) -> dict[str, Any]:
    """How the agent sends: `pace` of docs/format/spool.md."""
    age = seconds("batch_max_age_secs", batch_max_age_secs)
    asked: dict[str, Any] = {
        "max_pending_requests": count("max_pending_requests", max_pending_requests),
        "max_msg_size": count("max_msg_size", max_msg_size),
        "retry_first_ms": _ms(seconds("send_retry_initial_backoff_secs", first_backoff)),
        "retry_last_ms": _ms(seconds("send_retry_max_backoff_secs", last_backoff)),
    }
    if not _AGENT_AGE_S <= age <= _DEFAULT_AGE_S:
        asked["batch_max_age_ms"] = _ms(age)
    if compression is not None:
        asked["compression"] = _enums.compression(compression).value
    if found.bound is not None and found.retries is not None:
        asked["give_up_after"] = found.retries
    return asked


def _ms(value: float) -> int:
    return max(1, round(min(value, 86_400.0) * 1000))


def disk(given: Any) -> tuple[str | None, int | None]:
    """The spool's folder and its cap in bytes: a path, or an object with `dir` and `max_bytes`."""
    if given is None:
        return None, None
    if isinstance(given, (str, bytes)) or hasattr(given, "__fspath__"):
        import os

        return folders.full(os.path.expanduser(os.fsdecode(given))), None
    folder, most = getattr(given, "dir", None), getattr(given, "max_bytes", None)
    if folder is None and most is None:
        raise KymogramValidationError(
            f"disk is a folder or a DiskConfig(dir, max_bytes), not {type(given).__name__}"
        )
    return disk(folder)[0], None if most is None else count("disk.max_bytes", most, 1 << 20)
