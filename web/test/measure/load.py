"""Log the sets of docs/design/targets.md into KYMOGRAM_SERVER: load.py A | B | C | D | K | H | M | R | L.

A: 50 runs of 20 metrics of 2,000 steps, one with one spike. B: 5,000 metrics of
100 steps. C and D: 1 M and 10 M points with one spike and three NaN. K: 10,000
series of 4 points, H: 100,000, M: 1 M. R: 2,000 runs of 50 metrics of 50 steps.
L: a run that logs each number it reads, see measure.test.ts.
Each value comes from a seed, so that every machine has the same.

load.py SET --tensorboard DIR writes the same points as event files of TensorBoard.
"""

import argparse
import importlib
import math
import pathlib
import random
import sys
import time

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


class Kymogram:
    """Runs of a project of the server."""

    def __init__(self, project):
        self.kymogram = importlib.import_module("kymogram")
        self.project = project

    def open(self, name, config=None):
        return self.kymogram.init(project_name=self.project, run_name=name, config=config)

    def log(self, metric, values, step=0):
        self.kymogram.log(metric, values, step=step)

    def close(self):
        self.kymogram.close()


class TensorBoard:
    """Event files, one folder a run."""

    def __init__(self, folder):
        files = importlib.import_module("tensorboard.summary.writer.event_file_writer")
        protos = importlib.import_module("tensorboard.compat.proto.event_pb2")
        self.new, self.event = files.EventFileWriter, protos.Event
        self.folder = folder

    def open(self, name, config=None):
        self.writer = self.new(str(self.folder / name), max_queue_size=10_000)

    def log(self, metric, values, step=0):
        for at, value in enumerate(values, step):
            event = self.event(step=at, wall_time=1.7e9 + at)
            event.summary.value.add(tag=metric, simple_value=value)
            self.writer.add_event(event)

    def close(self):
        self.writer.close()


def sweep(sink):
    for k in range(50):
        config = {"lr": 10 ** (-4 + 3 * k / 49), "seed": k, "model": ["small", "large"][k % 2]}
        sink.open(f"sweep-{k:02d}", config)
        for j, metric in enumerate(METRICS):
            values = curve(2000, 2.4, 0.3 + k * 0.01 + j * 0.05, 4, 0.12, f"{k}/{metric}")
            if k == 17 and metric == "optim/grad_norm":
                values[1234] = 1000.0
            sink.log(metric, values)
        sink.close()


def wide(sink):
    sink.open("wide-5000")
    for i in range(1250):
        for what in OF_LAYER:
            sink.log(f"layers/{i}/{what}", curve(100, 6, 1 + i % 7, 4, 0.5, f"{i}{what}"))
    sink.close()


def long(sink, n, name, chunk=50_000):
    sink.open(name)
    gauss = random.Random(n).gauss
    special = {618_033: 1000.0, 250_000: math.nan, 250_001: math.nan, 700_000: math.nan}
    for start in range(0, n, chunk):
        steps = range(start, min(start + chunk, n))
        values = [special.get(s, 0.6 + 1.3 * math.exp(-5 * s / n) + gauss(0, 0.05)) for s in steps]
        sink.log("train/loss", values, step=start)
    sink.close()


def huge(sink, layers, name):
    sink.open(name)
    for i in range(layers):
        for what in OF_LAYER:
            values = [1 / (1 + s) + i * 1e-4 for s in range(4)]
            sink.log(f"block{i // 250}/layer{i % 250}/{what}", values)
    sink.close()


def crowd(sink):
    for k in range(2000):
        sink.open(f"crowd-{k:04d}", {"lr": 10 ** (-4 + 3 * (k % 50) / 49), "seed": k})
        for j in range(50):
            sink.log(f"part{j // 10}/metric{j % 10}", curve(50, 2.4, 0.3 + j * 0.05, 4, 0.12, f"{k}/{j}"))
        sink.close()


def live(sink):
    run = sink.open(f"live-{int(time.time())}")
    print(run.id, flush=True)
    for line in sys.stdin:
        sink.kymogram.log("train/loss", float(line))
        print(time.time() * 1000, flush=True)
    sink.close()


SETS = {
    "A": sweep,
    "B": wide,
    "C": lambda sink: long(sink, 1_000_000, "long-1m"),
    "D": lambda sink: long(sink, 10_000_000, "long-10m"),
    "K": lambda sink: huge(sink, 2_500, "series-10k"),
    "H": lambda sink: huge(sink, 25_000, "series-100k"),
    "M": lambda sink: huge(sink, 250_000, "series-1m"),
    "R": crowd,
    "L": live,
}
PROJECTS = {"D": "C"}  # both lie in one project

parser = argparse.ArgumentParser()
parser.add_argument("set", choices=SETS)
parser.add_argument("--tensorboard", type=pathlib.Path, metavar="DIR")
asked = parser.parse_args()
sink = TensorBoard(asked.tensorboard) if asked.tensorboard else Kymogram(PROJECTS.get(asked.set, asked.set))
SETS[asked.set](sink)
