"""Every snippet of the READMEs, docs/python.md and the guides runs against a real server.

The snippets of a page are one program, in order (those in Go are test/e2e's). A
python block prints what its `print(…)  # …` comments say. A block that needs a
framework (```python needs=torch) is a program of its own behind the first
block's imports; it is skipped where the framework is missing (make
test-frameworks has all). needs=make stands before what built all this,
needs=account before what needs another service.
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
from .conftest import REPOSITORY, closed_port
from .rig import Served
from .test_agent import stop_agent  # noqa: F401 - the agent ends with its test

PAGES = {"README": REPOSITORY / "README.md", "python": REPOSITORY / "docs" / "python.md"}
PAGES["package"] = REPOSITORY / "python" / "README.md"
PAGES["telemetry"] = REPOSITORY / "docs" / "telemetry.md"
PAGES["console"] = REPOSITORY / "docs" / "console.md"
PAGES |= {page.stem: page for page in sorted((REPOSITORY / "docs" / "guides").glob("*.md"))}
del PAGES["templar-queries"]  # its queries are asked by TestTemplarsFluxAndOurInfluxQL
NAMES = list(PAGES)
BLOCK = re.compile(r"^```(python|sh)(?: needs=(\S+))?\n(.*?)^```$", re.M | re.S)
EXPECTED = re.compile(r"^print\(.*\)  +# (.*)$", re.M)
CONSOLE = re.compile(r"\[[\d.]+\]\[my_app\]: \S+=\S+")  # what ConsoleMetricHandler prints


def blocks(name: str) -> Iterator[tuple[str, list[str], str]]:
    """Language, frameworks, code."""
    for language, needs, code in BLOCK.findall(PAGES[name].read_text()):
        if needs not in ("make", "account"):  # the latter: an account at another service
            yield language, needs.split(",") if needs else [], code


def environment(served: Served, more: dict[str, str]) -> dict[str, str]:
    assert rig.BINARY is not None
    here = Path(__file__).parent
    places = (str(served.folder.parent / "bin"), str(Path(sys.executable).parent))
    path = os.pathsep.join((*places, os.environ["PATH"]))
    own = {"PYTHONPATH": str(here.parent / "src"), "KYMOGRAM_BINARY": str(rig.BINARY)}
    return {**os.environ, **own, "PATH": path, "KERAS_BACKEND": "torch", **more}


def execute(served: Served, command: list[str], **more: str) -> str:
    done = subprocess.run(
        command,
        cwd=served.folder.parent,
        env=environment(served, more),
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
    fixtures = REPOSITORY / "server" / "internal" / "importer" / "testdata"
    if name == "migrate-mlflow":
        (served.folder.parent / "mlruns").symlink_to(fixtures / "mlruns")
    if name == "migrate-neptune":
        (served.folder.parent / "exports").symlink_to(fixtures / "neptune")
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
    if name == "metrics":
        (served.folder.parent / "train.py").write_text("print('trained')")


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
    assert ran >= 1
    if served.spool.exists():  # a page of imports logs nothing by itself
        served.sync()
    assert any(True for _ in served.client.projects())


def said(served: Served, program: str, **more: str) -> None:
    found = execute(served, [sys.executable, "-c", program], **more).splitlines()
    assert [line for line in found if not CONSOLE.fullmatch(line)] == EXPECTED.findall(program)


@pytest.mark.parametrize("name", ["README", "package", "python", "distributed"])
def test_the_same_without_a_server(served: Served, name: str) -> None:
    """A reader who has not started one yet gets the same run, a little later."""
    away = f"http://127.0.0.1:{closed_port()}"
    plain = [code for language, needs, code in blocks(name) if language == "python" and not needs]
    program = "".join(plain)
    elsewhere = program.replace("http://127.0.0.1:7070", away)
    said(served, elsewhere, KYMOGRAM_SERVER=away)
    assert list(served.client.projects()) == []
    served.cli("sync", "--spool", str(served.spool), "--server", served.address)
    assert [one["runs"] for one in served.client.projects()] == [1]


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
    if name == "metrics":
        assert len((served.folder.parent / "agent.jsonl").read_text().splitlines()) > 5
        return
    (project,) = served.client.projects()
    runs = list(served.client.runs(f"default/{project['project']}"))
    assert len(runs) == 1
    assert runs[0].status == "finished"
    assert runs[0].detail()["points"] > 5
