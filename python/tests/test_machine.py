"""What the creating process tells about its machine, and what it keeps to itself."""

from __future__ import annotations

import os
import stat
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import kymogram
from kymogram._host import machine
from kymogram._input import attributes

from . import reader
from .test_guarantees import until
from .test_run import StandIn, server  # noqa: F401 - a fixture


@pytest.mark.parametrize(
    ("name", "value", "is_secret"),
    [
        ("SLURM_JOB_ID", "123", False),
        ("SLURM_JWT", "anything", True),
        ("SLURM_API_KEY", "1", True),
        ("TORCHELASTIC_RUN_ID", "job", False),
        ("SLURM_COMMENT", "ghp_0123456789", True),
        ("SLURM_COMMENT", "AKIAIOSFODNN7", True),
        ("SLURM_COMMENT", "https://user:word@host/x", True),
        ("SLURM_COMMENT", "https://host/a@b", False),
        ("CUDA_VISIBLE_DEVICES", "0,1", False),
    ],
)
def test_secrets(name: str, value: str, is_secret: bool) -> None:
    assert machine.secret(name, value) is is_secret


def test_only_listed_variables() -> None:
    environ = {
        "SLURM_JOB_ID": "7",
        "SLURM_SECRET": "x",
        "TORCHELASTIC_RESTART_COUNT": "1",
        "CUDA_VISIBLE_DEVICES": "0",
        "HOME": "/root",
        "AWS_REGION": "x",
        "NOT_SLURM_X": "y",
    }
    found = machine.variables(environ)
    assert set(found) == {
        "SLURM_JOB_ID",
        "SLURM_SECRET",
        "TORCHELASTIC_RESTART_COUNT",
        "CUDA_VISIBLE_DEVICES",
    }
    assert "replaced" in found["SLURM_SECRET"]


def program(folder: Path, name: str, text: str) -> None:
    folder.mkdir(exist_ok=True)
    path = folder / name
    path.write_text(f"#!/bin/sh\n{text}\n")
    path.chmod(path.stat().st_mode | stat.S_IXUSR)


@pytest.fixture
def repository(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder under git, the place where the program runs."""
    folder = tmp_path / "work"
    folder.mkdir()
    for command in (
        ["init", "-q"],
        ["-c", "user.name=a", "-c", "user.email=a@b", "commit", "-q", "--allow-empty", "-m", "x"],
    ):
        if subprocess.run(["git", *command], cwd=folder, capture_output=True).returncode:
            pytest.skip("git is not installed")
    monkeypatch.chdir(folder)
    return folder


def initial(request: dict[str, Any]) -> dict[str, Any]:
    return {one["path"]: one["value"]["value"] for one in request["initial"] if "path" in one}


def test_initial_attributes(
    server: StandIn,  # noqa: F811
    repository: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    program(tmp_path / "bin", "nvidia-smi", "echo '0, NVIDIA H200, 143771, 570.86'")
    monkeypatch.setenv("PATH", f"{tmp_path / 'bin'}{os.pathsep}{os.environ['PATH']}")
    monkeypatch.setenv("SLURM_JOB_ID", "42")
    monkeypatch.setattr(machine, "_WAIT_S", 10.0)
    kymogram.init(run_name="r", server=server.address, log_level="OFF", capture_environment=True)
    found = initial(server.requests[0][2])
    assert found["git/dirty"] is False
    assert len(found["git/commit_sha"]) == 40
    assert found["gpu/count"] == 1
    assert found["gpu/0/name"] == "NVIDIA H200"
    assert found["gpu/0/memory_mib"] == 143771
    assert found["env/SLURM_JOB_ID"] == "42"
    assert found["python/version"] == sys.version.split()[0]
    assert any(line.startswith("pytest==") for line in found["python/packages"].splitlines())
    assert found["host/name"]


def test_a_slow_program_is_not_waited_for(
    server: StandIn,  # noqa: F811
    repository: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    gate = tmp_path / "gate"
    wait = f"while [ ! -e {gate} ]; do sleep 0.05; done; echo '0, Slow, 1, 2'"
    program(tmp_path / "bin", "nvidia-smi", wait)
    monkeypatch.setenv("PATH", f"{tmp_path / 'bin'}{os.pathsep}{os.environ['PATH']}")
    run = kymogram.init(
        run_name="r", server=server.address, log_level="OFF", capture_environment=True
    )
    assert "gpu/count" not in initial(server.requests[0][2])
    gate.touch()
    spool = Path(os.environ["KYMOGRAM_SPOOL_DIR"])

    def told() -> set[Any]:
        return {u.get("path") for u in reader.updates(reader.records(reader.writers(spool)[0]))}

    run.describe_machine()  # the helper thread may have come first
    until(lambda: "gpu/0/name" in told())


def test_switched_off(server: StandIn, repository: Path) -> None:  # noqa: F811
    kymogram.init(run_name="r", server=server.address, log_level="OFF", capture_environment=False)
    assert set(initial(server.requests[0][2])) == {"git/commit_sha"}


NEWEST_GIT = os.environ.get("KYMOGRAM_TEST_GIT", "git")  # one that knows reftables: 2.45 or later


def git(folder: Path, *command: str) -> str:
    """What git says there; its word is the oracle."""
    named = ["-c", "user.name=a", "-c", "user.email=a@b", "-c", "protocol.file.allow=always"]
    done = subprocess.run(
        [NEWEST_GIT, *named, *command], cwd=folder, capture_output=True, text=True, check=False
    )
    if done.returncode and command[0] != "rev-parse":
        pytest.skip(f"this git: {done.stderr.strip()[:200]}")
    return done.stdout.strip() if done.returncode == 0 else ""


def other(repository: Path, *command: str) -> Path:
    """A repository beside it, of two commits."""
    folder = repository.parent / "other"
    folder.mkdir()
    git(folder, "init", "-q", "-b", "main", *command)
    for name in ("first", "second"):
        (folder / name).touch()
        git(folder, "add", name)
        git(folder, "commit", "-qm", name)
    return folder


def place(kind: str, repository: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where a program of this kind runs."""
    made = {"reftable": ["--ref-format=reftable"], "sha256": ["--object-format=sha256"]}
    folder = other(repository, *made.get(kind.removesuffix(" worktree"), []))
    if kind == "packed":
        git(folder, "pack-refs", "--all")
    elif kind == "detached":
        git(folder, "checkout", "-q", "HEAD~")
    elif kind.endswith("worktree"):
        git(folder, "worktree", "add", "-q", "-b", "more", "../tree", "HEAD~")
        return folder.parent / "tree"
    elif kind == "submodule":
        git(repository, "submodule", "add", "-q", str(folder), "mod")
        return repository / "mod"
    elif kind == "a branch that stands for another":
        git(folder, "symbolic-ref", "refs/heads/alias", "refs/heads/main")
        git(folder, "symbolic-ref", "HEAD", "refs/heads/alias")
    elif kind == "within a folder that is no repository":
        (folder / "in" / ".git").mkdir(parents=True)
        return folder / "in"
    elif kind == "GIT_DIR":
        monkeypatch.setenv("GIT_DIR", str(folder / ".git"))
        return repository
    elif kind == "unborn":
        git(folder, "checkout", "-q", "--orphan", "new")
    return folder


KINDS = (
    "plain,packed,detached,worktree,reftable,reftable worktree,sha256,submodule,GIT_DIR,unborn,"
    "a branch that stands for another,within a folder that is no repository"
).split(",")


@pytest.mark.parametrize("kind", KINDS)
def test_the_commit_is_gits(kind: str, repository: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    if NEWEST_GIT != "git":
        monkeypatch.setenv("PATH", os.path.dirname(NEWEST_GIT), prepend=os.pathsep)
    folder = place(kind, repository, monkeypatch)
    said = git(folder, "rev-parse", "HEAD")
    assert bool(said) is (kind != "unborn")
    assert attributes.commit(str(folder)) == (said or None)


def test_the_commit_without_git(repository: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    said = git(repository, "rev-parse", "HEAD")
    monkeypatch.setenv("PATH", str(repository))
    assert attributes.commit(str(repository)) == said
    (repository / ".git" / "HEAD").write_text("ref: refs/heads/.invalid")
    assert attributes.commit(str(repository)) is None
