"""A run with everything that log, config, summary and the console take."""

import sys
import time

import kit
import numpy as np
import wandb

run = wandb.init(
    id="everything",
    name="a name",
    notes="some notes",
    tags=["first", "second"],
    group="a group",
    job_type="train",
    config={
        "lr": 0.1,
        "none": None,
        "empty": [],
        "nest": {"a": {"b": 1}, "list": [1, "x"]},
        "text": "ü\U0001f600",
        "flag": True,
    },
    settings=kit.settings(),
)
print("a first line")
print("on stderr", file=sys.stderr)
for i in range(1000):
    run.log({"loss": 1 / (i + 1), "i": i})
run.log(
    {
        "text": "some text",
        "flag": True,
        "none": None,
        "list": [1, 2, 3],
        "nest": {"a": 1, "deep": {"b": 2.5, "text": "t"}},
        "nan": float("nan"),
        "inf": float("inf"),
        "minus": float("-inf"),
        "big": 2**60 + 1,
        "tiny": 1e-300,
        "third": 1 / 3,
        "float32": np.float32(0.1),
        "a.b": 5,
        "c/d": 6,
        "e f": 7,
        "hist": wandb.Histogram(np_histogram=([1, 2, 3], [0.0, 0.5, 1.0, 1.5])),
        "array": np.arange(4),
    }
)
run.log({"once": 1}, commit=False)
run.log({"more": 2})
run.log({"jump": 3}, step=5000)
run.log({"jump2": 4}, step=5000)
for percent in range(0, 101, 50):
    print(f"\r{percent}%", end="")
print()
run.summary["best"] = 0.25
run.summary.update({"deep": {"x": 1, "y": [1, 2]}, "note": "text"})
run.config.update({"later": 7}, allow_val_change=True)
run.config.update({"lr": 0.2}, allow_val_change=True)
run.name = "another name"
run.notes = "other notes"
run.tags = (*run.tags, "third")
time.sleep(3)
print("a last line")
run.finish()
