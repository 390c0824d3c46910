"""log_rendering(): frames of an environment become a video an episode, on a thread of its own.

The call checks the frame, copies it and puts it into a queue: it waits for
nothing. Each (environment, episode) is one video, or one of each name that is given. It is
encoded in the writer's spool folder (docs/format/spool.md), from where the agent uploads it,
so a killed process loses at most the last second of it.
"""

from __future__ import annotations

import contextlib
import os
import threading
import time
from collections import OrderedDict, deque

from . import _names, _values
from ._exceptions import KymogramError, KymogramValidationError
from ._rendering_options import Options, file_name
from ._say import voice

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from ._rendering_encoder import Encoder
    from ._writer import Writer

Stream = tuple[str, str]  # an environment, and the name of one of its videos or ""

QUEUE_BYTES = 64 << 20
_IDLE_S = 5.0  # an encoder without a frame for so long makes way for another environment
_TRIES = 3  # encoders that may fail in one episode before the rest of it is dropped
_KEEP_FREE = 256 << 20  # of the disk, beside what the spool's points may need
MISSING = (
    "log_rendering() needs PyAV to encode videos, and it is not installed: "
    "pip install 'kymogram[rendering]'"
)


class KymogramRenderingError(KymogramError):
    """A video could not be encoded."""


def check_frame(frame: Any) -> Any:
    """The frame as a uint8 array of its own, (H, W, 3) or (H, W)."""
    import numpy

    if hasattr(frame, "detach") and hasattr(frame, "cpu"):  # a tensor, on any device
        frame = frame.detach().cpu().numpy()
    found = numpy.asarray(frame)
    what = f"the frame has the shape {found.shape} and the type {found.dtype}"
    if found.dtype != numpy.uint8:
        hint = "; multiply by 255 and convert" if found.dtype.kind == "f" else ""
        raise KymogramValidationError(f"{what}; a frame is of uint8, from 0 to 255{hint}")
    if found.ndim == 3 and found.shape[2] == 1:
        found = found[:, :, 0]
    if found.ndim != 2 and (found.ndim != 3 or found.shape[2] != 3):
        hint = ""
        if found.ndim == 3 and found.shape[2] == 4:
            hint = "; leave the alpha channel out: frame[:, :, :3]"
        elif found.ndim == 3 and found.shape[0] in (1, 3):
            hint = "; move the channels to the end: frame.transpose(1, 2, 0)"
        raise KymogramValidationError(
            f"{what}; a frame is (H, W, 3) in RGB, or (H, W) or (H, W, 1) in grey{hint}"
        )
    height, width = found.shape[:2]
    if height % 2 or width % 2 or not height or not width:
        raise KymogramValidationError(
            f"{what}; width and height must be even and not 0 (H.264 with yuv420p halves them): "
            f"crop it, frame[:{height // 2 * 2}, :{width // 2 * 2}]"
        )
    return numpy.array(found, order="C", copy=True)


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

    def await_upload(self, timeout: float, last: bool = True) -> None:
        """Wait for uploads: until all are done where the agent ends with the job (`last`)."""
        renderer = self._renderer
        if renderer is None:
            return
        asked = renderer.options.upload_close_timeout
        if asked is None and not last:
            return  # the agent goes on
        deadline = time.monotonic() + (timeout if asked is None else min(asked, timeout))
        while (left := renderer.counters()["renderings_waiting"]) and time.monotonic() < deadline:
            time.sleep(0.02)
        if left and renderer.options.error_strategy != "silent":
            voice.warn(f"{left:,} videos are not uploaded yet: they wait in the spool")

    def raise_owed(self) -> None:
        """At the end of close(): raise what went wrong, where that is asked for."""
        if self._renderer is not None:
            self._renderer.say_error()


class _Video:
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


class Renderer:
    """The queue of frames, the thread behind it, and the counters."""

    def __init__(self, options: Options, writer: str, spool: str) -> None:
        self.options = options
        self.added = self.dropped = self.encoded = self.finished = self.failed = 0
        self._writer = writer
        self._spool = os.path.join(spool, "renderings")
        self._lock = threading.Lock()
        self._ready = threading.Condition(self._lock)
        self._queue: deque[tuple[Any, ...]] = deque()
        self._waiting = self._waiting_bytes = 0  # frames and their bytes in the queue
        self._ending = self._abandoned = False
        self._error: str | None = None
        self._episodes: dict[str, int] = {}  # the last one of each environment
        self._sizes: dict[Stream, tuple[int, tuple[int, ...]]] = {}  # episode and shape
        self._open: OrderedDict[Stream, _Video] = OrderedDict()  # least recent first
        self._kept: dict[Stream, _Video] = {}  # the last finished video of each
        self._lost: dict[tuple[Stream, int], int] = {}  # frames dropped, by video
        self._parts: dict[tuple[Stream, int], int] = {}
        self._failures: dict[Stream, tuple[int, int]] = {}  # the episode and how often
        self._unsettled: list[_Video] = []  # ended, and their records not written yet
        self._number = 0
        self._warned = False
        self._thread = threading.Thread(target=self._work, name="kymogram-render", daemon=True)
        self._thread.start()

    # the caller's side

    def log(self, frame: Any, rl_step: Any, episode: Any, env_id: Any, name: Any = None) -> None:
        """Check a frame and hand it over."""
        self._raise_if_asked("raise_on_log")
        step, number = _values.step("rl_step", rl_step), _values.step("episode", episode)
        env = _names.environment(env_id)
        stream = env, _names.rendering(name)
        picture = check_frame(frame)
        known = self._sizes.get(stream)
        if known is not None and known[0] == number and known[1] != picture.shape:
            raise KymogramValidationError(
                f"the frame has the shape {picture.shape}, the first one of {_said(stream)}, "
                f"episode {number}, had {known[1]}: a video has one size"
            )
        self._sizes[stream] = (number, picture.shape)
        self._episodes[env] = number
        limit = self.options.queue
        with self._ready:
            self.added += 1
            if self._waiting >= limit if limit else self._waiting_bytes >= QUEUE_BYTES:
                self._drop((stream, number), 1)
                self._warn_full()
                return
            self._waiting += 1
            self._waiting_bytes += picture.nbytes
            self._queue.append(("frame", stream, number, step, time.time_ns(), picture))
            self._ready.notify()

    def label(
        self, env_id: Any, episode: Any, name: Any, value: str | dict[str, Any], triggers: bool
    ) -> None:
        """Tag videos (a str) or mark a moment of them: behind the frames logged so far."""
        self._raise_if_asked("raise_on_log")
        env = _names.environment(env_id)
        only = None if name is None else _names.rendering(name)
        if episode is not None:
            number = _values.step("episode", episode)
        elif env in self._episodes:
            number = self._episodes[env]
        else:
            raise KymogramValidationError(f"environment {env!r} has no rendering yet")
        with self._ready:
            self._queue.append(("label", (env, only), number, value, triggers))
            self._ready.notify()

    def _warn_full(self) -> None:
        voice.warn(
            "frames come faster than they are encoded: some are dropped and counted; "
            "log fewer frames, or smaller ones, or raise rendering_queue_max_size",
            once="rendering queue",
        )

    def _drop(self, key: tuple[Stream, int], frames: int) -> None:
        self.dropped += frames
        self._lost[key] = self._lost.get(key, 0) + frames

    def _raise_if_asked(self, when: str) -> None:
        if self._error is not None and self.options.error_strategy == when:
            error, self._error = self._error, None
            raise KymogramRenderingError(error)

    def close(self, timeout: float) -> str | None:
        """Encode what waits, end every video; what did not work out in time, in words."""
        if self.options.close_timeout is not None:
            timeout = min(timeout, self.options.close_timeout)
        with self._ready:
            if self.options.skip_drain or timeout <= 0:
                self._skip_queue()
            self._ending = True
            self._ready.notify()
        self._thread.join(timeout if timeout > 0 else 0.1)
        left = None
        if self._thread.is_alive():
            self._abandoned = True
            with self._lock:
                left = f"{self._skip_queue():,} frames were not encoded in time"
        return left

    def say_error(self) -> None:
        """At the end of close(): raise what went wrong, where that is asked for."""
        self._raise_if_asked("raise_on_close")

    def counters(self) -> dict[str, int]:
        """What get_metrics() tells."""
        with self._lock:
            return {
                "rendering_frames_added": self.added,
                "rendering_frames_encoded": self.encoded,
                "rendering_frames_dropped": self.dropped,
                "rendering_frames_waiting": self._waiting,
                "renderings_finished": self.finished,
                "renderings_failed": self.failed,
                "renderings_waiting": self._on_disk(),
            }

    def _on_disk(self) -> int:
        """Finished videos that the agent has not uploaded yet."""
        try:
            return sum(name.endswith(".mp4") for name in os.listdir(self._spool))
        except OSError:
            return 0

    def _skip_queue(self) -> int:
        """Drop the frames in the queue; labels stay."""
        frames = [one for one in self._queue if one[0] == "frame"]
        for one in frames:
            self._drop((one[1], one[2]), 1)
        self._queue = deque(one for one in self._queue if one[0] != "frame")
        self._waiting = self._waiting_bytes = 0
        return len(frames)

    # the thread's side

    def _work(self) -> None:
        while not self._abandoned:
            with self._ready:
                while not self._queue and not self._ending:
                    self._ready.wait()
                one = self._queue.popleft() if self._queue else None
                if one is not None and one[0] == "frame":
                    self._waiting -= 1
                    self._waiting_bytes -= one[5].nbytes
            if one is None:
                break
            self._guard(one)
            self._settle()
        for stream in list(self._open):
            self._guard(("end", stream))
        for stream in list(self._kept):
            self._guard(("forget", stream))
        self._settle()

    def _guard(self, one: tuple[Any, ...]) -> None:
        """Do one thing; an error ends its video, never the thread or the training run."""
        try:
            if one[0] == "frame":
                self._frame(*one[1:])
            elif one[0] == "label":
                self._label(*one[1:])
            elif one[0] == "end":
                self._finish(self._open.pop(one[1]))
            else:
                self._forget(self._kept.pop(one[1]))
        except Exception as error:
            self._trouble(f"a rendering of {_said(one[1])} failed: {error!r}")

    def _fail(self, video: _Video, error: Exception) -> None:
        """A video's encoder failed: what is whole of it goes on its way."""
        video.encoder.abandon()
        self.failed += 1
        stream, episode = video.key
        times = self._failed_in(stream, episode) + 1
        self._failures[stream] = (episode, times)
        with self._lock:
            lost = self._lost.pop(video.key, 0)
        video.record.update(frames=video.encoder.frames, frames_dropped=lost, complete=False)
        self._unsettled.append(video)
        rest = "; the rest of the episode is dropped and counted" if times >= _TRIES else ""
        self._trouble(
            f"the rendering of {_said(stream)}, episode {episode}, failed after "
            f"{video.encoder.frames:,} frames: {error!r}{rest}"
        )

    def _failed_in(self, stream: Stream, episode: int) -> int:
        known = self._failures.get(stream)
        return known[1] if known is not None and known[0] == episode else 0

    def _settle(self) -> None:
        """Hand over the videos that ended; where the disk is full, again later."""
        while self._unsettled:
            try:
                self._hand_over(self._unsettled[0])
            except OSError:
                return  # after a kill the deliverer does it
            self._unsettled.pop(0)

    def _hand_over(self, video: _Video) -> None:
        """Write a video's record; the deliverer saves what is whole of a failed one."""
        part = video.base + ".part"
        upload = self.options.upload == "all"
        if upload or (self.options.upload == "triggered" and video.triggered):
            self._save(video.base, video.record, video.state)
            if video.state == "failed":
                return
        if video.state == "failed" and self.options.upload == "off" and video.encoder.frames:
            os.replace(part, video.base + ".mp4")
        else:
            with contextlib.suppress(FileNotFoundError):
                os.unlink(part)

    def _trouble(self, text: str) -> None:
        if self.options.error_strategy != "silent":
            voice.warn(text, once=text)
        if self._error is None:
            self._error = text

    def _frame(
        self, stream: Stream, episode: int, rl_step: int, time_ns: int, picture: Any
    ) -> None:
        video = self._open.get(stream)
        if video is not None and video.record["episode"] != episode:
            self._finish(self._open.pop(stream))
            video = None
        try:
            if video is None:
                for old in self._older(self._open, stream[0], episode):
                    self._finish(self._open.pop(old))
                video = self._begin(stream, episode, rl_step, time_ns, picture)
            if video is not None:
                video.encoder.add(picture)
        except Exception as error:
            if video is None:
                self._failures[stream] = (episode, _TRIES)
                self.failed += 1
                self._trouble(
                    f"the rendering of {_said(stream)}, episode {episode}, cannot begin: "
                    f"{error!r}; its frames are dropped and counted"
                )
            else:
                self._fail(self._open.pop(stream), error)
                video = None
        if video is None:
            with self._lock:
                self._drop((stream, episode), 1)
            return
        self._open.move_to_end(stream)
        video.record["last_rl_step"] = rl_step
        video.last = time_ns / 1e9
        self.encoded += 1
        if video.unsaved:
            self._save_labels(video)

    def _older(self, videos: dict[Stream, _Video], env: str, episode: int) -> list[Stream]:
        """An environment's videos of earlier episodes."""
        return [v.stream for v in videos.values() if v.stream[0] == env and v.key[1] < episode]

    def _begin(
        self, stream: Stream, episode: int, rl_step: int, time_ns: int, picture: Any
    ) -> _Video | None:
        """Open a video; None when all encoders are busy, the disk is full or too many failed."""
        from ._rendering_encoder import Encoder

        if self._failed_in(stream, episode) >= _TRIES:
            return None
        if len(self._open) >= self.options.encoders and not self._make_way(time_ns / 1e9):
            voice.warn(
                f"{len(self._open)} environments render at once, all that "
                "rendering_max_concurrent_encoders allows: others' frames are dropped and counted",
                once="rendering encoders",
            )
            return None
        if not self._room():
            voice.warn(
                "the disk is nearly full: frames are dropped and counted", once="render disk"
            )
            return None
        height, width = picture.shape[:2]
        part = self._parts[stream, episode] = self._parts.get((stream, episode), 0) + 1
        names = [name for name in (stream[1], f"part {part}" if part > 1 else "") if name]
        record = {
            "id": f"{self._writer}-{self._number}",
            "env_id": stream[0],
            "episode": episode,
            "name": ", ".join(names),
            "content_type": "video/mp4",
            "fps": self.options.fps,
            "width": width,
            "height": height,
            "first_rl_step": rl_step,
            "last_rl_step": rl_step,
            "time_ns": time_ns,
        }
        base = self._base(stream, episode)
        encoder = Encoder(base + ".part", self.options.fps, width, height, self.options.threads)
        try:
            if self.options.upload == "all":
                self._save(base, record, "encoding")
        except BaseException:
            encoder.abandon()
            os.unlink(base + ".part")
            raise
        video = self._open[stream] = _Video(stream, record, base, encoder)
        return video

    def _make_way(self, now: float) -> bool:
        """End the video that had no frame for longest, if that is long ago."""
        stream, oldest = next(iter(self._open.items()))
        if now - oldest.last < _IDLE_S:
            return False
        self._finish(self._open.pop(stream))
        return True

    def _room(self) -> bool:
        os.makedirs(self._spool, 0o700, exist_ok=True)
        info = os.statvfs(self._spool)
        return info.f_bavail * info.f_frsize > _KEEP_FREE

    def _base(self, stream: Stream, episode: int) -> str:
        """The path of a new video without its ending."""
        self._number += 1
        if self.options.upload == "off" and self.options.folder is not None:
            return self._local(stream, episode)
        return os.path.join(self._spool, str(self._number))

    def _local(self, stream: Stream, episode: int) -> str:
        """A path in the folder that keeps the videos; none that is there is overwritten."""
        assert self.options.folder is not None
        os.makedirs(self.options.folder, exist_ok=True)
        parts = [stream[0], str(episode), stream[1]]
        base = os.path.join(self.options.folder, "_".join(file_name(p) for p in parts if p))
        found, turn = base, 1
        while os.path.exists(found + ".mp4"):
            turn += 1
            found = f"{base}-{turn}"
        return found

    def _save(self, base: str, record: dict[str, Any], state: str) -> None:
        import json

        with open(base + ".json.tmp", "w", encoding="utf-8") as file:
            json.dump({**record, "state": state}, file)
        os.replace(base + ".json.tmp", base + ".json")

    def _finish(self, video: _Video) -> None:
        """End a video and hand it over."""
        from ._rendering_encoder import digest

        try:
            video.encoder.finish(video.base + ".mp4")
            if self._abandoned:
                return  # the deliverer has the part by now
            sha256, size = digest(video.base + ".mp4")
        except Exception as error:
            self._fail(video, error)
            return
        with self._lock:
            lost = self._lost.pop(video.key, 0)
        video.record.update(
            sha256=sha256, size_bytes=size, frames=video.encoder.frames, complete=True
        )
        if lost:
            video.record["frames_dropped"] = lost
        video.state = "done"
        try:
            self._keep_local(video)
        except OSError as error:
            self._trouble(f"a rendering cannot be kept in {self.options.folder}: {error}")
        self._unsettled.append(video)
        self._settle()
        self.finished += 1
        self._warn_waiting()
        env, episode = video.stream[0], video.record["episode"]
        for old in {video.stream, *self._older(self._kept, env, episode)} & self._kept.keys():
            self._forget(self._kept.pop(old))
        self._kept[video.stream] = video

    def _warn_waiting(self) -> None:
        """Say once that many videos wait, and again when they had become few."""
        waiting = self._on_disk()
        many = self.options.upload != "off" and waiting > self.options.warn_threshold
        if many and not self._warned and self.options.error_strategy != "silent":
            voice.warn(
                f"{waiting:,} videos wait to be uploaded, more than "
                f"{self.options.warn_threshold:,} (rendering_upload_warn_threshold)"
            )
        self._warned = many

    def _keep_local(self, video: _Video) -> None:
        """A copy in the folder that the user named."""
        if self.options.upload == "off" or self.options.folder is None:
            return
        if self.options.delete_after_upload:
            return
        import shutil

        target = self._local(*video.key) + ".mp4"
        try:
            os.link(video.base + ".mp4", target)
        except OSError:  # another file system
            shutil.copyfile(video.base + ".mp4", target)

    def _forget(self, video: _Video) -> None:
        """A video that nobody tagged goes, where only tagged ones are uploaded."""
        if self.options.upload == "triggered" and not os.path.exists(video.base + ".json"):
            try:
                os.unlink(video.base + ".mp4")
            except FileNotFoundError:
                pass  # tagged, and uploaded by now

    def _label(
        self,
        which: tuple[str, str | None],
        episode: int,
        value: str | dict[str, Any],
        triggers: bool,
    ) -> None:
        env, name = which
        found = {
            video.stream: video  # an open one before an earlier part of it
            for video in (*self._kept.values(), *self._open.values())
            if video.key == ((env, video.stream[1] if name is None else name), episode)
        }
        if not found:
            raise KymogramError(f"{_said(which)} has no video of episode {episode} any more")
        for video in found.values():
            video.tag(value) if isinstance(value, str) else video.mark(value)
            video.triggered = video.triggered or triggers
        for video in found.values():  # a disk that is full costs no other one its label
            if self._open.get(video.stream) is video:
                video.unsaved = True
                self._save_labels(video)
            else:
                self._save_again(video)

    def _save_labels(self, video: _Video) -> None:
        """Save what labels a video has so far, for the case of a kill; many marks less often."""
        pause = len(video.record.get("marks", ())) / 1000
        if self.options.upload == "all" and time.monotonic() - video.saved >= pause:
            self._save(video.base, video.record, "encoding")
            video.saved, video.unsaved = time.monotonic(), False

    def _save_again(self, video: _Video) -> None:
        """Save the record of a video that ended and has more labels now."""
        if self.options.upload == "off" or not (self.options.upload == "all" or video.triggered):
            return
        if self.options.upload == "triggered" and os.path.exists(video.base + ".mp4"):
            self._save(video.base, video.record, "done")
        else:  # the bytes are on their way or there: the record again, under the same id
            self._number += 1
            self._save(os.path.join(self._spool, str(self._number)), video.record, "done")


def _said(stream: tuple[str, str | None]) -> str:
    env, name = stream
    return f"environment {env!r}" + (f", {name!r}" if name else "")


def mark(name: Any, from_frame: Any, to_frame: Any) -> dict[str, Any]:
    """A moment of a video; without frames the last one that was logged."""
    label = _names.tags([name])[0]
    if from_frame is None:
        return {"name": label, "from_frame": None, "to_frame": None}
    first = _values.step("from_frame", from_frame)
    last = first if to_frame is None else _values.step("to_frame", to_frame)
    if last < first:
        raise KymogramValidationError(f"to_frame is {last}, before from_frame {first}")
    return {"name": label, "from_frame": first, "to_frame": last}


def available() -> bool:
    """Whether PyAV is installed."""
    from importlib.util import find_spec

    return find_spec("av") is not None
