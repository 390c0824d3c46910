"""What the encoder is asked for: testdata/client/encoder.json, as the Go package asks it.

The two packages encode on their own (docs/design/0013-every-line-knows-its-room.md), so that
this file and internal/video/encoder_test.go hold them to the same videos.
"""

from __future__ import annotations

import json
from typing import Any

import pytest

from .conftest import REPOSITORY

numpy = pytest.importorskip("numpy", reason="frames are NumPy arrays")
av = pytest.importorskip("av", reason="PyAV, `pip install 'kymogram[rendering]'`, is not installed")

import kymogram  # noqa: E402


class Recorder:
    """Notes what PyAV is asked to write."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.asked: list[dict[str, str]] = []
        self._open = av.open
        monkeypatch.setattr(av, "open", self.open)

    def open(self, file: Any, mode: str = "r", **options: Any) -> Any:
        container = self._open(file, mode, **options)
        if mode != "w":
            return container
        self.asked.append({"format": options["format"], **options["options"]})
        return Container(container, self.asked[-1])


class Container:
    """A container that notes its stream: what was set on it stands when it is closed."""

    def __init__(self, container: Any, asked: dict[str, str]) -> None:
        self._container, self._asked = container, asked
        self._stream: Any = None

    def add_stream(self, codec: str, rate: int, options: dict[str, str]) -> Any:
        self._asked.update(options, codec=codec, rate=str(rate))
        self._stream = self._container.add_stream(codec, rate=rate, options=options)
        return self._stream

    def add_stream_from_template(self, template: Any) -> Any:
        self._asked["codec"] = "copy"
        return self._container.add_stream_from_template(template)

    def mux(self, packet: Any) -> None:
        self._container.mux(packet)

    def close(self) -> None:
        if self._stream is not None:
            codec = self._stream.codec_context
            self._asked.update(
                pix_fmt=codec.pix_fmt,
                gop=str(codec.gop_size),
                threads=str(codec.thread_count),
                size=f"{codec.width}x{codec.height}",
            )
        self._container.close()

    def __enter__(self) -> Container:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def test_the_encoder_is_asked_for_what_go_asks_it(monkeypatch: pytest.MonkeyPatch) -> None:
    golden = json.loads((REPOSITORY / "testdata" / "client" / "encoder.json").read_text())
    recorder = Recorder(monkeypatch)
    run = kymogram.init(
        log_level="OFF",
        rendering_fps=golden["fps"],
        rendering_num_encoder_threads=golden["threads"],
    )
    for step in range(3):
        frame = numpy.full((golden["height"], golden["width"], 3), step, numpy.uint8)
        run.log_rendering(frame, step, 0)
    run.close(5)
    assert recorder.asked == [golden["encode"], golden["seek"]]
