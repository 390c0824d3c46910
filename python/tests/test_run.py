"""init, close and what lies between, against a stand-in of the server's open."""

from __future__ import annotations

import copy
import json
import math
import os
import stat
import struct
import threading
import time
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

import kymogram
from kymogram._delivery import agent as _agent
from kymogram._exceptions import KymogramValidationError
from kymogram._host import environment
from kymogram._points import current as _current

from . import reader
from .conftest import closed_port

RUN = "01ARZ3NDEKTSV4RRFFQ69G5FAV"


class StandIn:
    """Answers POST /api/v1/open as a test wants, and keeps what it was asked."""

    def __init__(self) -> None:
        self.requests: list[tuple[str, dict[str, str], dict[str, Any]]] = []
        self.gets: list[dict[str, str]] = []
        self.status = 200
        self.location = ""  # where it redirects to; PATH in it is what was asked for
        self.answer: Any = {
            "run": RUN,
            "run_name": "run",
            "attempt": 1,
            "created": True,
            "starts_complete": True,
            "starts": [
                {"metric": "loss", "scale": "ML_STEP", "next": 7},
                {"metric": "acc", "scale": "ML_STEP", "labels": {"a": "b"}, "next": 3},
            ],
            "envs": [{"env": "e", "last_rl_step": 4, "last_episode": 3}],
        }
        self.delay = 0.0
        stand_in = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["Content-Length"]))
                stand_in.requests.append((self.path, dict(self.headers), json.loads(body)))
                time.sleep(stand_in.delay)
                data = stand_in.answer
                self.reply(data if isinstance(data, bytes) else json.dumps(data).encode())

            def do_GET(self) -> None:
                stand_in.gets.append(dict(self.headers))
                self.reply(b"")

            def reply(self, raw: bytes) -> None:
                self.send_response(stand_in.status)
                if stand_in.location:
                    self.send_header("Location", stand_in.location.replace("PATH", self.path))
                self.send_header("Content-Length", str(len(raw)))
                self.end_headers()
                self.wfile.write(raw)

            def log_message(self, *args: Any) -> None:
                pass

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.address = f"http://127.0.0.1:{self.server.server_address[1]}"
        threading.Thread(target=self.server.serve_forever, daemon=True).start()


@pytest.fixture
def server() -> Iterator[StandIn]:
    found = StandIn()
    yield found
    found.server.shutdown()
    found.server.server_close()


def document(spool: Path) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((reader.writers(spool)[-1] / "open.json").read_text())
    return found


def deliver(
    folder: Path,
    mark: int,
    state: int = 2,
    *,
    error: str = "",
    answer: Any = None,
    acked: int = 5,
    refused: int = 0,
    tallies: tuple[int, ...] = (0,) * 8,
) -> None:
    """Write the status page as a deliverer does."""
    page = bytearray(4096)
    struct.pack_into(
        "<8sQQQQQQQI", page, 0, b"KYMSTAT1", time.time_ns(), mark, acked, refused, 2, 1, 0, state
    )
    struct.pack_into("<8Q", page, 4008, *tallies)
    struct.pack_into("<I", page, 68, len(error.encode()))
    page[72 : 72 + len(error.encode())] = error.encode()
    if answer is not None:
        raw = json.dumps(answer).encode()
        struct.pack_into("<I", page, 1104, len(raw))
        page[1108 : 1108 + len(raw)] = raw
    with (folder / "status").open("r+b") as file:
        file.write(page)


def test_open_request(server: StandIn, spool: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TORCHELASTIC_RUN_ID", "job-1")
    monkeypatch.setenv("TORCHELASTIC_RESTART_COUNT", "2")
    monkeypatch.setenv("RANK", "3")
    run = kymogram.init(
        "Allow",
        api_key="k" * 40,
        logger_id=2**64 - 1,
        fork_from_run="old",
        fork_at_step=5,
        tags=["a", "b"],
        description="text",
        config={"b": {"y": [1, 2.5], "x": None}, "a": True, "nan": math.nan, "big": 2**60},
        workspace_name="ws",
        project_name="pr",
        run_name="run/1 é",
        experiment_name="ex",
        display_name="Shown",
        ingestion_url=server.address + "/",
        resume_from_step=9,
    )
    path, headers, request = copy.deepcopy(server.requests[0])
    assert path == "/api/v1/open"
    assert headers["Authorization"] == "Bearer " + "k" * 40
    assert request.pop("local_run") != RUN
    writer, opened = request.pop("writer"), request.pop("opened_ns")
    assert len(writer) == 32
    assert abs(opened - time.time_ns()) < 60e9
    initial = request.pop("initial")
    assert all(one.pop("time_ns") >= opened for one in initial)
    assert [one for one in initial if one.get("path") != "git/commit_sha"] == [
        {"op": "set_attribute", "path": "config/a", "value": {"type": "bool", "value": True}},
        {"op": "set_attribute", "path": "config/b/x"},
        {"op": "set_attribute", "path": "config/b/y/0", "value": {"type": "int64", "value": 1}},
        {"op": "set_attribute", "path": "config/b/y/1", "value": {"type": "float64", "value": 2.5}},
        {
            "op": "set_attribute",
            "path": "config/big",
            "value": {"type": "int64", "value": str(2**60)},
        },
        {"op": "set_attribute", "path": "config/nan", "value": {"type": "float64", "value": "NaN"}},
        {"op": "set_tags", "tags": ["a", "b"]},
        {"op": "set_description", "text": "text"},
    ]
    assert request == {
        "workspace": "ws",
        "project": "pr",
        "run_name": "run/1 é",
        "display_name": "Shown",
        "experiment": "ex",
        "orchestration_id": "job-1",
        "resume_strategy": "allow",
        "restart_count": 2,
        "rank": 3,
        "resume_from_step": 9,
        "fork_from_run": "old",
        "fork_at_step": 5,
        "logger_id": str(2**64 - 1),
        "host": os.uname().nodename,
        "pid": os.getpid(),
        "sdk": "python/0.1.0",
        "with_starts": True,
    }
    written = document(spool)
    assert written["server"] == server.address
    assert written["open"] == server.requests[0][2]
    assert "offline" not in written["open"]
    assert (run.id, run.workspace, run.project) == (RUN, "ws", "pr")
    assert not kymogram.is_offline()
    keys = spool / "credentials"
    assert json.loads(keys.read_text()) == {server.address: "k" * 40}
    assert stat.S_IMODE(keys.stat().st_mode) == 0o600
    assert stat.S_IMODE(spool.stat().st_mode) == 0o700
    assert os.environ["KYMOGRAM_ORCHESTRATION_ID"] == "job-1"
    assert os.environ["KYMOGRAM_ATTEMPT"] == writer
    kymogram.close(0)
    assert "KYMOGRAM_ATTEMPT" not in os.environ


def test_known_starts_give_absolute_steps(server: StandIn, spool: Path) -> None:
    kymogram.init(server=server.address, run_name="run", log_level="OFF")
    assert kymogram.get_last_step("loss") == 6
    assert kymogram.get_last_step("acc") is None
    assert kymogram.get_last_step("acc", labels={"a": "b"}) == 2
    assert kymogram.get_env_last_rl_step_and_episode("e") == (4, 3)
    kymogram.log("loss", 1.0)
    kymogram.log("new", [1.0, 2.0])
    kymogram.log({"loss": 1.0, "new": 3.0})
    kymogram.log_rl_episode("ret", 1.0, rl_step=5, env_id="e")
    found = [(p.metric, p.axes["step"], p.relative) for p in reader.all_points(spool)]
    assert found == [
        ("loss", 7, False),
        ("new", 0, False),
        ("new", 1, False),
        ("loss", 8, False),
        ("new", 2, False),
        ("ret", 0, False),
    ]
    assert kymogram.get_env_last_rl_step_and_episode("e") == (5, 3)


@pytest.mark.parametrize(
    ("status", "code", "error"),
    [
        (401, "unauthenticated", kymogram.NoKymogramApiKeyError),
        (403, "permission_denied", kymogram.KymogramAuthError),
        (409, "run_exists", kymogram.KymogramOrchestrationIdMismatchError),
        (410, "run_deleted", kymogram.KymogramLoggerInitError),
        (400, "invalid_argument", kymogram.KymogramValidationError),
    ],
)
def test_refused_opens(
    server: StandIn, spool: Path, status: int, code: str, error: type[Exception]
) -> None:
    server.status = status
    server.answer = {"error": {"code": code, "message": "the reason", "hint": "do this"}}
    with pytest.raises(error, match="the reason. do this"):
        kymogram.init(server=server.address, resume_strategy="never")
    assert not kymogram.is_initialized()
    assert not spool.exists()
    server.status, server.answer = 200, {"run": RUN}
    kymogram.init(server=server.address)
    assert kymogram.is_initialized()


@pytest.mark.parametrize("answer", [b"<html>", b"", {"error": {"code": "unavailable"}}])
def test_unusable_answers_begin_offline(
    server: StandIn, spool: Path, answer: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    server.status, server.answer = 503, answer
    kymogram.init(server=server.address, run_name="r")
    assert kymogram.is_offline()
    assert document(spool)["open"]["offline"] is True
    assert capsys.readouterr().err.count("is not reached") == 1


def test_slow_server_holds_init_no_longer_than_a_second(server: StandIn, spool: Path) -> None:
    server.delay = 3
    start = time.monotonic()
    kymogram.init(server=server.address, log_level="OFF")
    assert time.monotonic() - start < 1.0
    assert kymogram.is_offline()


def test_page_address_is_printed_once(server: StandIn, capsys: pytest.CaptureFixture[str]) -> None:
    run = kymogram.init(server=server.address, run_name="run")
    assert run.url == f"{server.address}/runs/{RUN}"
    kymogram.log("x", 1.0)
    assert capsys.readouterr().err.count(run.url) == 1


def test_keys_come_in_order(
    server: StandIn, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "config" / "kymogram" / "credentials.json"
    file.parent.mkdir(parents=True)
    file.write_text(json.dumps({server.address: "from-file", "http://other": "no"}))
    keys: list[tuple[str | None, str | None, str]] = [
        (None, None, "from-file"),
        (None, "from-env", "from-env"),
        ("from-argument", "from-env", "from-argument"),
    ]
    for argument, variable, expected in keys:
        if variable:
            monkeypatch.setenv("KYMOGRAM_API_KEY", variable)
        kymogram.init(api_key=argument, server=server.address, log_level="OFF")
        kymogram.close(0)
        assert server.requests[-1][1]["Authorization"] == f"Bearer {expected}"


def test_no_run_is_a_clear_error(spool: Path) -> None:
    assert not kymogram.is_initialized()
    kymogram.close()
    _current.current.closed = False
    for call in (
        lambda: kymogram.log("a", 1.0),
        lambda: kymogram.set_tags(["a"]),
        lambda: kymogram.log_rl_episode("a", 1.0, 1),
        kymogram.get_metrics,
        kymogram.flush,
    ):
        with pytest.raises(kymogram.KymogramNotInitializedError, match=r"kymogram\.init\(\)"):
            call()


def test_second_init_keeps_the_run(run: kymogram.Run) -> None:
    assert kymogram.init(run_name="other") is run


def test_made_up_names(spool: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Processes of one job find the same name; the next run of a process gets another."""
    monkeypatch.setenv("SLURM_JOB_ID", "77")
    names = []
    for _ in range(2):
        names.append(kymogram.init(log_level="OFF").name)
        kymogram.close(0)
    assert len(set(names)) == 2
    assert all(name.count("-") == 2 for name in names)
    assert environment.readable_name("77", 0) == environment.readable_name("77", 0)


def test_closed_run(run: kymogram.Run, spool: Path) -> None:
    kymogram.log("a", 1.0)
    run.close(0)
    run.close(0)
    for call in (lambda: kymogram.log("a", 1.0), lambda: run.log("a", 1.0), run.get_metrics):
        with pytest.raises(kymogram.KymogramLoggerClosedError):
            call()
    assert reader.updates(reader.records(reader.writers(spool)[0]))[-1]["text"] == "finished"
    kymogram.init(run_name="next", log_level="OFF")
    kymogram.log("a", 2.0)
    with pytest.raises(kymogram.KymogramLoggerClosedError):
        run.log("a", 1.0)
    kymogram.close(0)
    assert [p.value for p in reader.all_points(spool)] == [1.0, 2.0]


def test_context_manager_marks_failures(spool: Path) -> None:
    with pytest.raises(RuntimeError), kymogram.init(close_timeout=0, log_level="OFF"):
        raise RuntimeError
    assert reader.updates(reader.records(reader.writers(spool)[0]))[-1]["text"] == "failed"


def test_close_offline_says_what_is_left(spool: Path, capsys: pytest.CaptureFixture[str]) -> None:
    kymogram.init(run_name="r")
    kymogram.log("a", [1.0] * 1234)
    start = time.monotonic()
    kymogram.close(15)
    assert time.monotonic() - start < 1.0
    text = capsys.readouterr().err
    assert "holds 1,234 points" in text
    assert "`kymogram sync` delivers them" in text


def test_close_in_a_batch_job_waits_on(spool: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(environment, "batch_job", lambda: True)
    monkeypatch.setattr(_agent, "held", lambda root: True)
    kymogram.init(run_name="r", log_level="OFF")
    kymogram.log("a", 1.0)
    start = time.monotonic()
    kymogram.close(1.5)
    assert 1.5 <= time.monotonic() - start < 2.5


def test_close_waits_for_the_mark(spool: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run = kymogram.init(run_name="r")
    kymogram.log("a", 1.0)
    folder = reader.writers(spool)[0]
    stop = threading.Event()

    def agent() -> None:
        start = time.monotonic()
        while not stop.is_set():
            late = time.monotonic() - start > 1.5
            deliver(folder, 3 if late else 1)
            time.sleep(0.05)

    thread = threading.Thread(target=agent)
    thread.start()
    time.sleep(0.2)
    assert not run.is_offline()
    assert run.flush(0.1) is False
    start = time.monotonic()
    run.close(15)
    stop.set()
    thread.join()
    assert 0.5 < time.monotonic() - start < 3
    assert "holds" not in capsys.readouterr().err


def test_refused_key_is_told_at_once(spool: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run = kymogram.init(run_name="r", error_strategy="raise_on_close")
    kymogram.log("a", 1.0)
    deliver(reader.writers(spool)[0], 0, 4, error="the key is revoked")
    start = time.monotonic()
    with pytest.raises(kymogram.KymogramClosingError, match="the key is revoked"):
        run.close(15)
    assert time.monotonic() - start < 0.5


def test_raise_on_log(spool: Path) -> None:
    run = kymogram.init(run_name="r", error_strategy="RaiseOnLog", log_level="OFF")
    for _ in range(3):
        kymogram.log("a", 1.0)
    run.trouble("the key is revoked")
    with pytest.raises(kymogram.KymogramSenderError, match="revoked"):
        kymogram.log("a", 1.0)
    kymogram.log("a", 1.0)
    assert len(reader.all_points(spool)) == 4


def test_the_agents_answer_names_the_run(spool: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run = kymogram.init(run_name="taken")
    local = run.id
    answer = {"run": RUN, "run_name": "taken-2", "linked_from": "taken"}
    deliver(reader.writers(spool)[0], 1, answer=answer)
    deadline = time.monotonic() + 5
    while run.id == local and time.monotonic() < deadline:
        time.sleep(0.05)
    assert (run.id, run.name) == (RUN, "taken-2")
    text = capsys.readouterr().err
    assert "'taken' was taken" in text
    assert f"/runs/{RUN}" in text


def test_metrics(run: kymogram.Run, spool: Path) -> None:
    for i in range(100):
        kymogram.log("a", float(i))
    kymogram.log({"a": 1.0, "b": 2.0})
    kymogram.log("v", [1.0] * 10)
    kymogram.log_rl_environment_step("r", [[1, 2], [3, 4]], rl_step=0, env_id=["a", "b"])
    kymogram.log_config({"x": 1, "y": {"z": 2}})
    kymogram.log_env_attributes("a", {"seed": 1})
    first = kymogram.get_metrics()
    assert first.float_points_added == first.float_points_enqueued == 112
    assert first.rl_float_points_added == first.rl_float_points_enqueued == 4
    assert (first.attribute_updates_added, first.env_attribute_updates_added) == (2, 1)
    assert first.float_points_sent == first.float_points_dropped == 0
    records = reader.records(reader.writers(spool)[0])
    for mark in range(len(records)):
        deliver(reader.writers(spool)[0], mark)
        pending = kymogram.get_metrics()
        behind = [one for one in reader.points(records) if one.seq > mark]
        assert pending.points_pending == len(behind)
        assert pending.rl_float_points_pending == sum("rl_step" in one.axes for one in behind)
    deliver(reader.writers(spool)[0], len(records), tallies=(112, 4, 2, 1, 0, 0, 0, 0))
    second = kymogram.get_metrics()
    assert (second.points_pending, second.float_points_pending) == (0, 0)
    assert (second.float_points_sent, second.rl_float_points_sent) == (112, 4)
    assert (second.attribute_updates_sent, second.env_attribute_updates_sent) == (2, 1)
    assert (second.requests_sent, second.connection_attempts) == (2, 1)


def test_updates(run: kymogram.Run, spool: Path) -> None:
    kymogram.log_config({"optimizer": {"name": "adam", "lr": 3e-4}, "empty": {}})
    kymogram.log_attributes("data/set", {"n": 3, "split": ["a", "b"]})
    kymogram.log_attributes("note", None)
    kymogram.log_attributes("set", {"b", "a"})
    kymogram.set_tags(["a"])
    kymogram.add_tags(("b",))
    kymogram.remove_tags(["a"])
    kymogram.set_description("text")
    kymogram.set_description(None)
    kymogram.log_env_attributes("e", {"seed": 1}, episode=4)
    found = reader.updates(reader.records(reader.writers(spool)[0]))
    assert all(one.pop("time_ns") > 0 for one in found)

    def attribute(path: str, kind: str, value: Any) -> dict[str, Any]:
        return {"op": "set_attribute", "path": path, "value": {"type": kind, "value": value}}

    assert found == [
        attribute("config/optimizer/lr", "float64", 3e-4),
        attribute("config/optimizer/name", "string", "adam"),
        attribute("data/set/n", "int64", 3),
        attribute("data/set/split/0", "string", "a"),
        attribute("data/set/split/1", "string", "b"),
        {"op": "set_attribute", "path": "note"},
        attribute("set", "string_set", ["a", "b"]),
        {"op": "set_tags", "tags": ["a"]},
        {"op": "add_tags", "tags": ["b"]},
        {"op": "remove_tags", "tags": ["a"]},
        {"op": "set_description", "text": "text"},
        {"op": "set_description", "text": ""},
        {
            "op": "set_env_attribute",
            "path": "seed",
            "value": {"type": "int64", "value": 1},
            "env": "e",
            "episode": 4,
        },
    ]


def test_wrong_limits_are_told_by_name(run: kymogram.Run) -> None:
    wrong: Any = "x"
    with pytest.raises(KymogramValidationError, match="timeout_secs"):
        kymogram.flush(wrong)
    with pytest.raises(KymogramValidationError, match="close_timeout"):
        kymogram.close(wrong)
    assert kymogram.is_initialized()


def test_durable_flush_offline_returns(run: kymogram.Run) -> None:
    kymogram.log("a", 1.0)
    start = time.monotonic()
    assert kymogram.flush(30, durable=True) is False
    assert time.monotonic() - start < 1.5


@pytest.mark.parametrize("state", ["link", "file", "readonly"])
def test_bad_spool_folders_fall_through(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, state: str
) -> None:
    bad, other = tmp_path / "bad", tmp_path / "state"
    if state == "link":
        (tmp_path / "elsewhere").mkdir()
        bad.symlink_to(tmp_path / "elsewhere")
    elif state == "file":
        bad.write_text("")
    else:
        bad = Path("/proc/kymogram")
    monkeypatch.setenv("KYMOGRAM_SPOOL_DIR", str(bad))
    monkeypatch.setenv("XDG_STATE_HOME", str(other))
    kymogram.init(log_level="OFF")
    kymogram.log("a", 1.0)
    assert len(list(other.glob("kymogram/spool/*/writers/*/00000000.seg"))) == 1


def test_closed_port_is_closed() -> None:
    assert closed_port() > 0
