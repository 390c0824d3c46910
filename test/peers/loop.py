"""One measured loop of one logger, as JSON: python loop.py LOGGER FOLDER SERVER cpu|wall|busy|memory [NUMBER]."""

from __future__ import annotations

import gc
import itertools
import json
import os
import statistics
import sys
import time
import zlib
from collections.abc import Callable
from typing import Any

import logger as loggers

ROUND_S = 0.05  # of calls a round, so that a round fits between two ticks of a noisy machine
ROLLOUT = 64  # calls, then the loop learns for a while; without it arrays come at 1 to 2 GB/s
PAUSE_S = 0.1


def cpu_us(call: Callable[[int], object]) -> float:
    """CPU time of the calling thread for one call: the median of eleven rounds, the loop's own taken off."""
    for i in range(3):
        call(i)
    start, count = time.thread_time(), 0
    while time.thread_time() - start < 0.01:
        call(count)
        count += 1
    count = max(3, int(count * ROUND_S / 0.01))
    numbers = itertools.count(count)
    rounds = []
    for _ in range(11):
        start = time.thread_time()
        for _ in itertools.repeat(None, count):
            pass
        empty = time.thread_time() - start
        start = time.thread_time()
        for _ in itertools.repeat(None, count):
            call(next(numbers))
        rounds.append((time.thread_time() - start - empty) / count * 1e6)
    return sorted(rounds)[len(rounds) // 2]


def rollout_us(call: Callable[[int], object]) -> float:
    """The same for a loop that logs 64 calls, then learns for 0.1 s: the median of 31 rollouts."""
    numbers, rounds = itertools.count(), []
    for _ in range(32):
        start = time.thread_time()
        for _ in itertools.repeat(None, ROLLOUT):
            call(next(numbers))
        rounds.append((time.thread_time() - start) / ROLLOUT * 1e6)
        time.sleep(PAUSE_S)
    return sorted(rounds[1:])[15]


def wall_us(call: Callable[[int], object], seconds: float) -> dict[str, float]:
    """Wall time of single calls, 5,000 a second with work between them, in µs."""
    taken, now = [], time.perf_counter_ns
    end = now() + int(seconds * 1e9)
    gc.collect()
    step = 0
    while now() < end:
        start = now()
        call(step)
        stop = now()
        taken.append(stop - start)
        step += 1
        while now() - start < 200_000:
            pass
    taken.sort()
    at = lambda q: taken[min(len(taken) - 1, int(q * len(taken)))] / 1000  # noqa: E731
    return {"calls": len(taken), "p50": at(0.5), "p99": at(0.99), "p99.9": at(0.999), "max": taken[-1] / 1000}


def beside_us(call: Callable[[int], object], seconds: float) -> dict[str, float]:
    """Wall time of calls, taking turns with a computation as long as their median, in µs: on a busy
    machine both wait for a processor, and only what calls wait above that is their own."""
    now = time.perf_counter_ns
    data = bytes(range(256)) * 4096

    def compute(size: int) -> None:
        zlib.crc32(memoryview(data)[:size])

    def median(work: Callable[[], object]) -> float:
        rounds = []
        for _ in range(1001):
            start = now()
            work()
            rounds.append(now() - start)
        return statistics.median(rounds)

    numbers = itertools.count()
    wanted = median(lambda: call(next(numbers)))
    size = int(len(data) * wanted / median(lambda: compute(len(data))))
    taken: dict[str, list[int]] = {"call": [], "computation": []}
    end = now() + int(seconds * 1e9)
    while now() < end:
        for name, work in (("call", lambda: call(next(numbers))), ("computation", lambda: compute(size))):
            start = now()
            work()
            taken[name].append(now() - start)
            while now() - start < 200_000:
                pass
    found = {}
    for name, each in taken.items():
        each.sort()
        found |= {f"{name} p{q * 100:g}": each[int(q * len(each))] / 1000 for q in (0.5, 0.99, 0.999)}
    return found


def memory() -> dict[str, int]:
    """This process's own memory and all that is resident, in bytes."""
    with open("/proc/self/status") as status:
        found = {line.split(":")[0]: line.split()[1] for line in status if line.startswith(("RssAnon", "VmRSS"))}
    return {"own": int(found["RssAnon"]) << 10, "resident": int(found["VmRSS"]) << 10}


def growth(call: Callable[[int], object], points: int, limit_s: float = 60) -> dict[str, float]:
    """How memory grows while points are logged that nobody acks; stops after a minute."""
    gc.collect()
    before, end, logged = memory(), time.monotonic() + limit_s, 0
    while logged < points and time.monotonic() < end:
        for _ in range(1000):
            call(logged)
            logged += 1
    after = memory()
    return {"points": logged, **{name: (after[name] - before[name]) / 1e6 for name in after}}


def main() -> None:
    name, folder, server, what = sys.argv[1:5]
    number = float(sys.argv[5]) if len(sys.argv) > 5 else 0
    start = time.perf_counter()
    log = loggers.OPEN[name](folder, server, 2_000_000 if what == "memory" else None)
    found: dict[str, Any] = {"init_ms": (time.perf_counter() - start) * 1000}
    if what == "cpu":
        log.calls |= log.forms()
        found["cpu_us"] = {kind: cpu_us(call) for kind, call in log.calls.items()}
        found["cpu_us"] |= {f"{kind}, in rollouts": rollout_us(log.calls[kind]) for kind in log.arrays}
    elif what == "wall":
        found["wall_us"] = wall_us(log.calls["scalar"], number)
    elif what == "busy":
        found["busy_us"] = beside_us(log.forms()["vector of 1,000"], number)
    elif what == "memory":
        found["memory"] = growth(log.scalar, int(number))
    print(json.dumps(found), flush=True)
    if what != "memory":
        log.close()
    os._exit(0)  # the figures are out; what a logger still holds is thrown away


if __name__ == "__main__":
    main()
