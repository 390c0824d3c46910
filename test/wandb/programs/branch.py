"""Rewinds a run, and forks one off."""

import sys

import kit
import wandb

run = wandb.init(id="trunk", config={"a": 1})
for i in range(10):
    run.log({"x": i})
run.finish()


def branch(name, **how):
    @kit.ask(name)
    def _():
        run = wandb.init(**how)
        kit.say(name + " config", {key: value for key, value in dict(run.config).items() if key != "_wandb"})
        for i in range(3):
            run.log({"x": 100 + i})
        run.finish()
        return run.id


if "fork" in sys.argv:
    branch("fork", id="fork", fork_from="trunk?_step=3", config={"c": 3})
if "rewind" in sys.argv:
    branch("rewind", id="trunk", resume_from="trunk?_step=4", config={"b": 2})
    branch("absent", id="absent", resume_from="absent?_step=4")

api = wandb.Api()
for name in ("trunk", "fork"):

    @kit.ask("rows of " + name)
    def _(name=name):
        return [[row["_step"], row["x"]] for row in api.run(name).scan_history()]
