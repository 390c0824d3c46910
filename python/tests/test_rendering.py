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
from pathlib import Path
from typing import Any

import pytest

numpy = pytest.importorskip("numpy", reason="frames are NumPy arrays")
pytest.importorskip("av", reason="PyAV, `pip install 'kymogram[rendering]'`, is not installed")

import av  # noqa: E402

from kymogram import KymogramValidationError  # noqa: E402
from kymogram import _rendering as rendering  # noqa: E402
from kymogram._rendering_options import Options  # noqa: E402


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
        rendering.check_frame(bad)


def test_a_frame_is_copied_and_grey_ones_are_flat() -> None:
    given = numpy.zeros((4, 6, 1), numpy.uint8)
    taken = rendering.check_frame(given)
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
            made.label("a", None, "tag", "crash")
    made.label("a", None, "mark", rendering.mark("fell", None, None))
    made.close(30)
    found = records(tmp_path)
    assert [one["episode"] for one in found] == [1, 3]
    assert found[0]["tags"] == ["crash"]
    assert found[1]["marks"] == [{"name": "fell", "from_frame": 2, "to_frame": 2}]
    assert len(list((tmp_path / "renderings").glob("*.mp4"))) == 2


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
        from kymogram import _rendering as rendering
        from kymogram._rendering_options import Options
        options = Options({{"rendering_fps": 10}}, "warn", "r")
        made = rendering.Renderer(options, "w", {str(tmp_path)!r})
        for step in range(45):
            made.log(numpy.full((32, 48, 3), step, numpy.uint8), step, 3, "a")
        while made.counters()["rendering_frames_encoded"] < 45:
            time.sleep(0.01)
        os.kill(os.getpid(), 9)
    """
    source = Path(rendering.__file__).resolve().parents[1]
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
