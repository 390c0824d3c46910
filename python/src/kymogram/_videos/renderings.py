"""What a run knows of its videos; the renderer is made at the first frame."""

from __future__ import annotations

import threading
import time

from .._rendering import KymogramRenderingError
from .._say import voice
from .options import Options

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from .._spool.writer import Writer
    from .renderer import Renderer

MISSING = (
    "log_rendering() needs PyAV to encode videos, and it is not installed: "
    "pip install 'kymogram[rendering]'"
)


class Renderings:
    """What a run knows of its renderings: made at the first frame, anew in a forked child."""

    def __init__(self, given: dict[str, Any], error_strategy: str, run_name: str) -> None:
        self._given = given, error_strategy, run_name
        self._lock = threading.Lock()
        self._renderer: Renderer | None = None

    def forked(self) -> None:
        """In a forked child: the thread, the queue and the files are the parent's."""
        self._lock = threading.Lock()
        self._renderer = None

    def of(self, writer: Writer) -> Renderer:
        """The renderer of this process."""
        with self._lock:
            if self._renderer is None:
                if not available():
                    raise KymogramRenderingError(MISSING)
                from .renderer import Renderer  # few programs render

                options = Options(*self._given)
                self._renderer = Renderer(options, writer.writer, writer.folder.path)
            return self._renderer

    def counters(self) -> dict[str, int]:
        """What get_metrics() tells of them."""
        return {} if self._renderer is None else self._renderer.counters()

    def end(self, timeout: float) -> float:
        """Encode what waits; how much of the time is left for the points."""
        renderer = self._renderer
        if renderer is None:
            return timeout
        start = time.monotonic()
        left = renderer.close(timeout)
        if left and renderer.options.error_strategy != "silent":
            voice.warn(f"{left}: their videos end before them; give close() more time")
        return max(timeout - (time.monotonic() - start), 0.0)

    def await_upload(self, timeout: float, last: bool, connected: Callable[[], bool]) -> None:
        """Wait for uploads: as long as the server is there, else where the agent ends too (`last`).

        Where it does not, it goes on alone.
        """
        renderer = self._renderer
        if renderer is None:
            return
        asked = renderer.options.upload_close_timeout
        deadline = time.monotonic() + (timeout if asked is None else min(asked, timeout))
        while (left := renderer.counters()["renderings_waiting"]) and time.monotonic() < deadline:
            if asked is None and not last and not connected():
                return
            time.sleep(0.02)
        if left and renderer.options.error_strategy != "silent":
            voice.warn(f"{left:,} videos are not uploaded yet: they wait in the spool")

    def raise_owed(self) -> None:
        """At the end of close(): raise what went wrong, where that is asked for."""
        if self._renderer is not None:
            self._renderer.say_error()


def available() -> bool:
    """Whether PyAV is installed."""
    from importlib.util import find_spec

    return find_spec("av") is not None
