"""Snippets of the READMEs and the guides run against a real server that asks for keys, twice.

Readers share it and come in any order: SEED=N repeats one.

The Python and shell of a page are one program, in order. A python block prints
what its `print(…)  # …` comments say. `needs=` in a fence keeps a block from it:

- `needs=torch`: a framework. The block is a program of its own behind the first
  block's imports; it is skipped where the framework is missing (make
  test-frameworks has all).
- `needs=make`: what stands before what built all this.
- `needs=account`: an account at another service.
- `needs=host`: what starts a service, or wants root or a name in DNS.
- `needs=chain`: a network of Bittensor. Its calls are those of test_chain.py.
- `needs=mcp`: the client of the transcript, which test/e2e/mcp_test.go runs.

SCENES are blocks that another test runs, since they want more than a server.
"""

from __future__ import annotations

import importlib.util
import json
import os
import random
import re
import shutil
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

KEYS = True  # of the server
DOCS, SOURCES = REPOSITORY / "docs", REPOSITORY / "python" / "src"
FILES = {"README": REPOSITORY / "README.md", "package": REPOSITORY / "python" / "README.md"}
FILES |= {page.stem: page for page in sorted([*DOCS.glob("*.md"), *DOCS.glob("guides/*.md")])}
NETSTATE, OF_GO = "test/netstate/docs_test.go", "test/e2e/docs_test.go"
SCENES = {
    ("README", "go"): OF_GO,
    ("go", "go"): OF_GO,
    ("metrics", "go"): OF_GO,
    ("telemetry", "go"): OF_GO,
    ("netstate", "go"): NETSTATE,
    ("netstate", "python"): "python/tests/test_netstate.py",
    ("network", "sh"): "server/cmd/kymogram/statedocs_test.go",
    ("state", "sh"): "server/cmd/kymogram/statedocs_test.go",
    ("opentelemetry", "sh"): "test/e2e/otlp_test.go",
    ("opentelemetry", "python"): "test/e2e/otlp_test.go",
    ("wandb", "sh"): "test/wandb/page_test.go",
    ("templar-queries", "sql"): "server/cmd/kymogram/influxflux_test.go",
}
THERE = {  # what pages that only read begin with
    "prometheus": "team/llm/a",
    "terminal": "default/first/hello",
    "dashboards": "team/digits/a",
}
LIBRARIES = {"influx": ["influxdb_client", "influxdb"], "endpoint": ["starlette"]}
PROGRAMS = {"influx": ["curl"], "prometheus": ["curl", "promtool"]}
FENCE = re.compile(r"^```(python|sh|go|yaml|sql)(?: needs=(\S+))?\n(.*?)^```$", re.M | re.S)
MARKS = {"make", "account", "host", "chain", "mcp"}
FRAMES = {"torch", "lightning", "keras", "stable_baselines3", "gymnasium"}
FRAMES |= {"numpy", "av", "pandas", "polars"}
EXPECTED = re.compile(r"^print\(.*\)  +# (.*)$", re.M)
CONSOLE = re.compile(r"\[[\d.]+\]\[my_app\]: \S+=\S+")  # what ConsoleMetricHandler prints


def blocks(name: str) -> Iterator[tuple[str, list[str], str]]:
    """Language, frameworks, code."""
    for language, needs, code in FENCE.findall(FILES[name].read_text()):
        here = language in ("python", "sh") and (name, language) not in SCENES
        if here and needs not in MARKS:
            yield language, needs.split(",") if needs else [], code


NAMES = [name for name in FILES if any(not needs for _, needs, _ in blocks(name))]
SEED = os.environ.get("SEED") or str(random.randrange(10_000))
random.Random(SEED).shuffle(NAMES)  # readers come in any order


def test_every_block_has_a_test() -> None:
    """A block in a language that runs is run here, or by a test that opens its page."""
    assert len(NAMES) > 25
    for name, page in FILES.items():
        text = page.read_text()
        fences = re.findall(r"^```(?:python|sh|go|yaml|sql)\b.*\n", text, re.M)
        assert len(fences) == len(FENCE.findall(text)), f"{page.name}: a fence that is none"
        for language, needs, code in FENCE.findall(text):
            assert not needs or needs in MARKS or set(needs.split(",")) <= FRAMES, needs
            scene = SCENES.get((name, language))
            if needs or (scene is None and language in ("sh", "python", "yaml")):
                continue
            assert scene is not None, f"no test runs the {language} of {page.name}: {code}"
            opens = re.search(rf'["/]{re.escape(page.name)}"', (REPOSITORY / scene).read_text())
            assert opens, f"{scene} does not read {page.name}"


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The reader's folder, in which programs run."""
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture(scope="module")
def house(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    """One server for all readers."""
    if rig.BINARY is None:
        pytest.skip(rig.NO_BINARY)
    folder = tmp_path_factory.mktemp("house")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_CONFIG_HOME", str(folder / "config"))
        yield from Served(folder / "data", folder / "spool", keys=True).run()


@pytest.fixture
def shared(house: Served, spool: Path, monkeypatch: pytest.MonkeyPatch) -> Served:
    """The same, for a reader with a spool of his own."""
    monkeypatch.setenv("XDG_CONFIG_HOME", str(house.folder.parent / "config"))
    monkeypatch.setenv("KYMOGRAM_SERVER", house.address)
    house.spool = spool
    return house


def environment(served: Served, more: dict[str, str]) -> dict[str, str]:
    assert rig.BINARY is not None
    places = (str(Path.cwd() / "bin"), str(Path(sys.executable).parent))
    path = os.pathsep.join((*places, os.environ["PATH"]))
    own = {"PYTHONPATH": str(SOURCES), "KYMOGRAM_BINARY": str(rig.BINARY)}
    if Path("key").exists():
        own["KEY"] = Path("key").read_text()
    return {**os.environ, **own, "PATH": path, "KERAS_BACKEND": "torch", **more}


def execute(served: Served, command: list[str], **more: str) -> str:
    done = subprocess.run(
        command,
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
    Path("bin").mkdir()
    Path("bin/kymogram").symlink_to(rig.BINARY.resolve())
    fixtures = REPOSITORY / "server" / "internal" / "importer" / "testdata"
    if name == "migrate-mlflow":
        Path("mlruns").symlink_to(fixtures / "mlruns")
    if name == "migrate-neptune":
        Path("exports").symlink_to(fixtures / "neptune")
    if name == "migrate-wandb":
        Path("wandb").symlink_to(fixtures / "wandb")
        Path("wandb_export_runs.csv").write_text(
            "Name,State,Created,Runtime,lr,batch_size,loss\n"
            "calm-sea-1,finished,2024-05-01T12:00:00.000Z,90,0.1,32,0.5\n"
        )
        Path("wandb_export_chart.csv").write_text(
            "Step,calm-sea-1 - loss,calm-sea-1 - loss__MIN,calm-sea-1 - loss__MAX\n0,0.5,0.5,0.5\n"
        )
    if name == "migrate-tensorboard":
        Path("runs").symlink_to(fixtures / "tensorboard")
    if name == "metrics":
        Path("train.py").write_text("print('trained')")
    if name in THERE:
        workspace, project, run = THERE[name].split("/")
        there = [f"{one['workspace']}/{one['project']}" for one in served.client.projects()]
        if f"{workspace}/{project}" in there:  # a reader of another page has logged it
            return
        table = Path("table.csv")
        table.write_text("step,loss\n0,1.5\n1,0.5\n")
        into = ("--workspace", workspace, "--project", project, "--run", run)
        served.cli("import", "csv", str(table), *into)


def names(served: Served, name: str) -> dict[str, str]:
    """What a reader writes in the place of what the page says."""
    found = {"http://127.0.0.1:7070": served.address, "127.0.0.1:7070": served.address[7:]}
    found['"127.0.0.1", 7070'] = f'"127.0.0.1", {served.address.rpartition(":")[2]}'
    found["port=9464"] = f"port={closed_port()}"
    if name == "server":
        made = served.cli("key", "create", "--name", "spare", "--scope", "read", "--json")
        found["revoke ID"] = f"revoke {json.loads(made)['id']}"
    return found


@pytest.mark.parametrize("name", NAMES, ids=lambda name: f"{name}-SEED={SEED}")
def test_snippets(shared: Served, name: str) -> None:
    missing = [one for one in LIBRARIES.get(name, []) if importlib.util.find_spec(one) is None]
    missing += [one for one in PROGRAMS.get(name, []) if shutil.which(one) is None]
    if missing:
        pytest.skip(f"{', '.join(missing)} not installed: make prepare")
    prepare(shared, name)
    before = held(shared)
    for _ in range(2):  # a reader does it again, with the same outcome
        replaced = names(shared, name)
        program = ""
        for language, needs, code in blocks(name):
            if needs:
                continue
            for old, new in replaced.items():
                code = code.replace(old, new)
            if language == "python":
                program += code
                continue
            if program:  # what stands before a command has to be there
                said(shared, program)
                program = ""
            code += '\nprintf %s "${KEY-}" > key'  # of the reader's shell, for what comes next
            execute(shared, ["bash", "-euo", "pipefail", "-c", code])
        said(shared, program)
    if shared.spool.exists():  # a page of imports logs nothing by itself
        shared.sync()
    if name not in ("server", "endpoint", *THERE):
        assert held(shared) > before


def held(served: Served) -> int:
    """How many runs the server has."""
    return sum(one["runs"] for one in served.client.projects())


def said(served: Served, program: str, **more: str) -> None:
    found = execute(served, [sys.executable, "-c", program], **more).splitlines()
    assert [line for line in found if not CONSOLE.fullmatch(line)] == EXPECTED.findall(program)


@pytest.mark.parametrize(
    ("name", "runs"),
    [
        ("README", 1),
        ("package", 1),
        ("python", 1),
        ("distributed", 1),
        ("start", 1),
        ("mcp", 2),
        ("console", 1),
        ("charts", 12),
        ("kymograph", 1),
        ("metrics", 1),
        ("table", 3),
        ("telemetry", 1),
    ],
)
def test_the_same_without_a_server(served: Served, name: str, runs: int) -> None:
    """A reader who has not started one yet gets the same runs, a little later."""
    away = f"http://127.0.0.1:{closed_port()}"
    plain = [code for language, needs, code in blocks(name) if language == "python" and not needs]
    elsewhere = "".join(plain).replace("http://127.0.0.1:7070", away)
    said(served, elsewhere, KYMOGRAM_SERVER=away)
    assert list(served.client.projects()) == []
    served.cli("sync", "--spool", str(served.spool), "--server", served.address)
    assert [one["runs"] for one in served.client.projects()] == [runs]


YAML = [
    (name, code)
    for name, page in FILES.items()
    for language, needs, code in FENCE.findall(page.read_text())
    if language == "yaml" and not needs
]


@pytest.mark.parametrize(("name", "code"), YAML)
def test_settings(served: Served, tmp_path: Path, name: str, code: str) -> None:
    """The program that reads a YAML block finds nothing wrong."""
    for secret in ("cert.pem", "key.pem", "kymogram.key"):
        (tmp_path / secret).write_text("secret")
    code = re.sub(r"(?:/etc/\w+/)?((?:kymogram|cert|key)\.(?:pem|key))", rf"{tmp_path}/\1", code)
    (tmp_path / "page.yaml").write_text(code)
    if "scrape_configs" not in code and "remote_write" not in code:
        served.cli("config", "check", "--config", str(tmp_path / "page.yaml"))
        return
    if shutil.which("promtool") is None:
        pytest.skip("promtool is not installed: make prepare")
    execute(served, ["promtool", "check", "config", str(tmp_path / "page.yaml")])


def groups(name: str) -> Iterator[list[tuple[str, list[str], str]]]:
    """Blocks that need the same frameworks and follow one another."""
    with_needs = [block for block in blocks(name) if block[1]]
    for _, found in groupby(with_needs, key=lambda block: block[1]):
        yield list(found)


FRAMEWORKS = [(name, group) for name in FILES for group in groups(name)]


@pytest.mark.parametrize(("name", "group"), FRAMEWORKS)
def test_framework_snippets(
    served: Served, name: str, group: list[tuple[str, list[str], str]]
) -> None:
    missing = [one for one in group[0][1] if importlib.util.find_spec(one) is None]
    if missing:
        pytest.skip(f"{', '.join(missing)} not installed: make test-frameworks")
    prepare(served, name)
    for language, _, code in 2 * group:
        if language == "sh":
            execute(served, ["bash", "-euo", "pipefail", "-c", code])
        else:
            execute(served, [sys.executable, "-c", "import kymogram\n" + code])
    if name == "metrics":
        assert len(Path("agent.jsonl").read_text().splitlines()) > 5
        return
    (project,) = served.client.projects()
    runs = list(served.client.runs(f"default/{project['project']}"))
    assert [run.status for run in runs] == ["finished", "finished"]  # NAME and NAME-2
    assert all(run.detail()["points"] > 5 for run in runs)
