"""A run on the disk for `wandb sync`: whole, or killed."""

import os
import signal
import sys
import time

import wandb

run = wandb.init(id=sys.argv[1], name="offline " + sys.argv[1], config={"a": 1}, tags=["t"], mode="offline")
for i in range(3000 if sys.argv[1] == "killed" else 300):
    run.log({"x": i, "text": f"row {i}"})
print("a line")
if sys.argv[1] == "killed":
    time.sleep(4)
    os.kill(os.getpid(), signal.SIGKILL)
with open("kept.txt", "w") as file:
    file.write("kept")
wandb.save("kept.txt", policy="now")
artifact = wandb.Artifact("offline", type="dataset")
artifact.add_file("kept.txt")
run.log_artifact(artifact)
run.finish()
