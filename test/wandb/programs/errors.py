"""What a user reads when the server refuses; the arguments of init come as JSON."""

import json
import sys

import kit
import wandb


@kit.ask("answer")
def _():
    run = wandb.init(**json.loads(sys.argv[1]))
    run.log({"x": 1})
    run.finish()
    return "taken"
