"""Sixteen threads in a storm: tiny segments, collections, signals that log, switches."""

from __future__ import annotations

import os
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest

from . import reader

pytest.importorskip("numpy")

SOURCE = Path(__file__).resolve().parents[1] / "src"
CALLS = int(os.environ.get("KYMOGRAM_STORM_CALLS", "150"))
THREADS = 16

STORM = """
import gc, itertools, signal, sys, threading
import numpy as np
import kymogram
from kymogram._delivery import agent as _agent
from kymogram._spool import writer as _writer
_agent.binary = lambda: None
_writer.Writer.__init__.__kwdefaults__["first_size"] = 4096
_writer.LAST_SIZE, _writer._LARGE_CALLS = 16384, 1
threads, calls, freeze = int(sys.argv[1]), int(sys.argv[2]), sys.argv[3] == "freeze"
sys.setswitchinterval(1e-6)
kymogram.init(run_name="r", log_level="OFF", init_mode="offline")
number, depth, done = itertools.count(1), 0, threading.Event()

def handler(*_):
    # A handler that waits for the lock is interrupted by the next one, and that again.
    global depth
    if depth == 20:
        return
    depth += 1
    mine = float(next(number))
    kymogram.log("signal", mine)
    kymogram.log("signal/vector", [mine] * 30)
    depth -= 1

def storm():
    while not done.wait(0.001):
        gc.collect()
        if freeze:
            gc.freeze()

def work(me):
    envs = [f"{me}/{m}".replace("/", "-") for m in range(3)]
    for i in range(calls):
        value = float(me * calls + i)
        kymogram.log("shared", value)
        kymogram.log(f"own/{me}", value)
        kymogram.log({"shared": value, f"row/{me}": value})
        kymogram.log("vector", np.full(5, value))
        kymogram.log("labels", value, labels={"thread": str(me)})
        kymogram.log_rl_episode("return", value, 0, env_id=envs[0])
        episodes = [i // 7] * 3
        kymogram.log_rl_environment_step("reward", [value] * 3, 0, env_id=envs, episode=episodes)
        kymogram.log_rl_environment_step("common", np.full((2, 2), value), 0, env_id=["a", "b"])

signal.signal(signal.SIGALRM, handler)
signal.setitimer(signal.ITIMER_REAL, 0.002, 0.002)
pool = [threading.Thread(target=work, args=(me,)) for me in range(threads)]
pool.append(threading.Thread(target=storm, daemon=True))
for thread in pool: thread.start()
for thread in pool[:-1]: thread.join()
signal.setitimer(signal.ITIMER_REAL, 0)
done.set()
pool[-1].join()
found = kymogram.get_metrics()
print(next(number) - 1, found.float_points_added, found.rl_float_points_added)
kymogram.close(0)
"""


@pytest.mark.skipif(os.name != "posix", reason="needs setitimer")
@pytest.mark.parametrize("mode", ["collect", "freeze"])
def test_a_storm_of_threads(spool: Path, mode: str) -> None:
    """Sums are exact, each thread's order is kept, no step of a series is there twice."""
    environment = {**os.environ, "PYTHONPATH": str(SOURCE)}
    done = subprocess.run(
        [sys.executable, "-c", STORM, str(THREADS), str(CALLS), mode],
        env=environment,
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert (done.returncode, done.stderr) == (0, "")
    handled, floats, rl = map(int, done.stdout.split())
    found = reader.all_points(spool)  # checks segments, checksums and numbers, too
    values: dict[tuple[str, str], list[float]] = {}
    steps: Counter[tuple[str, str, int | None, int]] = Counter()
    for point in found:
        tail = point.labels.get("env_id") or point.labels.get("thread") or ""
        values.setdefault((point.metric, tail), []).append(float(point.value))
        episode = point.axes.get("episode")
        steps[point.metric, tail, episode, point.axes["step"]] += 1
    assert max(steps.values()) == 1
    everything = Counter(float(v) for v in range(THREADS * CALLS))
    assert Counter(values["shared", ""]) == everything + everything
    assert Counter(values["vector", ""]) == Counter(dict.fromkeys(everything, 5))
    assert Counter(values["common", "a"]) == Counter(dict.fromkeys(everything, 2))
    assert Counter(values["common", "b"]) == Counter(dict.fromkeys(everything, 2))
    for me in range(THREADS):
        mine = [float(me * CALLS + i) for i in range(CALLS)]
        own = [(f"own/{me}", ""), (f"row/{me}", ""), ("labels", str(me)), ("return", f"{me}-0")]
        for key in [*own, *(("reward", f"{me}-{m}") for m in range(3))]:
            assert values[key] == mine, key
    signals = [float(n) for n in range(1, handled + 1)]
    assert Counter(values.get(("signal", ""), [])) == Counter(signals)
    assert Counter(values.get(("signal/vector", ""), [])) == Counter(dict.fromkeys(signals, 30))
    assert floats + rl == len(found)
