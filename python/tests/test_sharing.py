"""Environments of two processes on two machines: two spools, two agents, one real server."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import textwrap
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from . import rig
from .rig import Served

pytestmark = pytest.mark.skipif(rig.BINARY is None, reason=rig.NO_BINARY)

SCRIPT = """
    import json, os, sys, time
    import kymogram, kymogram._delivery.agent
    kymogram._delivery.agent.binary = lambda: os.environ["KYMOGRAM_BINARY"]  # not the wheel's
    envs, seconds, end = sys.argv[1].split(","), float(sys.argv[2]), sys.argv[3]
    kymogram.init(run_name="rl", orchestration_id="job", log_level="WARNING",
                  error_strategy=sys.argv[4], capture_system_metrics=False, batch_max_age_secs=0.1)
    until, raised = time.time() + seconds, 0
    while time.time() < until:
        try:
            kymogram.log_rl_environment_step("reward", [1.0] * len(envs), 0, env_id=envs)
            kymogram.log_rl_episode("return", 1.0, 0, env_id=envs[0])
        except kymogram.KymogramSenderError as error:
            raised += 1
        time.sleep(0.02)
    if end == "kill":
        os.kill(os.getpid(), 9)
    told = kymogram.check_sender_errors()
    shared = kymogram.get_metrics().shared_environments
    kymogram.close()
    print(json.dumps({"told": told, "shared": shared, "raised": raised, "pid": os.getpid()}))
"""


class Machine:
    """A home with a spool and an agent of its own."""

    def __init__(self, home: Path, server: str, rank: int) -> None:
        source = Path(__file__).resolve().parents[1] / "src"
        self.env = {
            "HOME": str(home),
            "PATH": os.environ["PATH"],
            "PYTHONPATH": str(source),
            "RANK": str(rank),
            "KYMOGRAM_BINARY": str(rig.BINARY),
            "KYMOGRAM_SERVER": server,
            "KYMOGRAM_SPOOL_DIR": str(home / "spool"),
        }

    def start(
        self, envs: str, seconds: float, end: str = "close", strategy: str = "warn"
    ) -> subprocess.Popen[str]:
        return subprocess.Popen(
            [sys.executable, "-c", textwrap.dedent(SCRIPT), envs, str(seconds), end, strategy],
            env=self.env,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )


@pytest.fixture
def served(tmp_path: Path) -> Iterator[Served]:
    yield from Served(tmp_path / "data", tmp_path / "unused").run()


def detail(served: Served) -> dict[str, Any]:
    (run,) = served.client.runs("default/default")
    with urllib.request.urlopen(f"{served.address}/api/v1/runs/{run.id}") as answer:
        found: dict[str, Any] = json.load(answer)
        return found


def test_both_are_told_who_the_other_is(served: Served, tmp_path: Path) -> None:
    here, there = (Machine(tmp_path / str(rank), served.address, rank) for rank in (0, 1))
    first = here.start("shared,own0", 6)
    second = there.start("shared,own1", 6, strategy="raise_on_log")
    out, said = first.communicate(timeout=60)
    one = json.loads(out)
    two = json.loads(second.communicate(timeout=60)[0])
    assert (one["shared"], two["shared"]) == (1, 1)
    (text,) = one["told"]
    assert "environment 'shared' is also logged by process" in text
    assert f"process {two['pid']} on " in text
    assert "(rank 1)" in text
    assert said.count("also logged by") == 1  # one warning
    assert (one["raised"], two["raised"]) == (0, 1)
    (text,) = two["told"]
    assert f"process {one['pid']} on " in text
    assert "(rank 0)" in text

    run = detail(served)
    (pair,) = run["shared_environments"]
    assert pair["env_id"] == "shared"
    pids = {writer["id"]: writer["pid"] for writer in run["writers"]}
    assert {pids[writer] for writer in pair["writers"]} == {one["pid"], two["pid"]}
    with urllib.request.urlopen(f"{served.address}/metrics") as answer:
        assert "\nkymogram_ingest_shared_environments_total 1\n" in answer.read().decode()
    shown = served.cli("runs", "show", run["id"], "--server", served.address)
    line = next(line for line in shown.splitlines() if line.startswith("shared"))
    assert f"pid {one['pid']}, rank 0)" in line
    assert f"pid {two['pid']}, rank 1)" in line


def test_a_process_that_is_killed_and_started_again_is_alone(
    served: Served, tmp_path: Path
) -> None:
    """Also where its successor is on another machine, and the killed one's points come late."""
    here, there = (Machine(tmp_path / str(name), served.address, 0) for name in ("a", "b"))
    killed = here.start("env", 2, "kill")
    killed.wait(timeout=60)
    assert killed.returncode == -9
    again = json.loads(there.start("env", 2.5).communicate(timeout=60)[0])
    third = json.loads(here.start("env", 2.5).communicate(timeout=60)[0])
    assert (again["told"], again["shared"]) == ([], 0)
    assert (third["told"], third["shared"]) == ([], 0)
    assert detail(served)["shared_environments"] == []
