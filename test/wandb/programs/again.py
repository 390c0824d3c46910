"""Opens the run "again" with the arguments given as JSON, and logs two rows."""

import json
import sys

import kit
import wandb


@kit.ask("open")
def _():
    run = wandb.init(**json.loads(sys.argv[1]))
    kit.say("config", dict(run.config))
    kit.say("summary", {key: run.summary[key] for key in run.summary.keys() if not key.startswith("_")})  # noqa: SIM118
    kit.say("tags", sorted(run.tags or ()))
    kit.say("starting", [run.id, run.name, run.resumed, run.starting_step])
    for i in range(int(sys.argv[2])):
        run.log({"x": i, "life": sys.argv[3]})
    print("a line of", sys.argv[3])
    run.finish()
    return "done"
