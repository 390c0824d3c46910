"""What survives: forks, spawns, exits of every kind, SIGKILL at any instant, a full disk."""

from __future__ import annotations

import fcntl
import os
import random
import signal
import subprocess
import sys
import textwrap
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

from . import reader
from .rig import Served

SOURCE = Path(__file__).resolve().parents[1] / "src"


def hold_agent_lock(folder: Path) -> int:
    """Keep the programs of these tests from starting an agent, whatever binary is around."""
    folder.mkdir(mode=0o700, exist_ok=True)
    lock = os.open(folder / "agent.lock", os.O_RDWR | os.O_CREAT, 0o600)
    fcntl.flock(lock, fcntl.LOCK_EX)
    return lock


@pytest.fixture(autouse=True)
def no_agent(spool: Path) -> Iterator[None]:
    lock = hold_agent_lock(spool)
    yield
    os.close(lock)


def start(code: str, *args: str) -> subprocess.Popen[bytes]:
    """Run a program that imports kymogram; no agent, no server."""
    environment = {**os.environ, "PYTHONPATH": str(SOURCE), "PATH": "/usr/bin:/bin"}
    environment.pop("KYMOGRAM_BINARY", None)
    return subprocess.Popen(
        [sys.executable, "-c", textwrap.dedent(code), *args],
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        bufsize=0,
    )


def finish(code: str, *args: str, expect: int = 0) -> tuple[str, str]:
    process = start(code, *args)
    out, err = process.communicate(timeout=60)
    assert process.returncode == expect, err.decode()
    return out.decode(), err.decode()


def values(spool: Path, metric: str = "x") -> list[float]:
    found = reader.all_points(spool)
    return [float(p.value) for p in found if p.metric == metric]


def ends(spool: Path) -> list[str]:
    found = []
    for folder in reader.writers(spool):
        last = reader.updates(reader.records(folder))[-1:]
        found.append(last[0]["text"] if last and last[0]["op"] == "close" else "open")
    return found


INIT = "import kymogram, os, sys\nkymogram.init(run_name='r', log_level='OFF', close_timeout=0)\n"


@pytest.mark.parametrize(
    ("end", "code", "status"),
    [
        ("kymogram.close()", 0, "finished"),
        ("", 0, "finished"),
        ("sys.exit(3)", 3, "finished"),
        ("with kymogram.init(run_name='r', close_timeout=0): sys.exit(3)", 3, "failed"),
        ("with kymogram.init(run_name='r', close_timeout=0): sys.exit()", 0, "finished"),
        ("raise RuntimeError('x')", 1, "failed"),
        ("os.kill(os.getpid(), 2)", -2, "failed"),
        ("os._exit(5)", 5, "open"),
        ("os.abort()", -6, "open"),
        ("os.kill(os.getpid(), 9)", -9, "open"),
        ("os.kill(os.getpid(), 15)", -15, "open"),
    ],
)
def test_every_end_keeps_every_point(spool: Path, end: str, code: int, status: str) -> None:
    finish(INIT + "for i in range(500): kymogram.log('x', float(i))\n" + end, expect=code)
    assert values(spool) == [float(i) for i in range(500)]
    assert ends(spool) == [status]


def test_exception_hooks_are_chained(spool: Path) -> None:
    code = "import sys\nsys.excepthook = lambda *a: print('mine', a[0].__name__)\n"
    out, _ = finish(code + INIT + "raise KeyError(1)", expect=1)
    assert out == "mine KeyError\n"
    assert ends(spool) == ["failed"]


def test_sigkill_at_random_instants(spool: Path) -> None:
    """Every value whose log() returned is there, none twice."""
    code = INIT + textwrap.dedent("""
        i = 0
        while True:
            for _ in range(50):
                if i % 7 == 0:
                    kymogram.log({'x': float(i), 'y': 1.0})
                elif i % 11 == 0:
                    kymogram.log('x', [float(i)], step=i)
                else:
                    kymogram.log('x', float(i))
                i += 1
                os.write(1, b'.')
        """)
    rng = random.Random(1)
    for before in range(20):
        process = start(code)
        assert process.stdout is not None
        assert process.stdout.read(1) == b"."
        time.sleep(rng.random() * 0.15)
        process.send_signal(signal.SIGKILL)
        acknowledged = 1 + len(process.communicate(timeout=30)[0])
        folder = reader.writers(spool)[before]
        found = [p.value for p in reader.points(reader.records(folder)) if p.metric == "x"]
        assert found == [float(i) for i in range(len(found))]
        assert acknowledged <= len(found) <= acknowledged + 1


def test_sigkill_with_threads_and_rotation(spool: Path) -> None:
    code = INIT + textwrap.dedent("""
        import threading
        def work(me):
            i = 0
            while True:
                kymogram.log(f't{me}', float(i))
                kymogram.log('pad', [0.0] * 300)
                os.write(1, b'%d' % me)
                i += 1
        for me in range(4):
            threading.Thread(target=work, args=(me,), daemon=True).start()
        threading.Event().wait()
        """)
    process = start(code)
    assert process.stdout is not None
    assert process.stdout.read(1)
    time.sleep(0.3)
    process.send_signal(signal.SIGKILL)
    acknowledged = Counter(process.communicate(timeout=30)[0].decode())
    assert len(list(reader.writers(spool)[0].glob("*.seg"))) > 1
    points = reader.all_points(spool)
    for me in range(4):
        found = [p.value for p in points if p.metric == f"t{me}"]
        assert found == [float(i) for i in range(len(found))]
        assert acknowledged[str(me)] <= len(found) <= acknowledged[str(me)] + 2


def test_fork(spool: Path) -> None:
    finish(
        INIT
        + textwrap.dedent("""
        for i in range(10): kymogram.log('x', float(i))
        children = []
        for c in range(3):
            pid = os.fork()
            if pid == 0:
                for i in range(20): kymogram.log('x', 100.0 * (c + 1) + i)
                kymogram.log({'x': 1.0, 'y': 2.0})
                if c == 0: os._exit(0)
                sys.exit(0)
            children.append(pid)
        for i in range(10, 20): kymogram.log('x', float(i))
        for pid in children: os.waitpid(pid, 0)
        for i in range(20, 30): kymogram.log('x', float(i))
        """)
    )
    folders = reader.writers(spool)
    assert len(folders) == 4
    parent = reader.opened(folders[0])
    assert [p.value for p in reader.points(reader.records(folders[0]))] == list(range(30))
    starts = set()
    for folder in folders[1:]:
        child = reader.opened(folder)
        assert child["parent_attempt"] == parent["writer"] == folders[0].name
        assert child["offline"] is True
        for same in ("run_name", "project", "orchestration_id", "local_run"):
            assert child[same] == parent[same]
        points = reader.points(reader.records(folder))
        assert len(points) == 22
        assert [p.axes["step"] for p in points if p.metric == "x"] == list(range(21))
        assert all(p.relative for p in points)
        starts.add(points[0].value)
    assert starts == {100.0, 200.0, 300.0}
    assert sorted(ends(spool)) == ["finished", "finished", "finished", "open"]


def test_fork_without_logging_makes_nothing(spool: Path) -> None:
    finish(
        INIT
        + textwrap.dedent("""
        kymogram.log('x', 1.0)
        pid = os.fork()
        if pid == 0:
            sys.exit(0)
        os.waitpid(pid, 0)
        kymogram.log('x', 2.0)
        """)
    )
    assert len(reader.writers(spool)) == 1
    assert values(spool) == [1.0, 2.0]


def test_fork_does_not_keep_the_parents_lock(spool: Path) -> None:
    """The deliverer sees the parent's end though a child lives on."""
    code = INIT + textwrap.dedent("""
        kymogram.log('x', 1.0)
        pid = os.fork()
        if pid == 0:
            os.write(1, b'c')
            sys.stdin.read()
            os._exit(0)
        os.write(1, b'p')
        os._exit(0)
        """)
    environment = {**os.environ, "PYTHONPATH": str(SOURCE), "PATH": "/usr/bin:/bin"}
    with subprocess.Popen(
        [sys.executable, "-c", code],
        env=environment,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    ) as process:
        assert process.stdout is not None
        assert sorted(process.stdout.read(2)) == sorted(b"cp")
        process.wait(timeout=30)
        with (reader.writers(spool)[0] / "lock").open() as lock:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)


@pytest.mark.parametrize("method", ["fork", "spawn", "forkserver"])
def test_multiprocessing(spool: Path, tmp_path: Path, method: str) -> None:
    script = tmp_path / "train.py"
    script.write_text(
        textwrap.dedent("""
        import multiprocessing, sys, kymogram

        def work(me):
            kymogram.init(log_level='OFF', close_timeout=0)
            for i in range(50):
                kymogram.log('x', float(me * 100 + i))

        if __name__ == '__main__':
            multiprocessing.set_start_method(sys.argv[1])
            kymogram.init(log_level='OFF', close_timeout=0)
            kymogram.log('x', -1.0)
            pool = [multiprocessing.Process(target=work, args=(me,)) for me in range(3)]
            for p in pool: p.start()
            for p in pool: p.join()
            assert [p.exitcode for p in pool] == [0, 0, 0]
            kymogram.log('x', -2.0)
        """)
    )
    environment = {**os.environ, "PYTHONPATH": str(SOURCE), "PATH": "/usr/bin:/bin"}
    subprocess.run([sys.executable, str(script), method], env=environment, check=True, timeout=60)
    folders = reader.writers(spool)
    assert len(folders) == 4
    opens = [reader.opened(folder) for folder in folders]
    assert len({(one["run_name"], one["orchestration_id"]) for one in opens}) == 1
    assert {one.get("parent_attempt") for one in opens[1:]} == {opens[0]["writer"]}
    assert sorted(values(spool)) == sorted(
        [-1.0, -2.0, *(float(100 * me + i) for me in range(3) for i in range(50))]
    )
    assert ends(spool) == ["finished"] * 4


def test_a_thread_in_a_call_while_another_forks(spool: Path) -> None:
    """The writer's lock is held by a thread that does not exist in the child."""
    finish(
        INIT
        + textwrap.dedent("""
        import threading
        stop = False
        def work():
            while not stop: kymogram.log('v', [1.0] * 50, step=[*range(50)])
        thread = threading.Thread(target=work); thread.start()
        for c in range(20):
            pid = os.fork()
            if pid == 0:
                kymogram.log('x', float(c)); kymogram.log('x', [0.5])
                os._exit(0)
            assert os.waitpid(pid, 0)[1] == 0
        stop = True
        thread.join()
        """)
    )
    assert sorted(values(spool)) == sorted([float(c) for c in range(20)] + [0.5] * 20)


def test_signal_handlers_may_log(spool: Path) -> None:
    finish(
        INIT
        + textwrap.dedent("""
        import signal
        handled = 0
        def handler(*_):
            global handled
            handled += 1
            kymogram.log('sig', float(handled)); kymogram.log('sig', [0.0])
        signal.signal(signal.SIGALRM, handler)
        signal.setitimer(signal.ITIMER_REAL, 0.0005, 0.0005)
        for i in range(10000):
            kymogram.log('x', float(i))
            if i % 10 == 0: kymogram.log('v', [1.0] * 60)
        signal.setitimer(signal.ITIMER_REAL, 0)
        kymogram.log('count', float(handled))
        """)
    )
    assert values(spool) == [float(i) for i in range(10000)]
    handled = int(values(spool, "count")[0])
    assert handled > 10
    assert len(values(spool, "sig")) == 2 * handled
    assert len(values(spool, "v")) == 1000 * 60


# What `import kymogram` may load of the standard library: all quick to load.
LOADED = set(
    "__future__ array atexit collections copyreg enum errno functools itertools keyword math mmap "
    "operator re reprlib sre_compile sre_constants sre_parse struct threading types warnings "
    "zlib".split()
)


def test_import_is_small_and_lazy() -> None:
    """How long an import takes depends on the machine: test/bench/bench.py measures it."""
    out, _ = finish("""
        import sys
        before = set(sys.modules)
        import kymogram
        for name in sorted(set(sys.modules) - before):
            print(name, getattr(sys.modules[name], "__file__", None))
        """)
    loaded = dict(line.split(" ", 1) for line in out.splitlines())
    roots = {name.partition(".")[0] for name in loaded}
    others = {root for root in roots if not root.startswith("_") or root == "__future__"}
    assert others - {"kymogram"} <= LOADED
    own = [Path(file) for name, file in loaded.items() if name.partition(".")[0] == "kymogram"]
    assert Path(SOURCE, "kymogram", "__init__.py") in own
    assert len(own) <= 75
    assert sum(file.stat().st_size for file in own) <= 440_000


@pytest.mark.skipif(os.geteuid() != 0, reason="needs root to mount a small tmpfs")
def test_full_disk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A full disk never raises or stalls; nothing is lost while memory holds it."""
    small = tmp_path / "small"
    small.mkdir()
    mounted = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=2m", "tmpfs", str(small)], capture_output=True
    )
    if mounted.returncode != 0:
        pytest.skip(f"mount: {mounted.stderr.decode()}")
    try:
        monkeypatch.setenv("KYMOGRAM_SPOOL_DIR", str(small))
        lock = hold_agent_lock(small)
        out, err = finish(
            """
            import os, sys, time, kymogram
            from kymogram._spool import writer as _writer
            kymogram.init(run_name='r', close_timeout=0)
            writer = kymogram._points.current.logger().writer
            writer._cap = 1 << 30
            full = sys.argv[1] + '/full'
            with open(full, 'wb', buffering=0) as f:
                try:
                    while True: f.write(bytes(65536))
                except OSError: pass
            worst = 0
            for i in range(50000):
                start = time.perf_counter()
                kymogram.log('x', float(i))
                worst = max(worst, time.perf_counter() - start)
            before = kymogram.get_metrics()
            os.unlink(full)
            time.sleep(1.1)
            kymogram.log('x', 50000.0)
            time.sleep(1.1)
            after = kymogram.get_metrics()
            print(before.points_in_memory, after.points_in_memory)
            print(after.float_points_dropped, worst)
            """,
            str(small),
        )
        held, left, dropped, worst = out.split()
        assert int(held) > 10_000
        assert int(dropped) == 0
        assert float(worst) < 0.25
        found = values(small)
        assert int(left) + len(found) == 50_001
        assert sorted(found)[: len(found)] == sorted(set(found))
        assert "dropped" in err or int(left) == 0
        os.close(lock)
    finally:
        subprocess.run(["umount", "-l", str(small)], check=True)


def test_a_program_whose_files_may_not_grow(served: Served) -> None:
    """init() fails before the server hears of the run: none is left behind as running."""
    limit = "import resource\nresource.setrlimit(resource.RLIMIT_FSIZE, (100_000, 100_000))\n"
    program = start(limit + "import kymogram\nkymogram.init(run_name='r', log_level='OFF')\n")
    _, said = program.communicate(timeout=60)
    assert program.returncode == 1
    assert b"KymogramSpoolUnavailableError: no folder can hold the spool" in said
    assert b"File too large" in said
    assert not list(served.client.projects())
    assert not list(served.spool.rglob("*.next"))
