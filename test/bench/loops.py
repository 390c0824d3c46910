"""The loops that bench.py times, each in a process of its own: python loops.py KIND COUNT SERVER."""

from __future__ import annotations

import statistics
import sys
import time
from collections.abc import Callable

ROUNDS = 7


def timed(call: Callable[[int], object], count: int) -> float:
    """The median over rounds of the time of one call, in µs; the loop's own time is taken off."""
    rounds = []
    for r in range(ROUNDS):
        start = time.perf_counter_ns()
        for _ in range(count):
            pass
        empty = time.perf_counter_ns() - start
        start = time.perf_counter_ns()
        for i in range(r * count, (r + 1) * count):
            call(i)
        rounds.append((time.perf_counter_ns() - start - empty) / count / 1000)
    return statistics.median(rounds)


def kymogram_calls(kind: str) -> Callable[[int], object]:
    import kymogram

    names = [f"m{i}" for i in range(10)]
    envs = [f"env{i}" for i in range(64)]
    block = [[0.5] * 128] * 64
    try:  # an array is what a training has at hand
        import numpy as np

        vector, row, block = np.full(1000, 0.5), np.full(64, 0.5), np.full((64, 128), 0.5)
    except ImportError:
        vector, row = [0.5] * 1000, [0.5] * 64
    return {
        "scalar": lambda i: kymogram.log("loss", 0.5),
        "scalar with step": lambda i: kymogram.log("loss", 0.5, step=i),
        "mapping of 10": lambda i: kymogram.log(dict.fromkeys(names, 0.5)),
        "vector of 1000": lambda i: kymogram.log("vector", vector),
        "64 environments": lambda i: kymogram.log_rl_environment_step("reward", row, i, env_id=envs, episode=0),
        "64 × 128": lambda i: kymogram.log_rl_environment_step("reward", block, i, env_id=envs, episode=0),
    }[kind]


def main() -> None:
    kind, count, server = sys.argv[1], int(sys.argv[2]), sys.argv[3]
    import kymogram

    kymogram.init(project_name="bench", server=server)
    print(f"{timed(kymogram_calls(kind), count):.3f}")
    sys.stdout.flush()
    kymogram.close(close_timeout=120)


if __name__ == "__main__":
    main()
