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

from .._exceptions import KymogramError, KymogramValidationError
from .._input import naming, numeric
from .._rendering import KymogramRenderingError
from .._say import voice
from .frame import check_frame
from .options import Options, file_name
from .video import Stream, Video, said

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

QUEUE_BYTES = 64 << 20
_IDLE_S = 5.0  # an encoder without a frame for so long makes way for another environment
_TRIES = 3  # encoders that may fail in one episode before the rest of it is dropped
_KEEP_FREE = 256 << 20  # of the disk, beside what the spool's points may need


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
        self._open: OrderedDict[Stream, Video] = OrderedDict()  # least recent first
        self._kept: dict[Stream, Video] = {}  # the last finished video of each
        self._lost: dict[tuple[Stream, int], int] = {}  # frames dropped, by video
        self._parts: dict[tuple[Stream, int], int] = {}
        self._failures: dict[Stream, tuple[int, int]] = {}  # the episode and how often
        self._unsettled: list[Video] = []  # ended, and their records not written yet
        self._number = 0
        self._warned = False
        self._thread = threading.Thread(target=self._work, name="kymogram-render", daemon=True)
        self._thread.start()

    # the caller's side

    def log(self, frame: Any, rl_step: Any, episode: Any, env_id: Any, name: Any = None) -> None:
        """Check a frame and hand it over."""
        self._raise_if_asked("raise_on_log")
        step, number = numeric.step("rl_step", rl_step), numeric.step("episode", episode)
        env = naming.environment(env_id)
        stream = env, naming.rendering(name)
        picture = check_frame(frame)
        known = self._sizes.get(stream)
        if known is not None and known[0] == number and known[1] != picture.shape:
            raise KymogramValidationError(
                f"the frame has the shape {picture.shape}, the first one of {said(stream)}, "
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
        env = naming.environment(env_id)
        only = None if name is None else naming.rendering(name)
        if episode is not None:
            number = numeric.step("episode", episode)
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
            self._trouble(f"a rendering of {said(one[1])} failed: {error!r}")

    def _fail(self, video: Video, error: Exception) -> None:
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
            f"the rendering of {said(stream)}, episode {episode}, failed after "
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

    def _hand_over(self, video: Video) -> None:
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
                    f"the rendering of {said(stream)}, episode {episode}, cannot begin: "
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

    def _older(self, videos: dict[Stream, Video], env: str, episode: int) -> list[Stream]:
        """An environment's videos of earlier episodes."""
        return [v.stream for v in videos.values() if v.stream[0] == env and v.key[1] < episode]

    def _begin(
        self, stream: Stream, episode: int, rl_step: int, time_ns: int, picture: Any
    ) -> Video | None:
        """Open a video; None when all encoders are busy, the disk is full or too many failed."""
        from .encoder import Encoder

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
        video = self._open[stream] = Video(stream, record, base, encoder)
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

    def _finish(self, video: Video) -> None:
        """End a video and hand it over."""
        from .encoder import digest

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

    def _keep_local(self, video: Video) -> None:
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

    def _forget(self, video: Video) -> None:
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
            raise KymogramError(f"{said(which)} has no video of episode {episode} any more")
        for video in found.values():
            video.tag(value) if isinstance(value, str) else video.mark(value)
            video.triggered = video.triggered or triggers
        for video in found.values():  # a disk that is full costs no other one its label
            if self._open.get(video.stream) is video:
                video.unsaved = True
                self._save_labels(video)
            else:
                self._save_again(video)

    def _save_labels(self, video: Video) -> None:
        """Save what labels a video has so far, for the case of a kill; many marks less often."""
        pause = len(video.record.get("marks", ())) / 1000
        if self.options.upload == "all" and time.monotonic() - video.saved >= pause:
            self._save(video.base, video.record, "encoding")
            video.saved, video.unsaved = time.monotonic(), False

    def _save_again(self, video: Video) -> None:
        """Save the record of a video that ended and has more labels now."""
        if self.options.upload == "off" or not (self.options.upload == "all" or video.triggered):
            return
        if self.options.upload == "triggered" and os.path.exists(video.base + ".mp4"):
            self._save(video.base, video.record, "done")
        else:  # the bytes are on their way or there: the record again, under the same id
            self._number += 1
            self._save(os.path.join(self._spool, str(self._number)), video.record, "done")
