"""Every snippet of the guides runs against a real server, in order, as one program.

A python block prints what its `print(…)  # …` comments say. A block that needs a
framework (```python needs=torch) is a program of its own behind the first
block's imports; it is skipped where the framework is missing (make
test-frameworks has all).
"""

from __future__ import annotations

import importlib.util
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from itertools import groupby
from pathlib import Path

import pytest

from . import rig
from .conftest import REPOSITORY
from .rig import Served
from .test_agent import stop_agent  # noqa: F401 - the agent ends with its test

GUIDES = REPOSITORY / "docs" / "guides"
NAMES = ["ml", "rl", "crash-safety", "migrate-metrana", "migrate-wandb", "migrate-tensorboard"]
NAMES += ["migrate-neptune"]
BLOCK = re.compile(r"^```(python|sh)(?: needs=(\S+))?\n(.*?)^```$", re.M | re.S)
EXPECTED = re.compile(r"^print\(.*\)  +# (.*)$", re.M)


def blocks(name: str) -> Iterator[tuple[str, list[str], str]]:
    """Language, frameworks, code."""
    text = (GUIDES / f"{name}.md").read_text()
    for language, needs, code in BLOCK.findall(text):
        yield language, needs.split(",") if needs else [], code


def environment(served: Served) -> dict[str, str]:
    assert rig.BINARY is not None
    here = Path(__file__).parent
    path = os.pathsep.join((str(served.folder.parent / "bin"), os.environ["PATH"]))
    more = {"PYTHONPATH": str(here.parent / "src"), "KYMOGRAM_BINARY": str(rig.BINARY)}
    return {**os.environ, **more, "PATH": path, "KERAS_BACKEND": "torch"}


def execute(served: Served, command: list[str]) -> str:
    done = subprocess.run(
        command,
        cwd=served.folder.parent,
        env=environment(served),
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert "Traceback" not in done.stderr, done.stderr
    return done.stdout


def prepare(served: Served, name: str) -> None:
    """The kymogram command, and the files that a guide imports."""
    assert rig.BINARY is not None
    (served.folder.parent / "bin").mkdir()
    (served.folder.parent / "bin" / "kymogram").symlink_to(rig.BINARY.resolve())
    fixtures = REPOSITORY / "internal" / "importer" / "testdata"
    if name == "migrate-wandb":
        (served.folder.parent / "wandb").symlink_to(fixtures / "wandb")
        (served.folder.parent / "wandb_export_runs.csv").write_text(
            "Name,State,Created,Runtime,lr,batch_size,loss\n"
            "calm-sea-1,finished,2024-05-01T12:00:00.000Z,90,0.1,32,0.5\n"
        )
        (served.folder.parent / "wandb_export_chart.csv").write_text(
            "Step,calm-sea-1 - loss,calm-sea-1 - loss__MIN,calm-sea-1 - loss__MAX\n0,0.5,0.5,0.5\n"
        )
    if name == "migrate-tensorboard":
        (served.folder.parent / "runs").symlink_to(fixtures / "tensorboard")


@pytest.mark.parametrize("name", NAMES)
def test_snippets(served: Served, name: str) -> None:
    prepare(served, name)
    program = ""
    ran = 0
    for language, needs, code in blocks(name):
        if needs:
            continue
        ran += 1
        code = code.replace("http://127.0.0.1:7070", served.address)
        if language == "python":
            program += code
            continue
        if program:  # what stands before a command has to be there
            said(served, program)
            program = ""
        execute(served, ["bash", "-euo", "pipefail", "-c", code])
    said(served, program)
    assert ran >= 2
    assert any(True for _ in served.client.projects())


def said(served: Served, program: str) -> None:
    found = execute(served, [sys.executable, "-c", program]).splitlines()
    assert found == EXPECTED.findall(program)


def groups(name: str) -> Iterator[list[tuple[str, list[str], str]]]:
    """Blocks that need the same frameworks and follow one another."""
    with_needs = [block for block in blocks(name) if block[1]]
    for _, found in groupby(with_needs, key=lambda block: block[1]):
        yield list(found)


FRAMEWORKS = [(name, group) for name in NAMES for group in groups(name)]


@pytest.mark.parametrize(("name", "group"), FRAMEWORKS)
def test_framework_snippets(
    served: Served, name: str, group: list[tuple[str, list[str], str]]
) -> None:
    missing = [one for one in group[0][1] if importlib.util.find_spec(one) is None]
    if missing:
        pytest.skip(f"{', '.join(missing)} not installed: make test-frameworks")
    prepare(served, name)
    for language, _, code in group:
        if language == "sh":
            execute(served, ["bash", "-euo", "pipefail", "-c", code])
        else:
            execute(served, [sys.executable, "-c", "import kymogram\n" + code])
    (project,) = served.client.projects()
    runs = list(served.client.runs(f"default/{project['project']}"))
    assert len(runs) == 1
    assert runs[0].status == "finished"
    assert runs[0].detail()["points"] > 5
