"""Videos: what a frame must be, how frames become files, what a kill leaves.

The oracle for the files is PyAV's decoder and the boxes of the mp4 themselves.
"""

from __future__ import annotations

import hashlib
import json
import os
import subprocess
import sys
import textwrap
import time
from pathlib import Path
from typing import Any

import pytest

numpy = pytest.importorskip("numpy", reason="frames are NumPy arrays")
pytest.importorskip("av", reason="PyAV, `pip install 'kymogram[rendering]'`, is not installed")

import av  # noqa: E402

import kymogram  # noqa: E402
from kymogram import KymogramValidationError  # noqa: E402
from kymogram._videos import renderer as rendering  # noqa: E402
from kymogram._videos.encoder import Encoder  # noqa: E402
from kymogram._videos.frame import check_frame  # noqa: E402
from kymogram._videos.options import Options  # noqa: E402
from kymogram._videos.renderings import Renderings  # noqa: E402
from kymogram._videos.video import mark  # noqa: E402


def renderer(folder: Path, **given: Any) -> rendering.Renderer:
    options = Options({"rendering_fps": 10, **given}, "warn", "run/1")
    return rendering.Renderer(options, "w", str(folder))


def frame(number: int, size: tuple[int, ...] = (32, 48, 3)) -> Any:
    """A picture whose brightness says its number."""
    return numpy.full(size, 20 + 10 * (number % 20), numpy.uint8)


def records(folder: Path) -> list[dict[str, Any]]:
    found = [json.loads(p.read_text()) for p in (folder / "renderings").glob("*.json")]
    return sorted(found, key=lambda one: (one["env_id"], one["episode"], one.get("name", "")))


def brightness(path: Path) -> list[int]:
    with av.open(str(path)) as video:
        return [round(float(f.to_ndarray(format="gray").mean())) for f in video.decode(video=0)]


def boxes(path: Path) -> list[str]:
    data, at, found = path.read_bytes(), 0, []
    while at < len(data):
        found.append(data[at + 4 : at + 8].decode())
        at += int.from_bytes(data[at : at + 4], "big")
    return found


@pytest.mark.parametrize(
    ("bad", "rule"),
    [
        (numpy.zeros((4, 4, 3)), "uint8.*multiply by 255"),
        (numpy.zeros((4, 4, 4), numpy.uint8), "alpha"),
        (numpy.zeros((3, 4, 4), numpy.uint8), "alpha|transpose"),
        (numpy.zeros((3, 4, 6), numpy.uint8), "transpose"),
        (numpy.zeros((5, 4, 3), numpy.uint8), r"even.*frame\[:4, :4\]"),
        (numpy.zeros((4, 0), numpy.uint8), "even"),
        (numpy.zeros(4, numpy.uint8), r"\(H, W"),
        ("text", "uint8"),
        (None, "uint8"),
    ],
)
def test_a_bad_frame_is_told_in_the_call(bad: Any, rule: str) -> None:
    with pytest.raises(KymogramValidationError, match=rule):
        check_frame(bad)


def test_a_frame_is_copied_and_grey_ones_are_flat() -> None:
    given = numpy.zeros((4, 6, 1), numpy.uint8)
    taken = check_frame(given)
    given[:] = 9
    assert taken.shape == (4, 6)
    assert not taken.any()


def test_each_environment_and_episode_is_a_video_that_seeks(tmp_path: Path) -> None:
    made = renderer(tmp_path)
    for step in range(12):
        for env in ("a", "b"):
            made.log(frame(step), rl_step=step, episode=step // 6, env_id=env)
    assert made.close(30) is None
    found = records(tmp_path)
    assert [(one["env_id"], one["episode"]) for one in found] == [
        ("a", 0), ("a", 1), ("b", 0), ("b", 1),
    ]  # fmt: skip
    for one in found:
        assert one["state"] == "done"
        assert (one["frames"], one["width"], one["height"], one["complete"]) == (6, 48, 32, True)
        first = 6 * one["episode"]
        assert (one["first_rl_step"], one["last_rl_step"]) == (first, first + 5)
        video = next(
            p
            for p in (tmp_path / "renderings").glob("*.mp4")
            if hashlib.sha256(p.read_bytes()).hexdigest() == one["sha256"]
        )
        assert one["size_bytes"] == video.stat().st_size
        order = boxes(video)
        assert order.index("moov") < order.index("mdat")  # the index is in front
        want = [20 + 10 * (first + n) for n in range(6)]
        assert all(abs(a - b) <= 3 for a, b in zip(brightness(video), want))
    assert not list((tmp_path / "renderings").glob("*.part"))
    assert made.counters()["rendering_frames_encoded"] == 24


def test_one_video_has_one_size(tmp_path: Path) -> None:
    made = renderer(tmp_path)
    made.log(frame(0), 0, 0, "a")
    with pytest.raises(KymogramValidationError, match="one size"):
        made.log(frame(0, (16, 16, 3)), 0, 0, "a")
    made.log(frame(0, (16, 16)), 0, 1, "a")  # another episode may have another
    made.close(30)
    assert [one["width"] for one in records(tmp_path)] == [48, 16]


def test_a_full_queue_drops_and_counts(tmp_path: Path) -> None:
    made = renderer(tmp_path, rendering_queue_max_size=1)
    for step in range(200):
        made.log(frame(step), step, 0, "a")
    made.close(30)
    counts = made.counters()
    assert counts["rendering_frames_added"] == 200
    assert counts["rendering_frames_encoded"] + counts["rendering_frames_dropped"] == 200
    assert counts["rendering_frames_dropped"] > 0
    (one,) = records(tmp_path)
    assert one["frames"] + one["frames_dropped"] == 200


def test_more_environments_than_encoders(tmp_path: Path) -> None:
    made = renderer(tmp_path, rendering_max_concurrent_encoders=2)
    for step in range(3):
        for env in ("a", "b", "c"):
            made.log(frame(step), step, 0, env)
    made.close(30)
    assert [one["env_id"] for one in records(tmp_path)] == ["a", "b"]
    assert made.counters()["rendering_frames_dropped"] == 3


def test_skipping_the_queue_at_the_end(tmp_path: Path) -> None:
    made = renderer(tmp_path, skip_drain_render_on_close=True)
    for step in range(100):
        made.log(frame(step, (480, 640, 3)), step, 0, "a")
    made.close(30)
    counts = made.counters()
    assert counts["rendering_frames_encoded"] + counts["rendering_frames_dropped"] == 100
    assert counts["rendering_frames_dropped"] > 0
    assert counts["rendering_frames_waiting"] == 0


def test_triggered_uploads_only_what_was_tagged_or_marked(tmp_path: Path) -> None:
    made = renderer(tmp_path, upload_renderings="triggered")
    for episode in range(4):
        for step in range(3):
            made.log(frame(step), step, episode, "a")
        if episode == 1:
            made.label("a", None, None, "crash", True)
    made.label("a", None, None, mark("fell", None, None), True)
    made.close(30)
    found = records(tmp_path)
    assert [one["episode"] for one in found] == [1, 3]
    assert found[0]["tags"] == ["crash"]
    assert found[1]["marks"] == [{"name": "fell", "from_frame": 2, "to_frame": 2}]
    assert len(list((tmp_path / "renderings").glob("*.mp4"))) == 2


def test_marks_frame_by_frame_are_one_moment(tmp_path: Path) -> None:
    """As long as no frame is between them; what is marked with frames stays as it was given."""
    made = renderer(tmp_path)
    for step in range(12):
        made.log(frame(step), step, 0, "a")
        if step in (3, 4, 5, 8):
            made.label("a", None, None, mark("hit", None, None), True)
        if step == 4:
            made.label("a", 0, None, mark("slow", None, None), True)
    for first in (0, 1):
        made.label("a", 0, None, mark("said", first, first), True)
    made.close(30)
    (one,) = records(tmp_path)
    assert [(m["name"], m["from_frame"], m["to_frame"]) for m in one["marks"]] == [
        ("hit", 3, 5),
        ("slow", 4, 4),
        ("hit", 8, 8),
        ("said", 0, 0),
        ("said", 1, 1),
    ]


def test_an_episode_has_a_video_of_each_name(tmp_path: Path) -> None:
    folder = tmp_path / "kept"
    made = renderer(tmp_path, rendering_output_dir=str(folder))
    for episode in range(2):
        for step in range(3 + episode):
            made.log(frame(step), step, episode, "a", "left/agent")
            made.log(frame(step)[::2, ::2], step, episode, "a", "right")
            made.log(frame(step), step, episode, "a")
        made.label("a", None, "right", "alone", True)
    made.label("a", 1, None, "all", True)
    with pytest.raises(KymogramValidationError, match="rendering name"):
        made.log(frame(0), 0, 1, "a", "")
    made.close(30)
    found = {(one["episode"], one["name"]): one for one in records(tmp_path)}
    assert sorted(found) == [(e, n) for e in (0, 1) for n in ("", "left/agent", "right")]
    assert [one["frames"] for _, one in sorted(found.items())] == [3, 3, 3, 4, 4, 4]
    assert {key: one.get("tags") for key, one in found.items()} == {
        (0, ""): None,
        (0, "left/agent"): None,
        (0, "right"): ["alone"],
        (1, ""): ["all"],
        (1, "left/agent"): ["all"],
        (1, "right"): ["alone", "all"],
    }
    names = [p.name for p in (folder / "run_1").iterdir()]
    assert sorted(names) == sorted(
        f"a_{e}{n}.mp4" for e in (0, 1) for n in ("", "_left_agent", "_right")
    )


def test_a_new_episode_ends_the_videos_of_all_names(tmp_path: Path) -> None:
    """Also where no name comes again: no encoder is held, and none that is unwanted stays."""
    made = renderer(tmp_path, rendering_max_concurrent_encoders=2, upload_renderings="triggered")
    for episode in range(6):
        for step in range(3):
            made.log(frame(step), step, episode, "a", f"of {episode}")
    made.label("a", 4, None, "kept", True)
    made.label("a", None, None, mark("last", None, None), True)
    assert made.close(30) is None
    assert made.counters()["rendering_frames_dropped"] == 0
    assert [(one["name"], one["frames"]) for one in records(tmp_path)] == [("of 4", 3), ("of 5", 3)]
    assert len(list((tmp_path / "renderings").glob("*.mp4"))) == 2


def test_a_mark_may_leave_the_video_here(tmp_path: Path) -> None:
    """trigger=False, as in Metrana's clients."""
    made = renderer(tmp_path, upload_renderings="triggered")
    for episode, triggers in enumerate((False, True)):
        made.log(frame(0), 0, episode, "a")
        made.label("a", None, None, mark("seen", None, None), triggers)
    made.log(frame(0), 0, 2, "a")
    made.label("a", 1, None, mark("late", None, None), False)
    made.close(30)
    (one,) = records(tmp_path)
    assert one["episode"] == 1
    assert [mark["name"] for mark in one["marks"]] == ["seen", "late"]


def test_a_kill_keeps_the_labels(tmp_path: Path) -> None:
    """The record of a video that is still being encoded has what was said of it."""
    made = renderer(tmp_path)
    made.log(frame(0), 0, 0, "a")
    made.label("a", 0, None, "odd", True)
    made.label("a", 0, None, mark("first", None, None), True)
    made.label("a", 0, None, mark("second", None, None), True)
    made.log(frame(1), 1, 0, "a")
    one: dict[str, Any] = {}
    end = time.monotonic() + 10
    while len(one.get("marks", [])) < 2 and time.monotonic() < end:
        made.log(frame(2), 2, 0, "a")
        time.sleep(0.01)
        for file in (tmp_path / "renderings").glob("*.json"):
            one = json.loads(file.read_text())
    assert one["state"] == "encoding"
    assert one["tags"] == ["odd"]
    assert [mark["name"] for mark in one["marks"]] == ["first", "second"]
    made.close(30)


def test_the_folder_that_was_named_keeps_its_files(tmp_path: Path) -> None:
    for upload, spooled in (("off", 0), ("all", 2)):
        folder = tmp_path / upload
        made = renderer(
            tmp_path / f"w-{upload}", upload_renderings=upload, rendering_output_dir=str(folder)
        )
        for episode in (0, 0, 1):
            made.log(frame(episode), 0, episode, "envA")
        made.close(30)
        names = sorted(p.name for p in (folder / "run_1").iterdir())
        assert names == ["envA_0.mp4", "envA_1.mp4"]
        there = tmp_path / f"w-{upload}" / "renderings"
        assert len(list(there.glob("*.mp4"))) == spooled


@pytest.mark.parametrize(
    "wrong",
    [
        {"rendering_fps": 0},
        {"upload_renderings": "some"},
        {"rendering_queue_max_size": -1},
        {"rendering_close_timeout": "x"},
        {"rendering_upload_concurrency": 0},
        {"rendering_upload_warn_threshold": "many"},
        {"rendering_upload_close_timeout": -1},
    ],
)
def test_wrong_options_are_told(wrong: dict[str, Any]) -> None:
    with pytest.raises(KymogramValidationError, match=next(iter(wrong))):
        Options(wrong, "warn", "run")


def test_a_kill_leaves_whole_fragments(tmp_path: Path) -> None:
    """What the deliverer finds of a process that was killed in mid-episode can be played."""
    script = f"""
        import os, sys, time
        import numpy
        from pathlib import Path
        from kymogram._videos import renderer as rendering
        from kymogram._videos.options import Options
        options = Options({{"rendering_fps": 10}}, "warn", "r")
        made = rendering.Renderer(options, "w", {str(tmp_path)!r})
        for step in range(45):
            made.log(numpy.full((32, 48, 3), step, numpy.uint8), step, 3, "a")
        while made.counters()["rendering_frames_encoded"] < 45:
            time.sleep(0.01)
        os.kill(os.getpid(), 9)
    """
    source = Path(kymogram.__file__).resolve().parents[1]
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(script)],
        env={**os.environ, "PYTHONPATH": str(source)},
        check=False,
    )
    assert done.returncode == -9
    (one,) = records(tmp_path)
    assert (one["state"], one["env_id"], one["episode"]) == ("encoding", "a", 3)
    (part,) = (tmp_path / "renderings").glob("*.part")
    assert boxes(part)[:2] == ["ftyp", "moov"]
    assert 30 <= len(brightness(part)) <= 45  # at most the last second of 10 frames is gone


def whole_fragments(path: Path) -> int:
    """Where the last whole box of data ends."""
    data, at, end = path.read_bytes(), 0, 0
    while at + 8 <= len(data):
        size = int.from_bytes(data[at : at + 4], "big")
        if at + size > len(data):
            break
        at += size
        if data[at - size + 4 : at - size + 8] == b"mdat":
            end = at
    return end


def accounted(made: rendering.Renderer) -> dict[str, int]:
    """Every frame is encoded or dropped, and no video waits for ever."""
    counts = made.counters()
    lost = counts["rendering_frames_encoded"] + counts["rendering_frames_dropped"]
    assert counts["rendering_frames_added"] == lost
    assert counts["rendering_frames_waiting"] == 0
    return counts


def test_an_encoder_that_dies_ends_its_video_as_failed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    add, calls = Encoder.add, []

    def dies(self: Encoder, picture: Any) -> None:
        calls.append(1)
        if len(calls) % 26 == 0:
            raise RuntimeError("the codec is gone")
        add(self, picture)

    monkeypatch.setattr(Encoder, "add", dies)
    made = renderer(tmp_path)
    for step in range(120):
        made.log(frame(step), step, 0, "a")
    for step in range(5):
        made.log(frame(step), step, 1, "a")  # the next episode is another matter
    made.label("a", 1, None, "good", True)
    assert made.close(30) is None
    found = records(tmp_path)
    assert [(one["name"], one["state"], one["frames"]) for one in found] == [
        ("", "failed", 25),
        ("part 2", "failed", 25),
        ("part 3", "failed", 25),
        ("", "done", 5),
    ]
    assert [one["complete"] for one in found] == [False, False, False, True]
    for part in sorted((tmp_path / "renderings").glob("*.part")):
        assert 15 <= len(brightness(part)) <= 25  # at most the last second of 10 frames is gone
    counts = accounted(made)
    assert (counts["renderings_failed"], counts["renderings_finished"]) == (3, 1)
    assert counts["rendering_frames_dropped"] == 120 - 75
    said = capsys.readouterr().err
    assert said.count("failed after 25 frames: RuntimeError('the codec is gone')") == 2
    assert "the rest of the episode is dropped and counted" in said


def test_an_encoder_that_cannot_begin(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fails(self: Encoder, *_: Any) -> None:
        raise OSError("no codec")

    options = Options({"rendering_error_strategy": "raise_on_log"}, "warn", "r")
    made = rendering.Renderer(options, "w", str(tmp_path))
    with monkeypatch.context() as patch:
        patch.setattr(Encoder, "__init__", fails)
        made.log(frame(0), 0, 0, "a")
        while made.counters()["rendering_frames_dropped"] < 1:
            time.sleep(0.01)
        with pytest.raises(kymogram.KymogramRenderingError, match="cannot begin.*no codec"):
            made.log(frame(1), 1, 0, "a")
        made.log(frame(1), 1, 0, "a")  # once
        while made.counters()["rendering_frames_waiting"]:
            time.sleep(0.01)
    made.log(frame(0), 2, 1, "a")
    made.close(30)
    assert [(one["episode"], one["state"]) for one in records(tmp_path)] == [(1, "done")]
    assert accounted(made)["renderings_failed"] == 1
    assert not list((tmp_path / "renderings").glob("*.part"))


@pytest.mark.parametrize(("upload", "left"), [("all", "part"), ("triggered", ""), ("off", "mp4")])
def test_a_video_that_cannot_be_ended(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, upload: str, left: str
) -> None:
    def fails(*_: Any) -> None:
        raise OSError(28, "no space")

    monkeypatch.setattr("kymogram._videos.encoder._seekable", fails)
    here = tmp_path / "here"
    made = renderer(tmp_path, upload_renderings=upload, rendering_output_dir=str(here))
    for step in range(12):
        made.log(frame(step), step, 0, "a")
    made.log(frame(0), 0, 1, "b")
    made.close(30)
    assert accounted(made)["renderings_failed"] == 2
    states = [one["state"] for one in records(tmp_path)]
    assert states == (["failed"] * 2 if upload == "all" else [])
    files = [*here.glob("*/*"), *(tmp_path / "renderings").iterdir()]
    kept = sorted(p for p in files if p.suffix != ".json")
    assert {p.suffix for p in kept} == ({"." + left} if left else set())
    assert [len(brightness(p)) for p in kept] == ([12, 1] if left else [])


def test_a_failed_video_whose_record_finds_no_room(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its record is written as soon as there is room."""
    add, save, full = Encoder.add, rendering.Renderer._save, [True]

    def dies(self: Encoder, picture: Any) -> None:
        if full[0] and self.frames == 5:
            raise OSError(28, "no space")
        add(self, picture)

    def no_room(self: rendering.Renderer, base: str, record: Any, state: str) -> None:
        if full[0] and state != "encoding":
            raise OSError(28, "no space")
        save(self, base, record, state)

    monkeypatch.setattr(Encoder, "add", dies)
    monkeypatch.setattr(rendering.Renderer, "_save", no_room)
    made = renderer(tmp_path)
    for step in range(6):
        made.log(frame(step), step, 0, "a")
    while made.counters()["renderings_failed"] == 0:
        time.sleep(0.01)
    assert [one["state"] for one in records(tmp_path)] == ["encoding"]
    full[0] = False
    made.log(frame(0), 0, 1, "a")
    made.close(30)
    assert [one["state"] for one in records(tmp_path)] == ["failed", "done"]
    accounted(made)


def test_a_file_that_may_not_grow(tmp_path: Path) -> None:
    """The kernel refuses the encoder's writes: what it wrote before is whole."""
    script = f"""
        import json, resource, signal
        import numpy
        from kymogram._videos import renderer as rendering
        from kymogram._videos.options import Options
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        resource.setrlimit(resource.RLIMIT_FSIZE, (300_000, 300_000))
        options = Options({{"rendering_fps": 10}}, "silent", "r")
        made = rendering.Renderer(options, "w", {str(tmp_path)!r})
        noise = numpy.random.default_rng(1)
        for step in range(60):
            made.log(noise.integers(0, 256, (120, 160, 3), numpy.uint8), step, 0, "a")
        made.close(60)
        print(json.dumps(made.counters()))
    """
    source = Path(kymogram.__file__).resolve().parents[1]
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(script)],
        env={**os.environ, "PYTHONPATH": str(source)},
        check=True,
        capture_output=True,
        text=True,
    )
    counts = json.loads(done.stdout)
    assert counts["rendering_frames_encoded"] + counts["rendering_frames_dropped"] == 60
    assert counts["renderings_failed"] > 0
    found = records(tmp_path)
    assert {one["state"] for one in found} <= {"failed", "done"}
    assert found[0]["state"] == "failed"
    part = min((tmp_path / "renderings").glob("*.part"), key=lambda p: int(p.stem))
    whole = tmp_path / "whole.mp4"
    whole.write_bytes(part.read_bytes()[: whole_fragments(part)])
    assert 0 < len(brightness(whole)) <= found[0]["frames"]


def test_many_videos_that_wait_are_told_once(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    made = renderer(tmp_path, rendering_upload_warn_threshold=2)
    for episode in range(5):
        made.log(frame(0), 0, episode, "a")
    made.close(30)
    said = capsys.readouterr().err
    assert said.count("3 videos wait to be uploaded, more than 2") == 1
    assert said.count("wait to be uploaded") == 1


def test_uploads_at_once_are_asked_of_the_agent(
    spool: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    kymogram.init(
        run_name="r",
        log_level="WARNING",
        rendering_upload_concurrency=7,
        rendering_storage="s3://b/p",
    )
    (document,) = (spool / "writers").glob("*/open.json")
    assert json.loads(document.read_text())["pace"]["rendering_uploads"] == 7
    said = capsys.readouterr().err
    assert said.count("rendering_storage='s3://b/p' is not supported") == 1
    kymogram.close(0)


@pytest.mark.parametrize(
    ("asked", "last", "connected"),
    [(0.3, False, False), (None, True, False), (None, False, False), (None, False, True)],
)
def test_close_waits_for_uploads(
    tmp_path: Path, asked: float | None, last: bool, connected: bool
) -> None:
    """As long as it is told; without that where the server is there, or the agent ends too."""
    given = {"rendering_upload_close_timeout": asked, "rendering_error_strategy": "silent"}
    made = Renderings(given, "warn", "r")
    one = rendering.Renderer(Options(given, "warn", "r"), "w", str(tmp_path))
    made._renderer = one
    one.log(frame(0), 0, 0, "a")
    one.close(30)
    start = time.monotonic()
    made.await_upload(0.6, last, lambda: connected)
    took = time.monotonic() - start
    want = asked if asked is not None else 0.6 * (last or connected)
    assert want <= took < want + 0.25
    for file in (tmp_path / "renderings").glob("*"):
        file.unlink()
    start = time.monotonic()
    made.await_upload(30, last, lambda: connected)
    assert time.monotonic() - start < 1
