"""With the real binary: server, agent, sync. Skipped where it is not built."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import textwrap
import time
import urllib.parse
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from kymogram._delivery import agent as _agent
from kymogram._spool import folders

from . import reader
from .conftest import closed_port, real_binary

SOURCE = Path(__file__).resolve().parents[1] / "src"
BINARY = real_binary()
pytestmark = pytest.mark.skipif(
    BINARY is None, reason="the kymogram binary is not built: make build, or set KYMOGRAM_BINARY"
)


class Server:
    """A real server on one data folder, which may be stopped and started again."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.port = closed_port()
        self.address = f"http://127.0.0.1:{self.port}"
        self.process: subprocess.Popen[str] | None = None

    def start(self) -> Server:
        command = [str(BINARY), "serve", "--data", str(self.folder), "--no-auth"]
        command += ["--http", f"127.0.0.1:{self.port}"]
        self.process = subprocess.Popen(
            command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
        )
        assert self.process.stdout is not None
        assert self.process.stdout.readline().startswith("ready ")
        return self

    def stop(self) -> None:
        if self.process is not None:
            self.process.kill()
            self.process.wait()
            self.process = None

    def get(self, path: str) -> Any:
        with urllib.request.urlopen(self.address + path, timeout=10) as answer:
            return json.load(answer)

    def runs(self) -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = self.get("/api/v1/projects/default/default/runs")["runs"]
        return found

    def points(self, metric: str, run: str | None = None, **more: str) -> dict[str, list[Any]]:
        query = urllib.parse.urlencode({"metric": metric, **more})
        columns: dict[str, list[Any]] = self.get(
            f"/api/v1/runs/{run or self.runs()[0]['id']}/points?{query}"
        )["columns"]
        return columns


@pytest.fixture
def server(tmp_path: Path) -> Iterator[Server]:
    found = Server(tmp_path / "data")
    yield found.start()
    found.stop()


@pytest.fixture(autouse=True)
def stop_agent(spool: Path) -> Iterator[None]:
    yield
    holder = agent(spool)
    if holder:
        os.kill(holder, signal.SIGTERM)


def agent(spool: Path) -> int | None:
    try:
        pid: int = json.loads((spool / "agent.json").read_text())["pid"]
        os.kill(pid, 0)
    except (OSError, ValueError, KeyError):
        return None
    return pid


def train(server: Server, code: str, *, expect: int = 0, timeout: float = 60) -> str:
    """Run a program with the agent's binary at hand; what it says on stderr."""
    environment = {**os.environ, "PYTHONPATH": str(SOURCE), "KYMOGRAM_SERVER": server.address}
    environment["KYMOGRAM_BINARY"] = str(BINARY)
    code = "import kymogram, os, sys, time\nkymogram.init(run_name='r')\n" + textwrap.dedent(code)
    done = subprocess.run(
        [sys.executable, "-c", code],
        env=environment,
        capture_output=True,
        text=True,
        timeout=timeout,
    )
    assert done.returncode == expect, done.stderr
    return done.stderr


def sync(spool: Path) -> None:
    command = [str(BINARY), "sync", "--spool", str(spool), "--timeout", "30s"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr


def test_from_log_to_the_server(server: Server, spool: Path) -> None:
    said = train(
        server,
        """
        for i in range(1000):
            kymogram.log('loss', i / 2)
        kymogram.log({'a': float('nan'), 'b': 2})
        kymogram.log('n', 2**63 - 1, dtype='int64', step=5)
        kymogram.log_rl_environment_step(
            'reward', [[1, 2], [3, 4]], rl_step=3, env_id=['x', 'y'], episode=[7, 8])
        kymogram.log_config({'lr': 0.1})
        kymogram.add_tags(['t'])
        assert kymogram.flush(30)
        assert not kymogram.is_offline()
        kymogram.close()
        """,
    )
    assert "holds" not in said, said
    (run,) = server.runs()
    assert (run["name"], run["status"], run["tags"]) == ("r", "finished", ["t"])
    assert run["config"] == {"lr": 0.1}
    assert server.points("loss")["value"] == [i / 2 for i in range(1000)]
    assert server.points("loss")["step"] == list(range(1000))
    assert server.points("a")["value"] == ["NaN"]
    reward = server.points("reward", **{"label.env_id": "y"})
    assert reward["value"] == [3, 4]
    assert (reward["step"], reward["rl_step"], reward["episode"]) == ([0, 1], [3, 3], [8, 8])


def test_offline_then_sync(server: Server, spool: Path) -> None:
    server.stop()
    said = train(server, "for i in range(100): kymogram.log('loss', float(i))")
    assert "not reached" in said
    assert "holds 100 points" in said
    server.start()
    sync(spool)
    assert server.points("loss")["value"] == [float(i) for i in range(100)]
    assert server.runs()[0]["status"] == "finished"


def test_sigkill_then_sync(server: Server, spool: Path) -> None:
    train(
        server,
        """
        for i in range(5000): kymogram.log('loss', float(i))
        os.kill(os.getpid(), 9)
        """,
        expect=-9,
    )
    sync(spool)
    assert server.points("loss")["value"] == [float(i) for i in range(5000)]


def test_the_next_life_of_a_killed_job_is_a_new_attempt(
    server: Server, spool: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("KYMOGRAM_ORCHESTRATION_ID", "job")
    spool.mkdir(mode=0o700)
    nobody_delivers = folders.flock(str(spool / "agent.lock"))
    assert nobody_delivers is not None
    train(server, "kymogram.log('x', 1.0, step=0); os.kill(os.getpid(), 9)", expect=-9)
    train(server, "kymogram.log('x', 2.0, step=0); kymogram.close(0)")
    os.close(nobody_delivers)
    sync(spool)
    (run,) = server.runs()
    assert (run["attempt"], run["status"]) == (2, "finished")
    assert server.points("x")["value"] == [2]
    assert server.points("x", attempt="1")["value"] == [1]


def test_a_killed_agent_is_started_again(server: Server, spool: Path) -> None:
    said = train(
        server,
        f"""
        import json, signal
        kymogram.log('x', 0.0)
        assert kymogram.flush(30)
        file = {str(spool / "agent.json")!r}
        first = json.load(open(file))['pid']
        os.kill(first, signal.SIGKILL)
        for i in range(1, 100): kymogram.log('x', float(i))
        assert kymogram.flush(30) or kymogram.flush(30)
        deadline = time.time() + 20
        while kymogram.get_metrics().float_points_sent < 100 and time.time() < deadline:
            time.sleep(0.1)
        assert json.load(open(file))['pid'] != first
        """,
    )
    assert "holds" not in said, said
    assert server.points("x")["value"] == [float(i) for i in range(100)]


def test_the_agent_is_nobodys_child_and_holds_no_pipe(server: Server, spool: Path) -> None:
    """`train.py | tee log` ends when training ends."""
    start = time.monotonic()
    train(server, "kymogram.log('x', 1.0)\nassert kymogram.flush(30)")
    assert time.monotonic() - start < 20
    pid = agent(spool)
    assert pid is not None
    with Path(f"/proc/{pid}/environ").open("rb") as environ:
        assert b"API_KEY" not in environ.read()
    assert os.readlink(f"/proc/{pid}/cwd") == "/"
    assert os.getsid(pid) != os.getsid(0)
    outputs = {os.readlink(f"/proc/{pid}/fd/{n}") for n in (1, 2)}
    assert outputs <= {str(spool / "agent.log"), "/dev/null"}


def test_resumed_steps_go_on(server: Server, spool: Path) -> None:
    code = "for i in range(5): kymogram.log('loss', float(i))\nkymogram.close()"
    train(server, code)
    os.environ["KYMOGRAM_ORCHESTRATION_ID"] = reader_orchestration(server)
    train(server, "assert kymogram.get_last_step('loss') == 4\n" + code)
    assert server.points("loss")["step"] == list(range(10))


def reader_orchestration(server: Server) -> str:
    run = server.get(f"/api/v1/runs/{server.runs()[0]['id']}")
    return str(run["orchestration_id"])


def test_spawned_children_meet_in_one_run(server: Server, spool: Path, tmp_path: Path) -> None:
    script = tmp_path / "train.py"
    script.write_text(
        textwrap.dedent("""
        import multiprocessing, kymogram

        def work(me):
            kymogram.init()
            kymogram.log_distributed('loss', float(me), step=1)

        if __name__ == '__main__':
            multiprocessing.set_start_method('spawn')
            kymogram.init()
            pool = [multiprocessing.Process(target=work, args=(me,)) for me in range(2)]
            for p in pool: p.start()
            for p in pool: p.join()
            kymogram.log_distributed('loss', 2.0, step=1)
        """)
    )
    environment = {**os.environ, "PYTHONPATH": str(SOURCE), "KYMOGRAM_SERVER": server.address}
    environment["KYMOGRAM_BINARY"] = str(BINARY)
    subprocess.run([sys.executable, str(script)], env=environment, check=True, timeout=60)
    sync(spool)
    (run,) = server.runs()
    assert (run["attempt"], run["status"]) == (1, "finished")
    assert sorted(server.points("loss")["value"]) == [0, 1, 2]


def test_everything_is_gone_from_the_spool(server: Server, spool: Path) -> None:
    train(server, "kymogram.log('x', 1.0)")
    deadline = time.monotonic() + 10
    while reader.writers(spool) and time.monotonic() < deadline:
        time.sleep(0.05)
    assert reader.writers(spool) == []


@pytest.mark.parametrize(
    ("document", "enough"), [('{"protocol":2}', 0), ('{"protocol":3}', 1), ("", 1)]
)
def test_a_deliverer_of_an_older_protocol_is_not_enough(
    tmp_path: Path, document: str, enough: bool
) -> None:
    assert not _agent.delivers(str(tmp_path))
    lock = folders.flock(str(tmp_path / "agent.lock"))
    assert lock is not None
    (tmp_path / "agent.json").write_text(document)
    assert _agent.delivers(str(tmp_path)) == bool(enough)
    os.close(lock)
