"""Log the sets of docs/design/targets.md into KYMOGRAM_SERVER: load.py A | B | C | D | H | L.

A: 50 runs of 20 metrics of 2,000 steps, one with one spike. B: 5,000 metrics of
100 steps. C and D: 1 M and 10 M points with one spike and three NaN. H: 100,000
series of 4 points. L: a run that logs each number it reads, see measure.test.ts.
"""

import math
import random
import sys
import time

import kymogram

METRICS = [
    *("train/loss", "train/accuracy", "eval/loss", "eval/accuracy", "optim/lr", "optim/grad_norm"),
    *(f"layers/{i}/grad_norm" for i in range(6)),
    *(f"layers/{i}/weight_norm" for i in range(6)),
    *("time/step_ms", "time/data_ms"),
]
OF_LAYER = ("grad_norm", "weight_norm", "act_mean", "act_std")


def curve(n, start, end, rate, noise, seed):
    """A noisy exponential from start to end."""
    gauss = random.Random(seed).gauss
    out, drift = [], 0.0
    for i in range(n):
        drift = drift * 0.97 + gauss(0, 0.25)
        e = math.exp(-i / n * rate)
        out.append(end + (start - end) * e + (drift + gauss(0, 0.5)) * noise * (0.3 + e))
    return out


def sweep():
    for k in range(50):
        config = {"lr": 10 ** (-4 + 3 * k / 49), "seed": k, "model": ["small", "large"][k % 2]}
        kymogram.init(project_name="A", run_name=f"sweep-{k:02d}", config=config)
        for j, metric in enumerate(METRICS):
            values = curve(2000, 2.4, 0.3 + k * 0.01 + j * 0.05, 4, 0.12, f"{k}/{metric}")
            if k == 17 and metric == "optim/grad_norm":
                values[1234] = 1000.0
            kymogram.log(metric, values)
        kymogram.close()


def wide():
    kymogram.init(project_name="B", run_name="wide-5000")
    for i in range(1250):
        for what in OF_LAYER:
            kymogram.log(f"layers/{i}/{what}", curve(100, 6, 1 + i % 7, 4, 0.5, f"{i}{what}"))
    kymogram.close()


def long(n, name, chunk=50_000):
    kymogram.init(project_name="C", run_name=name)
    gauss = random.Random(n).gauss
    special = {618_033: 1000.0, 250_000: math.nan, 250_001: math.nan, 700_000: math.nan}
    for start in range(0, n, chunk):
        steps = range(start, min(start + chunk, n))
        values = [special.get(s, 0.6 + 1.3 * math.exp(-5 * s / n) + gauss(0, 0.05)) for s in steps]
        kymogram.log("train/loss", values, step=start)
    kymogram.close()


def huge():
    kymogram.init(project_name="H", run_name="series-100k")
    for i in range(25_000):
        for what in OF_LAYER:
            values = [1 / (1 + s) + i * 1e-4 for s in range(4)]
            kymogram.log(f"block{i // 250}/layer{i % 250}/{what}", values)
    kymogram.close()


def live():
    run = kymogram.init(project_name="L", run_name=f"live-{int(time.time())}")
    print(run.id, flush=True)
    for line in sys.stdin:
        kymogram.log("train/loss", float(line))
        print(time.time() * 1000, flush=True)
    kymogram.close()


SETS = {
    "A": sweep,
    "B": wide,
    "C": lambda: long(1_000_000, "long-1m"),
    "D": lambda: long(10_000_000, "long-10m"),
    "H": huge,
    "L": live,
}
SETS[sys.argv[1]]()
