"""How renderings are made and where they go, from init()'s arguments and the environment."""

from __future__ import annotations

import os

from .. import _enums
from .._exceptions import KymogramValidationError
from .._host import environment
from .._input import numeric
from .._say import voice

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

UPLOADS = ("all", "triggered", "off")
_TRUE, _FALSE = ("1", "true", "yes", "on"), ("0", "false", "no", "off", "")


class Options:
    """The rendering arguments of init(), checked."""

    __slots__ = (
        "close_timeout",
        "delete_after_upload",
        "encoders",
        "error_strategy",
        "folder",
        "fps",
        "queue",
        "skip_drain",
        "threads",
        "upload",
        "upload_close_timeout",
        "uploads",
        "warn_threshold",
    )

    def __init__(self, given: dict[str, Any], error_strategy: str, run_name: str) -> None:
        def take(name: str) -> Any:
            return given.get("rendering_" + name)

        strategy = take("error_strategy") or _variable("RENDERING_ERROR_STRATEGY")
        self.error_strategy = _enums.error_strategy(strategy or error_strategy).value
        self.fps = _at_least_one("rendering_fps", take("fps"), 30)
        self.encoders = _at_least_one(
            "rendering_max_concurrent_encoders", take("max_concurrent_encoders"), 16
        )
        queue = take("queue_max_size")
        self.queue = None if queue is None else _at_least_one("rendering_queue_max_size", queue, 1)
        self.threads = _at_least_one(
            "rendering_num_encoder_threads", take("num_encoder_threads"), 2
        )
        skip = given.get("skip_drain_render_on_close")
        self.skip_drain = _flag("skip_drain_render_on_close", skip)
        timeout = take("close_timeout")
        timeout = _variable("RENDERING_CLOSE_TIMEOUT") if timeout is None else timeout
        self.close_timeout = (
            None if timeout is None else _seconds("rendering_close_timeout", timeout)
        )
        self._uploads(take)
        self.upload = given.get("upload_renderings") or "all"
        if self.upload not in UPLOADS:
            known = ", ".join(UPLOADS)
            raise KymogramValidationError(
                f"upload_renderings is {self.upload!r}, not one of {known}"
            )
        folder = take("output_dir")
        self.delete_after_upload = take("delete_after_upload")
        if self.delete_after_upload is None:  # who names a folder wants to find the files there
            self.delete_after_upload = folder is None
        self.folder = _output_folder(folder, self.upload, run_name)

    def _uploads(self, take: Any) -> None:
        uploads = take("upload_concurrency")
        self.uploads = (
            None if uploads is None else _at_least_one("rendering_upload_concurrency", uploads, 1)
        )
        self.warn_threshold = _at_least_one(
            "rendering_upload_warn_threshold", take("upload_warn_threshold"), 100
        )
        timeout = take("upload_close_timeout")
        self.upload_close_timeout = (
            None if timeout is None else _seconds("rendering_upload_close_timeout", timeout)
        )
        storage = take("storage")
        if storage is not None:
            voice.warn(
                f"rendering_storage={storage!r} is not supported: videos are uploaded to the "
                "Kymogram server, which keeps them in its data folder",
                once="rendering_storage",
            )


def _variable(name: str) -> str | None:
    return environment.first(("KYMOGRAM_" + name, "METRANA_" + name))


def _at_least_one(what: str, value: Any, default: int) -> int:
    if value is None:
        return default
    number = numeric.exact_int(what, value)
    if number < 1:
        raise KymogramValidationError(f"{what} is {number}, it must be at least 1")
    return number


def _flag(what: str, value: Any) -> bool:
    if value is None:
        value = _variable(what.upper()) or ""
    if isinstance(value, str):
        if value.lower() not in _TRUE + _FALSE:
            raise KymogramValidationError(f"{what} is {value!r}, it must be true or false")
        return value.lower() in _TRUE
    return bool(value)


def _seconds(what: str, value: Any) -> float:
    try:
        return numeric.seconds(what, float(value))
    except (TypeError, ValueError) as error:
        raise KymogramValidationError(f"{what}: {error}") from None


def _output_folder(given: Any, upload: str, run_name: str) -> str | None:
    """Where the videos stay on this machine; None: only on their way, in the spool."""
    if given is None:
        if upload != "off":
            return None
        state = os.environ.get("XDG_STATE_HOME") or os.path.expanduser("~/.local/state")
        given = os.path.join(state, "kymogram", "renderings")
    try:
        folder = os.path.expanduser(os.fsdecode(given))
    except TypeError:
        raise KymogramValidationError(
            f"rendering_output_dir is a folder, not {type(given).__name__}"
        ) from None
    return os.path.join(os.path.abspath(folder), file_name(run_name))


def file_name(text: str) -> str:
    """A name of a run or environment as one part of a path."""
    name = text.replace("/", "_").replace("\\", "_").replace("\0", "_")
    return "_" + name if name in (".", "..") else name
