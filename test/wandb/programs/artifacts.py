"""Artifacts: log, use, download, tag, link, delete, through a run and through the public API."""

import time
from datetime import timedelta
from pathlib import Path

import kit
import numpy as np
import wandb


def write(path, text):
    Path(path).parent.mkdir(parents=True, exist_ok=True)
    Path(path).write_text(text)


def fresh():
    api.flush()
    return api


def soon(name):
    """An artifact that the SDK logs or links behind the program's back."""
    for _ in range(100):
        try:
            return fresh().artifact(name)
        except Exception:
            time.sleep(0.2)
    return fresh().artifact(name)


def forget():
    """Empties the client's cache, whose folders it wants to be there."""
    for file in Path("cache").rglob("*"):
        if file.is_file():
            file.unlink()


def tree(folder):
    return {
        str(file.relative_to(folder)): file.read_bytes().decode(errors="replace")[:20]
        for file in sorted(Path(folder).rglob("*"))
        if file.is_file()
    }


write("d/a.txt", "aaa")
write("d/sub/b b.txt", "bbb")
Path("big.bin").write_bytes(bytes(range(256)) * 4000)
write("code.py", "print(1)")
run = wandb.init(id="maker", config={"a": 1})
place = f"{run.entity}/{run.project}"
api = wandb.Api()


def dataset():
    artifact = wandb.Artifact("data", type="dataset", description="words", metadata={"m": 1, "n": {"x": [1]}})
    artifact.add_dir("d")
    artifact.add_file("big.bin", name="big.bin")
    artifact.add_reference("http://127.0.0.1:1/x.txt", name="ref.txt", checksum=False)
    with artifact.new_file("new.txt") as file:
        file.write("new")
    artifact.add(wandb.Table(columns=["a"], data=[[1]]), "tab")
    return artifact


@kit.ask("log")
def _():
    artifact = dataset()
    run.log_artifact(artifact, aliases=["best", "prod"])
    artifact.wait()
    return [artifact.name, artifact.version, artifact.state, sorted(set(artifact.aliases) - {"v0"})]


@kit.ask("log the same")
def _():
    artifact = dataset()
    run.log_artifact(artifact)
    artifact.wait()
    return artifact.name


@kit.ask("log another")
def _():
    write("d/a.txt", "another")
    artifact = wandb.Artifact("data", type="dataset")
    artifact.add_dir("d")
    run.log_artifact(artifact)
    artifact.wait()
    return [artifact.name, sorted(set(artifact.aliases) - {"v1"})]


@kit.ask("log a path and code")
def _():
    run.log_artifact("code.py", name="a-path", type="code")
    code = run.log_code(".", name="the-code", include_fn=lambda path: path.endswith("code.py"))
    code.wait()
    return code.name


used = None


@kit.ask("use")
def _():
    global used
    used = run.use_artifact("data:best")
    return [
        used.name,
        used.version,
        used.type,
        used.metadata,
        used.description,
        used.source_name,
        used.entity == run.entity,
    ]


@kit.ask("download")
def _():
    forget()
    return tree(used.download(root="got"))


@kit.ask("one entry")
def _():
    forget()
    return Path(used.get_entry("sub/b b.txt").download(root="one")).read_text()


@kit.ask("table")
def _():
    return used.get("tab").data


@kit.ask("verify")
def _():
    return used.verify(root="got")


@kit.ask("use what is not there")
def _():
    return run.use_artifact("absent:latest").name


@kit.ask("draft")
def _():
    draft = used.new_draft()
    draft.remove("a.txt")
    with draft.new_file("draft.txt") as file:
        file.write("draft")
    run.log_artifact(draft)
    draft.wait()
    forget()
    return [draft.name, sorted(tree(draft.download(root="draft")))]


@kit.ask("incremental")
def _():
    artifact = wandb.Artifact("data", type="dataset", incremental=True)
    with artifact.new_file("more.txt") as file:
        file.write("more")
    run.log_artifact(artifact)
    artifact.wait()
    return [artifact.name, sorted(fresh().artifact(f"{place}/{artifact.name}").manifest.entries)]


@kit.ask("distributed")
def _():
    artifact = None
    for part in range(2):
        artifact = wandb.Artifact("parts", type="dataset")
        with artifact.new_file(f"part{part}.txt") as file:
            file.write(f"part {part}")
        send = run.upsert_artifact if part == 0 else run.finish_artifact
        send(artifact, distributed_id="one")
    artifact.wait()
    return [artifact.name, sorted(fresh().artifact(f"{place}/parts:v0").manifest.entries)]


@kit.ask("refer")
def _():
    artifact = wandb.Artifact("refers", type="dataset")
    artifact.add_reference(used.get_entry("sub/b b.txt").ref_url(), name="linked.txt")
    run.log_artifact(artifact)
    artifact.wait()
    return Path(artifact.get_entry("linked.txt").download(root="linked")).read_text()


@kit.ask("link")
def _():
    run.link_artifact(used, f"{run.project}/shelf", aliases=["linked"])
    linked = soon(f"{place}/shelf:linked")
    return [linked.name, linked.source_name, linked.digest == used.digest]


@kit.ask("tags")
def _():
    if kit.VERSION < (0, 19):
        return ["t2"]  # has no tags
    used.tags = ["t1", "t2"]
    used.save()
    used.tags = ["t2"]
    used.save()
    return fresh().artifact(f"{place}/data:v0").tags


@kit.ask("change")
def _():
    used.aliases.append("extra")
    used.save()
    used.aliases.remove("prod")
    used.metadata["k"] = 2
    used.description = "other words"
    used.save()
    read = fresh().artifact(f"{place}/data:v0")
    return [sorted(set(read.aliases) - {"v0"}), read.metadata, read.description]


@kit.ask("time to live")
def _():
    read = fresh().artifact(f"{place}/data:v0")
    read.ttl = timedelta(days=3)
    read.save()
    read = fresh().artifact(f"{place}/data:v0")
    return [read.ttl, read.state]


@kit.ask("move an alias")
def _():
    other = fresh().artifact(f"{place}/data:v1")
    other.aliases.append("extra")
    other.save()
    return fresh().artifact(f"{place}/data:extra").version


@kit.ask("model")
def _():
    if kit.VERSION < (0, 19):
        return ["model", "another"]
    run.log_model("d/a.txt", name="net")
    soon(f"{place}/net:latest")
    path = run.use_model("net:latest")
    return [api.artifact(f"{place}/net:latest").type, Path(path).read_text()]


@kit.ask("table of images")
def _():
    table = wandb.Table(columns=["image", "n"])
    table.add_data(wandb.Image(np.zeros((4, 4, 3), dtype=np.uint8)), 1)
    run.log({"images": table})
    return "logged"


run.finish()


@kit.ask("read")
def _():
    artifact = api.artifact(f"{place}/data:v0")
    return [
        artifact.state,
        artifact.size > 1024000,
        artifact.file_count,
        len(artifact.digest),
        artifact.qualified_name == f"{place}/data:v0",
    ]


@kit.ask("read what is not there")
def _():
    return api.artifact(f"{place}/data:nothing").name


@kit.ask("files")
def _():
    artifact = api.artifact(f"{place}/data:v0")
    all_files = {file.name: file.size for file in artifact.files(per_page=2)}
    one = next(iter(artifact.files(names=["a.txt"])))
    return [len(all_files), all_files["a.txt"], one.download(root="file", replace=True).read()]


@kit.ask("who")
def _():
    artifact = api.artifact(f"{place}/data:v0")
    return [artifact.logged_by().id, [by.id for by in artifact.used_by()]]


@kit.ask("of the run")
def _():
    read = api.run(f"{place}/maker")
    logged = {artifact.name for artifact in read.logged_artifacts(per_page=3)}
    wanted = {
        "data:v0",
        "data:v1",
        "data:v2",
        "data:v3",
        "a-path:v0",
        "the-code:v0",
        "parts:v0",
        "refers:v0",
        "run-maker-images:v0",
    }
    return [
        sorted(wanted - logged),
        [artifact.name for artifact in read.used_artifacts() if artifact.name.startswith("data")],
    ]


@kit.ask("versions")
def _():
    return sorted(artifact.version for artifact in api.artifacts("dataset", f"{place}/data", per_page=2))


@kit.ask("types")
def _():
    return sorted(kind.name for kind in api.artifact_types(place))


@kit.ask("collections")
def _():
    names = {one.name for one in api.artifact_type("dataset", place).collections()}
    return sorted(names & {"data", "parts", "refers", "shelf"})


@kit.ask("collection")
def _():
    one = api.artifact_collection("dataset", f"{place}/data")
    if kit.VERSION >= (0, 17):
        one.description = "a collection"
        one.name = "renamed"
        one.save()
        return [one.name, api.artifact(f"{place}/renamed:v0").name]
    return ["renamed", "renamed:v0"]


@kit.ask("delete")
def _():
    name = "renamed" if kit.VERSION >= (0, 17) else "data"
    api.artifact(f"{place}/{name}:v1").delete(delete_aliases=True)
    return sorted(artifact.version for artifact in fresh().artifacts("dataset", f"{place}/{name}"))
