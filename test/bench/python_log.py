"""CPU time of the calling thread for each kind of log call: python test/bench/python_log.py [FOLDER].

Prints the best and the median of eleven rounds in µs, with the loop's own cost taken off. No server and no agent; the
spool lies in FOLDER (default: a temporary folder), so that file systems can be compared. Rows with arrays need NumPy.
"""

from __future__ import annotations

import fcntl
import itertools
import os
import statistics
import sys
import tempfile
import time
from collections.abc import Callable

ROUNDS = 11


def measure(call: Callable[[], object], count: int) -> tuple[float, float]:
    call()
    rounds = []
    for _ in range(ROUNDS):
        start = time.thread_time()
        for _ in itertools.repeat(None, count):
            pass
        empty = time.thread_time() - start
        start = time.thread_time()
        for _ in itertools.repeat(None, count):
            call()
        rounds.append((time.thread_time() - start - empty) / count * 1e6)
    return min(rounds), statistics.median(rounds)


def main() -> None:
    os.environ["KYMOGRAM_SPOOL_DIR"] = sys.argv[1] if len(sys.argv) > 1 else tempfile.mkdtemp(prefix="kymogram-")
    os.makedirs(os.environ["KYMOGRAM_SPOOL_DIR"], 0o700, exist_ok=True)
    # Whoever holds this lock delivers: so no agent is started.
    lock = os.open(os.path.join(os.environ["KYMOGRAM_SPOOL_DIR"], "agent.lock"), os.O_RDWR | os.O_CREAT, 0o600)
    fcntl.flock(lock, fcntl.LOCK_EX)
    import kymogram

    kymogram.init(server="http://127.0.0.1:9", run_name="bench", log_level="OFF", close_timeout=0)
    log, step = kymogram.log, itertools.count().__next__
    row = {f"metric{i}": i / 10 for i in range(10)}
    calls: list[tuple[str, int, Callable[[], object]]] = [
        ("log(name, 0.5)", 20_000, lambda: log("loss", 0.5)),
        ("log(name, 0.5, step=i)", 20_000, lambda: log("stepped", 0.5, step=step())),
        ("log(name, int)", 20_000, lambda: log("integer", 3)),
        ("log(name, 0.5, labels, evaluation)", 20_000, lambda: log("x", 0.5, labels={"a": "b"}, evaluation=True)),
        ("log_distributed(name, 0.5, step=i)", 10_000, lambda: kymogram.log_distributed("d", 0.5, step=step())),
        ("log(mapping of 10)", 10_000, lambda: log(row)),
        ("log(mapping of 10, step=i)", 10_000, lambda: log(dict(row, other=1.0), step=step())),
        ("log(list of 1,000)", 500, lambda: log("list", values)),
    ]
    values = [0.5] * 1000
    try:
        import numpy as np
    except ImportError:
        print("NumPy is not here: the rows with arrays are left out")
    else:
        environments = [f"env{i}" for i in range(64)]
        vector, single = np.full(1000, 0.5), np.float32(0.5)
        rewards, block = np.full(64, 0.5, "f4"), np.full((64, 128), 0.5, "f4")
        episodes = np.zeros(64, "i8")
        grid = np.zeros((64, 128), "i8")
        reward = kymogram.log_rl_environment_step
        calls += [
            ("log(name, numpy.float32)", 20_000, lambda: log("np", single)),
            ("log(array of 1,000)", 500, lambda: log("vector", vector)),
            ("64 environments", 2_000, lambda: reward("r", rewards, 1, env_id=environments, episode=episodes)),
            ("64 × 128", 100, lambda: reward("b", block, 1, env_id=environments, episode=episodes)),
            ("64 × 128, an episode a value", 100, lambda: reward("b", block, 1, env_id=environments, episode=grid)),
        ]
    print(f"{'µs of CPU a call':36} {'best':>8} {'median':>8}")
    for name, count, call in calls:
        best, median = measure(call, count)
        print(f"{name:36} {best:8.2f} {median:8.2f}")
    kymogram.close(0)


if __name__ == "__main__":
    main()
