"""One video: frames to a fragmented mp4 that survives a kill, then to one that seeks.

While frames come the file consists of fragments of a second each, so that what
a killed process left can be played. At the end the same packets are written
again with their index in front (faststart): a browser then seeks by range.
"""

from __future__ import annotations

import contextlib
import hashlib
import os

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

_FRAGMENT_US = "1000000"


class _Owned:
    """A file that only the process that opened it writes: a forked child's copy stays mute."""

    def __init__(self, path: str) -> None:
        self._file = open(path, "wb", buffering=0)  # noqa: SIM115 - closed by the encoder
        self._owner = os.getpid()

    def write(self, data: bytes) -> int:
        if os.getpid() != self._owner:
            return len(data)
        return self._file.write(data) or 0

    def close(self) -> None:
        if os.getpid() == self._owner:
            self._file.close()


class Encoder:
    """Encodes one video into `part`; finish() makes it `video`."""

    def __init__(self, part: str, fps: int, width: int, height: int, threads: int) -> None:
        import av

        self.part = part
        self.frames = 0
        self._fps = fps
        self._file = _Owned(part)
        options = {"movflags": "empty_moov+default_base_moof", "frag_duration": _FRAGMENT_US}
        self._container: Any = None
        try:
            self._container = av.open(self._file, "w", format="mp4", options=options)
            # zerolatency: no frame waits in the encoder, so a kill takes at most a fragment.
            self._stream: Any = self._container.add_stream(
                "libx264", rate=fps, options={"preset": "veryfast", "tune": "zerolatency"}
            )
            self._stream.width, self._stream.height = width, height
            self._stream.pix_fmt = "yuv420p"
            self._stream.codec_context.gop_size = 2 * fps
            self._stream.codec_context.thread_count = threads
        except BaseException:
            self.abandon()
            self._file.close()
            with contextlib.suppress(OSError):
                os.unlink(part)
            raise

    def add(self, frame: Any) -> None:
        """Encode a frame: uint8, (H, W, 3) or (H, W)."""
        import av

        kind = "gray" if frame.ndim == 2 else "rgb24"
        picture = av.VideoFrame.from_ndarray(frame, format=kind).reformat(format="yuv420p")
        picture.pts = self.frames
        self._mux(picture)
        self.frames += 1

    def _mux(self, picture: Any) -> None:
        for packet in self._stream.encode(picture):
            self._container.mux(packet)

    def finish(self, video: str) -> None:
        """End the video; `video` is there as a whole or not at all."""
        self._mux(None)
        self._close()
        temporary = video + ".tmp"
        try:
            _seekable(self.part, temporary)
            descriptor = os.open(temporary, os.O_RDONLY)
            try:
                os.fsync(descriptor)
            finally:
                os.close(descriptor)
            os.replace(temporary, video)
        except BaseException:
            with contextlib.suppress(OSError):
                os.unlink(temporary)
            raise

    def _close(self) -> None:
        container, self._container = self._container, None
        if container is not None:
            try:
                container.close()
            finally:
                self._file.close()

    def abandon(self) -> None:
        """Close the file as it is, whatever the encoder says."""
        try:
            self._close()
        except Exception:
            pass  # it failed before, or its disk is full


def _seekable(source: str, target: str) -> None:
    """Copy a video's packets into a file with its index in front."""
    import av

    with (
        av.open(source, "r") as before,
        av.open(target, "w", format="mp4", options={"movflags": "faststart"}) as after,
    ):
        stream = after.add_stream_from_template(before.streams.video[0])
        for packet in before.demux(video=0):
            if packet.dts is not None:
                packet.stream = stream
                after.mux(packet)


def digest(path: str) -> tuple[str, int]:
    """The SHA-256 and the size of a file."""
    found = hashlib.sha256()
    size = 0
    with open(path, "rb") as file:
        while block := file.read(1 << 20):
            found.update(block)
            size += len(block)
    return found.hexdigest(), size
