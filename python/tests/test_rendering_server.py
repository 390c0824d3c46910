"""Videos from Python through the spool and the agent to a real server, and back by the CLI."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import textwrap
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import kymogram
from kymogram._delivery import agent

from .conftest import real_binary
from .rig import Served

np = pytest.importorskip("numpy", reason="frames are NumPy arrays")
av = pytest.importorskip("av", reason="PyAV, `pip install 'kymogram[rendering]'`, is missing")

BINARY = real_binary()
pytestmark = pytest.mark.skipif(BINARY is None, reason="no kymogram binary: run `make build`")

SCRIPT = """
    import os, sys, time
    import numpy, kymogram
    kymogram.init(run_name=sys.argv[1], rendering_fps=10, log_level="OFF")
    for episode in range(3):
        for step in range(25):
            frame = numpy.full((32, 48, 3), 20 + 8 * step, numpy.uint8)
            kymogram.log_rendering(frame, rl_step=episode, episode=episode, env_id="e")
            reward = float(step)
            kymogram.log_rl_environment_step("reward", reward, episode, False, episode, "e")
        if episode == 1:
            kymogram.tag_rendering("good", 1, "e")
    while kymogram.get_metrics().rendering_frames_encoded < 75:
        time.sleep(0.01)
    if sys.argv[2] == "kill":
        os.kill(os.getpid(), 9)
    if sys.argv[2] == "close":
        kymogram.close()
"""


class Lab:
    """A server, and a home whose clients and CLI find it."""

    def __init__(self, home: Path) -> None:
        self.home = home
        source = Path(__file__).resolve().parents[1] / "src"
        self.env = {
            "HOME": str(home),
            "PATH": os.environ["PATH"],
            "XDG_CONFIG_HOME": str(home / "config"),
            "KYMOGRAM_SPOOL_DIR": str(home / "spool"),
            "PYTHONPATH": str(source),
            "KYMOGRAM_CAPTURE_SYSTEM_METRICS": "0",
        }
        self.process = subprocess.Popen(
            [str(BINARY), "serve", "--data", str(home / "data"), "--http", "127.0.0.1:0"],
            env=self.env,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
        )
        assert self.process.stdout is not None
        line = self.process.stdout.readline()
        assert line.startswith("ready http="), line
        self.server = "http://" + line.split()[1].removeprefix("http=")

    def train(self, run: str, end: str) -> None:
        """A training process without an agent: its server is away."""
        script = (
            "import kymogram._delivery.agent as a; a.binary = lambda: None\n"
            + textwrap.dedent(SCRIPT)
        )
        env = {**self.env, "KYMOGRAM_SERVER": "http://127.0.0.1:1"}
        done = subprocess.run([sys.executable, "-c", script, run, end], env=env, check=False)
        assert done.returncode == (-9 if end == "kill" else 0)

    def ask(self, *args: str) -> Any:
        env = {**self.env, "KYMOGRAM_SERVER": self.server}
        found = subprocess.run([str(BINARY), *args, "--json"], env=env, capture_output=True)
        assert found.returncode == 0, found.stderr.decode()
        return json.loads(found.stdout)


@pytest.fixture
def lab(tmp_path: Path) -> Iterator[Lab]:
    found = Lab(tmp_path)
    yield found
    found.process.terminate()
    found.process.wait()


def test_videos_reach_the_server(lab: Lab, tmp_path: Path) -> None:
    lab.train("whole", "close")
    lab.train("killed", "kill")
    lab.ask("sync", "--server", lab.server)
    for run, last in (("whole", True), ("killed", False)):
        listed = lab.ask("renderings", "list", f"default/default/{run}")["renderings"]
        assert [one["episode"] for one in listed] == [0, 1, 2]
        assert [one["complete"] for one in listed] == [True, True, last]
        assert [one["tags"] for one in listed] == [[], ["good"], []]
        assert all(one["stored"] for one in listed)
        out = tmp_path / run
        written = lab.ask("renderings", "export", f"default/default/{run}", "--out", str(out))
        assert written["written"] == 3
        for one in listed:
            with av.open(str(out / f"e_{one['episode']}.mp4")) as video:
                frames = [f.to_ndarray(format="gray").mean() for f in video.decode(video=0)]
            assert len(frames) == one["frames"]
            # At most the last second, 10 frames, of a killed one is gone.
            assert len(frames) == 25 if one["complete"] else 15 <= len(frames) <= 25
            assert all(abs(f - 20 - 8 * n) <= 4 for n, f in enumerate(frames))
    assert not list((tmp_path / "spool" / "writers").iterdir())


@pytest.mark.parametrize("how", ["close", "exit"])
def test_close_has_delivered_the_videos(lab: Lab, how: str) -> None:
    """The server is well: when the program is over, it has them."""
    env = {**lab.env, "KYMOGRAM_SERVER": lab.server, "KYMOGRAM_BINARY": str(BINARY)}
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(SCRIPT), how, how], env=env, check=False
    )
    assert done.returncode == 0
    listed = lab.ask("renderings", "list", f"default/default/{how}")["renderings"]
    assert [(one["episode"], one["stored"]) for one in listed] == [(n, True) for n in range(3)]


def test_a_video_that_waits_is_undelivered(
    tmp_path: Path, served: Served, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The points are taken, the server's disk takes no files: close() says so."""
    parts = tmp_path / "data" / "blobs" / "partial"
    parts.rmdir()
    parts.write_bytes(b"")
    monkeypatch.setattr(agent, "binary", lambda: str(BINARY))
    kymogram.init(run_name="r", log_level="OFF")
    for step in range(5):
        kymogram.log_rendering(np.full((32, 48), 40 * step, np.uint8), step, 0, "e")
    kymogram.log("loss", 1.0)
    info = kymogram.close(2)
    assert info is not None
    assert info.metrics.points_pending == 0
    assert info.metrics.renderings_waiting == 1
    assert info.has_undelivered_spool
    assert info.leftover_bytes > 500
    parts.unlink()
    parts.mkdir()
    served.sync()
    listed = served.cli(
        "renderings", "list", "default/default/r", "--server", served.address, "--json"
    )
    (video,) = json.loads(listed)["renderings"]
    assert video["frames"] == 5
