"""One video on its way: its record, its labels and its encoder."""

from __future__ import annotations

from .._exceptions import KymogramValidationError
from .._input import naming, numeric

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from .encoder import Encoder

Stream = tuple[str, str]  # an environment, and the name of one of its videos or ""


class Video:
    """One video on its way: its record and, while frames come, its encoder."""

    def __init__(self, stream: Stream, record: dict[str, Any], base: str, encoder: Encoder) -> None:
        self.record = record
        self.base = base
        self.encoder = encoder
        self.state = "failed"  # until it is done
        self.stream = stream
        self.triggered = False  # a label asked for its upload
        self.last = 0.0  # when its last frame was logged
        self.saved = 0.0  # when its labels were saved last
        self.unsaved = False  # it has more of them
        self._running: dict[str, dict[str, Any]] = {}  # the last mark of each name

    @property
    def key(self) -> tuple[Stream, int]:
        return self.stream, self.record["episode"]

    def tag(self, tag: str) -> None:
        """Tag it, once."""
        tags = self.record.setdefault("tags", [])
        if tag not in tags:
            tags.append(tag)

    def mark(self, value: dict[str, Any]) -> None:
        """Mark frames; the frame of now continues a mark that the one before it has."""
        if value["from_frame"] is not None:
            self.record.setdefault("marks", []).append(value)
            return
        now = max(self.encoder.frames - 1, 0)
        before = self._running.get(value["name"])
        if before is not None and before["to_frame"] >= now - 1:
            before["to_frame"] = now
            return
        value = self._running[value["name"]] = {**value, "from_frame": now, "to_frame": now}
        self.record.setdefault("marks", []).append(value)


def said(stream: tuple[str, str | None]) -> str:
    env, name = stream
    return f"environment {env!r}" + (f", {name!r}" if name else "")


def mark(name: Any, from_frame: Any, to_frame: Any) -> dict[str, Any]:
    """A moment of a video; without frames the last one that was logged."""
    label = naming.tags([name])[0]
    if from_frame is None:
        return {"name": label, "from_frame": None, "to_frame": None}
    first = numeric.step("from_frame", from_frame)
    last = first if to_frame is None else numeric.step("to_frame", to_frame)
    if last < first:
        raise KymogramValidationError(f"to_frame is {last}, before from_frame {first}")
    return {"name": label, "from_frame": first, "to_frame": last}
