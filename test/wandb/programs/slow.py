"""Logs for a while, in which the test kills the server."""

import sys
import time

import kit
import wandb

run = wandb.init(id="slow")
kit.say("ready", True)
for i in range(int(sys.argv[1])):
    run.log({"x": i})
    time.sleep(0.05)
run.finish()
