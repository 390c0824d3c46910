"""What init reads from its surroundings."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest

import kymogram
from kymogram import KymogramValidationError
from kymogram._delivery import agent
from kymogram._host import environment

from . import reader
from .conftest import REPOSITORY

BATCH_JOB = environment.batch_job  # conftest replaces it
ADDRESSES = json.loads((REPOSITORY / "testdata" / "client" / "addresses.json").read_text())


@pytest.mark.parametrize("case", ADDRESSES, ids=lambda case: repr(case["given"]))
def test_addresses(case: dict[str, str | None]) -> None:
    """Go reads the same table, so that one address means one server to every client."""
    if case["address"] is None:
        with pytest.raises(KymogramValidationError, match="server is an address such as"):
            environment.server(case["given"])
    else:
        assert environment.server(case["given"]) == case["address"]


@pytest.mark.parametrize("variable", ["KYMOGRAM_SERVER", "METRANA_INGESTION_URL"])
def test_a_wrong_address_names_its_variable(variable: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("KYMOGRAM_SERVER", raising=False)
    monkeypatch.setenv(variable, "ftp://x")
    with pytest.raises(KymogramValidationError, match=f"'ftp://x'; it comes from .* {variable}$"):
        environment.server(None)


def test_a_key_is_found_under_every_name_of_this_machine(tmp_path: Path) -> None:
    file = tmp_path / "config" / "kymogram" / "credentials.json"
    file.parent.mkdir(parents=True)
    file.write_text(json.dumps({"http://127.0.0.1:7070": "local", "https://far:1/": "far"}))
    for address, key in {
        "http://127.0.0.1:7070": "local",
        "http://localhost:7070": "local",
        "http://[::1]:7070": "local",
        "https://localhost:7070": None,
        "http://localhost:7071": None,
        "http://far:7070": None,
        "https://far:1": "far",
    }.items():
        assert environment.api_key(None, address) == key, address


def test_the_keys_that_go_writes(tmp_path: Path) -> None:
    file = tmp_path / "config" / "kymogram" / "credentials.json"
    file.parent.mkdir(parents=True)
    file.write_bytes((REPOSITORY / "testdata" / "credentials" / "golden.json").read_bytes())
    for address, key in {
        "http://[::1]:7070": "0123456789abcdef0123456789abcdef01234567",
        "https://far.example": "89abcdef0123456789abcdef0123456789abcdef",
        "http://far.example": None,
        "https://far.example:7070": None,
    }.items():
        assert environment.api_key(None, address) == key, address


@pytest.mark.parametrize("text", ["[1", "[]", "null", "\xff"])
def test_a_damaged_file_of_keys_is_named(
    tmp_path: Path, text: str, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "config" / "kymogram" / "credentials.json"
    file.parent.mkdir(parents=True)
    file.write_bytes(text.encode("latin-1"))
    assert environment.api_key(None, "http://127.0.0.1:7070") is None
    assert str(file) in capsys.readouterr().err
    file.write_text("{}")
    assert environment.api_key(None, "http://127.0.0.1:7070") is None
    file.unlink()
    assert environment.api_key(None, "http://127.0.0.1:7070") is None
    assert capsys.readouterr().err == ""
    file.mkdir()
    assert environment.api_key(None, "http://127.0.0.1:7070") is None


def test_the_agent_finds_a_relative_certificate(monkeypatch: pytest.MonkeyPatch) -> None:
    """It works in another folder, so it is told where the file is."""
    monkeypatch.setenv("SSL_CERT_FILE", "ca.pem")
    monkeypatch.setenv("SSL_CERT_DIR", "certs:/etc/ssl/certs")
    monkeypatch.setenv("KYMOGRAM_API_KEY", "k" * 40)
    found = agent._surroundings()
    assert found["SSL_CERT_FILE"] == os.path.join(os.getcwd(), "ca.pem")
    assert found["SSL_CERT_DIR"] == os.path.join(os.getcwd(), "certs") + ":/etc/ssl/certs"
    assert "KYMOGRAM_API_KEY" not in found


def test_a_folder_that_is_gone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A program goes on where its folder was deleted; relative paths then lead nowhere."""
    gone = tmp_path / "gone"
    gone.mkdir()
    monkeypatch.chdir(gone)
    gone.rmdir()
    monkeypatch.setenv("PATH", "bin:" + os.environ["PATH"])
    monkeypatch.setenv("SSL_CERT_FILE", "ca.pem")
    agent.binary()
    assert agent._surroundings()["SSL_CERT_FILE"] == "ca.pem"
    run = kymogram.init(run_name="run", log_level="OFF")
    kymogram.log("loss", 1.0)
    assert run.get_metrics().float_points_added == 1


@pytest.mark.parametrize(
    ("variable", "marks", "pid", "parent", "ends"),
    [
        (None, (), 10, 9, False),
        ("SLURM_JOB_ID", (), 10, 9, True),
        ("PBS_JOBID", (), 10, 9, True),
        ("KUBERNETES_SERVICE_HOST", (), 10, 9, True),
        (None, ("/.dockerenv",), 10, 9, False),  # a container that people work in
        (None, ("/.dockerenv",), 10, 1, True),
        (None, ("/run/.containerenv",), 10, 1, True),
        (None, (), 10, 1, False),  # a daemon's child on a plain machine
        (None, (), 1, 0, True),
    ],
)
def test_what_ends_with_the_process(
    monkeypatch: pytest.MonkeyPatch,
    variable: str | None,
    marks: tuple[str, ...],
    pid: int,
    parent: int,
    ends: bool,
) -> None:
    monkeypatch.setattr(environment, "batch_job", BATCH_JOB)
    if variable:
        monkeypatch.setenv(variable, "7")
    monkeypatch.setattr(os.path, "exists", lambda path: path in marks)
    monkeypatch.setattr(os, "getpid", lambda: pid)
    monkeypatch.setattr(os, "getppid", lambda: parent)
    assert environment.batch_job() is ends


def test_blank_identifiers_are_none(monkeypatch: pytest.MonkeyPatch) -> None:
    """Metrana's client passes over them, too."""
    monkeypatch.setenv("METRANA_ORCHESTRATION_ID", "  ")
    monkeypatch.setenv("SLURM_JOB_ID", " 77\n")
    run = kymogram.init(run_name="r", orchestration_id=" ", log_level="OFF")
    assert os.environ["METRANA_ORCHESTRATION_ID"] == "77"
    assert run._request["orchestration_id"] == "77"


def test_queues_of_no_size(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("METRANA_RENDER_ERROR_QUEUE_MAX_SIZE", "0")  # no limit
    run = kymogram.init(
        run_name="r", queue_capacity=0, backpressure_strategy="drop_new", log_level="OFF",
        enqueue_timeout_secs=0,
    )  # fmt: skip
    kymogram.log("a", 1.0)
    kymogram.log("a", 2.0)
    metrics = kymogram.get_metrics()
    assert (metrics.float_points_enqueued, metrics.float_points_dropped) == (1, 1)
    for number in range(2000):
        run.errors.report(f"error {number}")
    assert len(kymogram.check_sender_errors()) == 2000
    assert kymogram.get_metrics().errors_evicted == 0


def test_a_spool_that_is_not_where_it_was_asked_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Points beside the volume do not survive the container: that is said."""
    file = tmp_path / "file"
    file.write_text("")
    monkeypatch.setenv("KYMOGRAM_SPOOL_DIR", str(file / "spool"))
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    kymogram.init(run_name="r")
    said = capsys.readouterr().err
    assert f"the spool is {tmp_path}/state/kymogram/spool/" in said
    assert f"not as asked {file}/spool: " in said


@pytest.mark.parametrize("given", ["mine", "~/mine", kymogram.DiskConfig(dir="mine")])
def test_disk_means_the_same_folder_later(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, given: Any
) -> None:
    """A relative folder, and the program changes its own before the next segment."""
    (tmp_path / "elsewhere").mkdir()
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.chdir(tmp_path)
    kymogram.init(run_name="r", disk=given, log_level="OFF")
    monkeypatch.chdir(tmp_path / "elsewhere")
    for _ in range(40):
        kymogram.log("a", [0.5] * 10_000)
    assert kymogram.get_metrics().points_in_memory == 0
    kymogram.close(0)
    assert len(reader.all_points(tmp_path / "mine")) == 400_000


@pytest.mark.parametrize("value", [None, "x", object(), [], float("nan"), -1])
@pytest.mark.parametrize("name", ["init_timeout_secs", "system_metrics_interval_secs"])
def test_times_of_init(name: str, value: Any) -> None:
    if value is None and name.startswith("system"):
        return  # the default
    with pytest.raises(KymogramValidationError, match=name):
        kymogram.init(run_name="r", **{name: value})


@pytest.mark.parametrize("value", [5, object(), []])
def test_a_folder_of_renderings(value: Any) -> None:
    with pytest.raises(KymogramValidationError, match="rendering_output_dir is a folder"):
        kymogram.init(run_name="r", rendering_output_dir=value)


def test_times_without_a_limit(spool: Path) -> None:
    pytest.importorskip("av")
    numpy = pytest.importorskip("numpy")
    kymogram.init(run_name="r", log_level="OFF", system_metrics_interval_secs=float("inf"))
    kymogram.log_rendering(numpy.zeros((16, 16), "uint8"), 0, 0)
    info = kymogram.close(None)
    assert info is not None
    assert info.metrics.rendering_frames_encoded == 1
    kymogram.init(run_name="r2", log_level="OFF", close_timeout=1e30)
    assert kymogram.close() is not None
