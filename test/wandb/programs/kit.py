"""What the programs of this folder share: where they say what they saw."""

import json
import math
import os

import wandb

VERSION = tuple(int(part) for part in wandb.__version__.split(".")[:2])


def plain(value):
    """value, as JSON can say it."""
    if isinstance(value, float) and not math.isfinite(value):
        return "NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"
    if isinstance(value, dict):
        return {str(key): plain(item) for key, item in value.items()}
    if isinstance(value, (list, tuple, set)):
        return [plain(item) for item in value]
    return value if isinstance(value, (int, float, str, bool)) or value is None else str(value)


def say(name, value):
    """Tells the test a value; each is a line of the file that it reads."""
    with open(os.environ["SAY"], "a") as out:
        out.write(json.dumps([name, plain(value)]) + "\n")


def ask(name):
    """Says what a function returns, or how it fails; used as a decorator."""

    def run(function):
        try:
            say(name, function())
        except Exception as err:
            say(name, f"{type(err).__name__}: {err}")

    return run


def settings(**more):
    """Settings that sample the machine each second, by the names of this version."""
    if VERSION >= (0, 20):
        more.setdefault("x_stats_sampling_interval", 1.0)
    elif VERSION >= (0, 19):
        more.setdefault("_stats_sampling_interval", 1.0)
    elif VERSION >= (0, 16):
        more.setdefault("_stats_sample_rate_seconds", 1.0)
        more.setdefault("_stats_samples_to_average", 1)
    return wandb.Settings(**more)
