"""What a user reads when the server refuses."""

import os

import kit
import wandb


def refused(name, **how):
    @kit.ask(name)
    def _():
        wandb.init(**how).finish()
        return "taken"


refused("a bad id", id="a/b")
refused("a bad project", project="x" * 300)
refused("another workspace", entity="strangers")
os.environ["WANDB_API_KEY"] = "0123456789abcdef" * 2 + "01234567"
wandb.teardown()
refused("a bad key", id="stranger")
