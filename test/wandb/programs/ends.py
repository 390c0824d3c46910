"""A run that ends in the way that is asked for."""

import os
import signal
import sys
import time

import wandb

run = wandb.init(id=sys.argv[1])
for i in range(20):
    run.log({"x": i})
if sys.argv[1] == "exception":
    raise ValueError("boom")
elif sys.argv[1] == "exit":
    sys.exit(3)
elif sys.argv[1] == "finish":
    run.finish(exit_code=7)
elif sys.argv[1] == "interrupt":
    signal.signal(signal.SIGINT, signal.default_int_handler)
    os.kill(os.getpid(), signal.SIGINT)
    time.sleep(30)
elif sys.argv[1] == "kill":
    time.sleep(3)  # old SDKs send each two seconds
    os.kill(os.getpid(), signal.SIGKILL)
