"""Says all that the public API knows of the runs of a project, each as one value."""

import hashlib
import os

import kit
import wandb

api = wandb.Api()


def content(file, folder):
    with file.download(root=folder, replace=True) as opened:
        return hashlib.sha256(open(opened.name, "rb").read()).hexdigest()


path = f"{os.environ['WANDB_ENTITY']}/{os.environ['WANDB_PROJECT']}"
for number, run in enumerate(api.runs(path, order="+created_at")):
    folder = os.path.join(os.environ["WANDB_DIR"], "downloads", str(number))
    kit.say(
        run.id,
        {
            "name": run.name,
            "state": run.state,
            "tags": sorted(run.tags),
            "notes": run.notes,
            "group": run.group,
            "job type": run.job_type,
            "created": run.created_at,
            "config": dict(run.config),
            "summary": dict(run.summary._json_dict),
            "metadata": run.metadata,
            "rows": list(run.scan_history()),
            "last step": run.lastHistoryStep,
            "system": run.history(stream="events", samples=10_000, pandas=False),
            "loss": list(run.scan_history(keys=["_step", "loss"])),
            "files": sorted((file.name, file.size, file.md5, content(file, folder)) for file in run.files()),
        },
    )
