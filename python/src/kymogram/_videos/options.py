"""How renderings are made and where they go, from init()'s arguments and the environment."""

from __future__ import annotations

import os

from .._arguments.table import Arguments
from .._exceptions import KymogramValidationError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any


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
        arguments = Arguments(given)
        take = arguments.take
        self.error_strategy = take("rendering_error_strategy") or error_strategy
        self.fps = take("rendering_fps")
        self.encoders = take("rendering_max_concurrent_encoders")
        self.queue = take("rendering_queue_max_size")
        self.threads = take("rendering_num_encoder_threads")
        self.skip_drain = take("skip_drain_render_on_close")
        self.close_timeout = take("rendering_close_timeout")
        self.uploads = take("rendering_upload_concurrency")
        self.warn_threshold = take("rendering_upload_warn_threshold")
        self.upload_close_timeout = take("rendering_upload_close_timeout")
        take("rendering_storage")
        self.upload = take("upload_renderings")
        folder = arguments["rendering_output_dir"]
        self.delete_after_upload = arguments["rendering_delete_after_upload"]
        if self.delete_after_upload is None:  # who names a folder wants to find the files there
            self.delete_after_upload = folder is None
        self.folder = _output_folder(folder, self.upload, run_name)


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
