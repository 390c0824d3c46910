"""What a key may do that only logs and reads, in one workspace."""

import kit
import wandb

api = wandb.Api()


@kit.ask("log")
def _():
    run = wandb.init(id="scoped")
    run.log({"x": 1})
    run.finish()
    return [row["x"] for row in api.run("lab/sdk/scoped").scan_history()]


@kit.ask("entity")
def _():
    return api.default_entity


@kit.ask("projects")
def _():
    return [one.name for one in api.projects("lab")]


@kit.ask("read elsewhere")
def _():
    return [one.id for one in api.runs("strangers/secret")]


@kit.ask("a run elsewhere")
def _():
    return api.run("strangers/secret/hidden").id


@kit.ask("delete")
def _():
    return api.run("lab/sdk/scoped").delete()


@kit.ask("still there")
def _():
    api.flush()
    return api.run("lab/sdk/scoped").id


@kit.ask("log elsewhere")
def _():
    run = wandb.init(entity="strangers", id="intruder")
    run.log({"x": 1})
    run.finish()
    return "taken"
