"""A spool of its own for every test, and no server."""

from __future__ import annotations

import os
import socket
from collections.abc import Iterator
from pathlib import Path

import pytest

import kymogram
from kymogram import _say
from kymogram._delivery import agent
from kymogram._host import environment

TYPE_CHECKING = False
if TYPE_CHECKING:
    from .rig import Served

# For the whole session: a helper thread may look once more after its test has ended.
agent.binary = lambda: None

REPOSITORY = Path(__file__).resolve().parents[2]


def closed_port() -> int:
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        port: int = found.getsockname()[1]
        return port


@pytest.fixture(autouse=True)
def surroundings(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """No key, no server and no agent, unless a test asks for them."""
    for name in list(os.environ):
        foreign = ("TORCHELASTIC_", "SLURM_", "RAY_JOB", "METRANA_", "KYMOGRAM_", "RANK", "KUBERN")
        if name.startswith(foreign) and name != "KYMOGRAM_BINARY":
            monkeypatch.delenv(name)
    spool = tmp_path / "spool"
    monkeypatch.setenv("KYMOGRAM_SPOOL_DIR", str(spool))
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    monkeypatch.setenv("KYMOGRAM_SERVER", f"http://127.0.0.1:{closed_port()}")
    monkeypatch.setattr(environment, "batch_job", lambda: False)
    monkeypatch.setenv("KYMOGRAM_CAPTURE_ENVIRONMENT", "0")
    monkeypatch.setattr(_say.voice, "_said", set())  # what a test before was told once
    _say.set_level("SUCCESS")
    yield spool
    kymogram.close(0)
    os.environ.pop("KYMOGRAM_ORCHESTRATION_ID", None)
    os.environ.pop("KYMOGRAM_ATTEMPT", None)


@pytest.fixture
def spool(surroundings: Path) -> Path:
    """The test's spool."""
    return surroundings


@pytest.fixture
def run(surroundings: Path) -> kymogram.Run:
    """An open run without a server."""
    return kymogram.init(run_name="run", log_level="OFF")


def real_binary() -> Path | None:
    """The kymogram binary, for the tests that need it."""
    named = os.environ.get("KYMOGRAM_BINARY")
    path = Path(named) if named else REPOSITORY / "bin" / "kymogram"
    return path if path.is_file() else None


def pytest_addoption(parser: pytest.Parser) -> None:
    """--update writes the golden segment of Python."""
    parser.addoption("--update", action="store_true", help="write testdata/spool/python.seg")


@pytest.fixture
def served(
    tmp_path: Path, spool: Path, monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest
) -> Iterator[Served]:
    """A real server, which runs that the test opens go to; skipped without the binary.

    It asks for keys where the test's module has KEYS = True.
    """
    from . import rig

    if rig.BINARY is None:
        pytest.skip(rig.NO_BINARY)
    found = rig.Served(tmp_path / "data", spool, keys=getattr(request.module, "KEYS", False))
    monkeypatch.setenv("KYMOGRAM_SERVER", found.address)
    yield from found.run()
