"""Files and media of a run, some of them read back through the public API."""

import struct
import time
import wave
from pathlib import Path

import kit
import numpy as np
import wandb

with wave.open("tone.wav", "wb") as file:
    file.setparams((1, 2, 8000, 0, "NONE", ""))
    file.writeframes(struct.pack("<100h", *range(100)))
Path("one.txt").write_text("one")
Path("sub").mkdir()
Path("sub/two.txt").write_text("two")
Path("live.txt").write_text("first")
Path("end.txt").write_text("end")

run = wandb.init(id="media", settings=kit.settings())
image = np.arange(300, dtype=np.uint8).reshape(10, 10, 3)
run.log({"image": wandb.Image(image, caption="a caption")})
run.log({"images": [wandb.Image(image), wandb.Image(image * 2)]})
run.log({"table": wandb.Table(columns=["a", "b"], data=[[1, "x"], [2.5, None]])})
run.log({"html": wandb.Html("<b>hi</b>"), "audio": wandb.Audio("tone.wav")})
run.log({"plot": wandb.plot.line(wandb.Table(columns=["x", "y"], data=[[1, 2], [3, 4]]), "x", "y", title="a plot")})
wandb.save("one.txt", policy="now")
wandb.save("sub/*.txt", base_path=".", policy="now")
wandb.save("live.txt", policy="live")
wandb.save("end.txt", policy="end")
time.sleep(2)
Path("live.txt").write_text("second, longer")
time.sleep(1)
run.finish()

api = wandb.Api()
read = api.run(run.path)


@kit.ask("files")
def _():
    return sorted(
        file.name
        for file in read.files(per_page=3)
        if not file.name.startswith(("media", "wandb-", "config", "output", "requirements"))
    )


@kit.ask("contents")
def _():
    return [
        read.file(name).download(root="got", replace=True).read()
        for name in ("one.txt", "sub/two.txt", "live.txt", "end.txt")
    ]


@kit.ask("media")
def _():
    rows = {
        key: row[key]
        for row in read.scan_history()
        for key in ("image", "images", "table", "html", "audio", "plot_table")
        if row.get(key)
    }
    paths = [value["path"] for value in rows.values() if "path" in value]
    paths += rows["images"].get("filenames", [])
    for path in paths:
        file = read.file(path)
        if Path(file.download(root="got", replace=True).name).stat().st_size != file.size:
            return f"{path} has another size than {file.size}"
    return {key: value["_type"] for key, value in rows.items()}


@kit.ask("table artifact")
def _():
    artifact = api.artifact(f"{run.entity}/{run.project}/run-media-table:latest")
    table = artifact.get("table")
    return [artifact.type, table.columns, table.data]


@kit.ask("upload")
def _():
    Path("later.txt").write_text("uploaded later")
    file = read.upload_file("later.txt")
    return [file.name, file.size, file.download(root="got", replace=True).read()]


@kit.ask("delete")
def _():
    read.file("one.txt").delete()
    return [file.name for file in api.run(run.path).files(names=["one.txt", "sub/two.txt"])]


@kit.ask("metadata")
def _():
    return [read.metadata["program"].endswith("media.py"), "host" in read.metadata]
