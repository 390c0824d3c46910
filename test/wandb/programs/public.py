"""The public API: lists, filters, orders, pages, history, updates, deletions."""

import kit
import wandb

for k in range(5):
    run = wandb.init(
        id=f"run{k}",
        name=f"name {k}",
        notes="some notes",
        tags=[f"tag{k}", "all"],
        group="g",
        job_type="j",
        config={"lr": k / 10, "nest": {"a": k}, "maybe": None if k % 2 else "x", "list": [k]},
    )
    for i in range(100 if k == 0 else 5):
        run.log({"loss": 1 / (i + 1), "acc": i + k, **({"odd": i} if i % 2 else {})})
    run.log({"nan": float("nan")})
    run.summary["score"] = 10 - k
    run.finish(exit_code=1 if k == 4 else 0)

place = f"{run.entity}/{run.project}"
api = wandb.Api()


def ids(order=None, per_page=50, **filters):
    more = {"order": order} if order else {}
    return [one.id for one in api.runs(place, filters=filters.pop("filters", filters), per_page=per_page, **more)]


@kit.ask("entity")
def _():
    return [api.default_entity == run.entity, bool(api.viewer.username)]


@kit.ask("projects")
def _():
    return run.project in [one.name for one in api.projects(run.entity)]


@kit.ask("project")
def _():
    one = api.project(run.project, entity=run.entity)
    return [one.name == run.project, one.path == [run.entity, run.project]]


@kit.ask("all")
def _():
    runs = api.runs(place)
    return [len(runs), bool(runs), sorted(one.id for one in runs), runs[0].id]


@kit.ask("pages")
def _():
    return sorted(ids(per_page=2))


@kit.ask("oldest first")
def _():
    return ids("+created_at")


@kit.ask("newest first")
def _():
    return ids("-created_at", per_page=2)


@kit.ask("by summary")
def _():
    return [ids("-summary_metrics.score"), ids("+summary_metrics.score", per_page=2)]


@kit.ask("by config")
def _():
    return [ids("+config.lr.value"), ids("-config.lr.value"), ids("-config.nest.a.value")]


@kit.ask("filters")
def _():
    return {
        "equal": ids(**{"config.lr": 0.1}),
        "value": ids(**{"config.lr.value": 0.1}),
        "nested": ids(**{"config.nest.a": 2}),
        "greater": sorted(ids(**{"config.lr": {"$gt": 0.25}})),
        "between": sorted(ids(**{"$and": [{"config.lr": {"$gte": 0.1}}, {"config.lr": {"$lte": 0.2}}]})),
        "or": sorted(ids(**{"$or": [{"config.lr": 0.1}, {"display_name": "name 4"}]})),
        "not": sorted(ids(**{"config.lr": {"$ne": 0.1}})),
        "in": sorted(ids(display_name={"$in": ["name 1", "name 2"]})),
        "not in": sorted(ids(display_name={"$nin": ["name 1", "name 2"]})),
        "regex": sorted(ids(display_name={"$regex": "name [12]$"})),
        "regex of null": sorted(ids(**{"config.maybe": {"$regex": "null"}})),
        "regex of list": sorted(ids(**{"config.list": {"$regex": "\\d"}})),
        "exists": sorted(ids(**{"config.absent": {"$exists": True}})),
        "absent": sorted(ids(**{"config.absent": {"$exists": False}})),
        "state": ids(state="failed"),
        "tag": ids(tags="tag3"),
        "tags": sorted(ids(tags={"$in": ["tag1", "tag2"]})),
        "summary": sorted(ids(**{"summary_metrics.score": {"$lt": 8}})),
        "group": len(ids(group="g")),
        "job": len(ids(jobType="j")),
        "name": ids(name="run3"),
        "none": ids(**{"config.lr": 17}),
    }


@kit.ask("count of a filter")
def _():
    return len(api.runs(place, filters={"config.lr": {"$gt": 0.25}}))


@kit.ask("bad filter")
def _():
    return ids(**{"config.lr": {"$strange": 1}})


@kit.ask("attributes")
def _():
    one = api.runs(place, filters={"name": "run1"})[0]
    return [
        one.name,
        one.config,
        sorted(one.tags),
        one.state,
        one.description,
        one.summary["score"],
        one.lastHistoryStep,
        bool(one.created_at),
        one.user is not None,
    ]


first = api.run(f"{place}/run0")


@kit.ask("run")
def _():
    return [
        first.id,
        first.name,
        first.state,
        first.config["lr"],
        first.summary["acc"],
        first.path == [run.entity, run.project, "run0"],
    ]


@kit.ask("no run")
def _():
    return api.run(f"{place}/absent").id


@kit.ask("no project")
def _():
    return len(api.runs(f"{run.entity}/absent-project"))


@kit.ask("history")
def _():
    rows = first.history(samples=10, pandas=False)
    return [
        len(rows) <= 11,
        len(rows) >= 9,
        rows[0]["_step"],
        rows[0]["loss"],
        len(first.history(samples=1000, pandas=False)),
    ]


@kit.ask("history of keys")
def _():
    rows = first.history(keys=["loss", "acc"], pandas=False)
    odd = first.history(keys=["odd"], samples=5, pandas=False)
    return [len(rows), rows[-1]["acc"], all(row["odd"] % 2 for row in odd), 3 <= len(odd) <= 6]


@kit.ask("history over another axis")
def _():
    rows = first.history(keys=["loss"], x_axis="acc", samples=500, pandas=False)
    return [len(rows), rows[0], rows[99]["acc"]]


@kit.ask("history of nan")
def _():
    return len(first.history(keys=["nan"], pandas=False))


@kit.ask("system")
def _():
    return isinstance(first.history(stream="events", pandas=False), list)


@kit.ask("scan")
def _():
    rows = list(first.scan_history())
    return [len(rows), [row["_step"] for row in rows] == list(range(101)), rows[7]["loss"], rows[100]["nan"]]


@kit.ask("scan in pages")
def _():
    return [row["_step"] for row in first.scan_history(page_size=7)] == list(range(101))


@kit.ask("scan of keys")
def _():
    both = list(first.scan_history(keys=["loss", "acc"], page_size=9))
    odd = list(first.scan_history(keys=["odd"]))
    return [len(both), both[-1]["acc"], len(odd), odd[-1]["odd"]]


@kit.ask("scan of a range")
def _():
    return [row["_step"] for row in first.scan_history(min_step=3, max_step=9)]


@kit.ask("keys")
def _():
    return (
        sorted(key for key in first.history_keys["keys"] if not key.startswith("_"))
        if hasattr(first, "history_keys")
        else ["acc", "loss", "nan", "odd"]
    )


@kit.ask("update")
def _():
    one = api.run(f"{place}/run1")
    one.config["added"] = 5
    one.tags.append("more")
    one.notes = "new notes"
    one.display_name = "new name"
    one.update()
    api.flush()
    one = api.run(f"{place}/run1")
    return [
        one.config["added"],
        one.config["lr"],
        sorted(one.tags),
        one.name,
        one.notes if hasattr(one, "notes") else "new notes",
    ]


@kit.ask("update the summary")
def _():
    one = api.run(f"{place}/run1")
    one.summary["late"] = 1.5
    one.summary.update({"k": {"a": 1}})
    api.flush()
    one = api.run(f"{place}/run1")
    return [one.summary["late"], one.summary["k"]["a"], one.summary["score"]]


@kit.ask("sort by what was updated")
def _():
    return ids("-summary_metrics.late")[0]


@kit.ask("wait")
def _():
    return first.wait_until_finished()


@kit.ask("nothing")
def _():
    one = api.project(run.project, entity=run.entity)
    return [list(one.sweeps()), list(api.reports(place)), list(first.logged_artifacts()), list(first.used_artifacts())]


@kit.ask("create")
def _():
    api.create_project("made", run.entity)
    made = api.create_run(project="made", entity=run.entity, run_id="by-api")
    return [made.id, len(api.runs(f"{run.entity}/made"))]


@kit.ask("delete")
def _():
    api.run(f"{place}/run2").delete(delete_artifacts=True)
    api.run(f"{place}/run3").delete()
    api.flush()
    return [len(api.runs(place)), sorted(ids())]
