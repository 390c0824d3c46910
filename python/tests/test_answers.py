"""Servers that answer init() in every wrong way: one clear error, or a run that begins offline."""

from __future__ import annotations

import json
import re
import socket
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

import kymogram
from kymogram import query
from kymogram._delivery import client

from . import reader

RUN = '"run": "01M8085QWFDWZV5BG25CTV21D2", "run_name": "r"'


def http(status: str, body: bytes, head: str = "") -> bytes:
    return f"HTTP/1.1 {status}\r\n{head}Content-Length: {len(body)}\r\n\r\n".encode() + body


def refusal(status: str, code: str, message: str = "no", hint: str = "do this") -> bytes:
    error = {"code": code, "message": message, "hint": hint}
    return http(status, json.dumps({"error": error}).encode())


def whole(connection: socket.socket) -> bytes:
    """A request with its body: a server that hangs up before it has read all resets the
    connection, and what it answered may be lost."""
    question = b""
    while more := connection.recv(1 << 16):
        question += more
        head, end, body = question.partition(b"\r\n\r\n")
        if end:
            found = re.search(rb"(?i)\ncontent-length: *(\d+)", head)
            if len(body) >= (int(found[1]) if found else 0):
                break
    return question


@contextmanager
def answering(answer: bytes, asked: list[bytes] | None = None) -> Iterator[str]:
    """A server that gives every request the same answer, and then hangs up."""
    listener = socket.create_server(("127.0.0.1", 0))

    def work() -> None:
        while True:
            try:
                connection, _ = listener.accept()
            except OSError:
                return
            with connection:
                question = whole(connection)
                if asked is not None:
                    asked.append(question)
                connection.sendall(answer)

    thread = threading.Thread(target=work, daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{listener.getsockname()[1]}"
    finally:
        listener.shutdown(socket.SHUT_RDWR)
        listener.close()
        thread.join()


OFFLINE = [
    (b"\x00\xffnonsense\r\n\r\n", "is not reached"),
    (b"", "is not reached"),
    (http("200 OK", b"<html>hello</html>"), "is this a Kymogram server"),
    (http("200 OK", b"[1, 2]"), "is this a Kymogram server"),
    (http("200 OK", b'{"run": "\xff"}'), "is this a Kymogram server"),
    (http("200 OK", b"[" * 100_000), "is this a Kymogram server"),
    (http("404 Not Found", b"nothing here"), "HTTP 404"),
    (http("301 Moved", b"", "Location: https://elsewhere/x\r\n"), "redirects to https://elsewhere"),
    (http("307 Moved", b"", "Location: /login\r\n"), "/login. It looks like a proxy"),
    (refusal("429 Too Many", "rate_limited", "too many"), "too many"),
    (refusal("500 Oops", "internal", "it broke"), "it broke"),
    (http("502 Bad Gateway", b"<html>"), "HTTP 502"),
    (refusal("503 No", "unavailable", "it starts"), "it starts"),
]


@pytest.mark.parametrize(("answer", "said"), OFFLINE)
def test_the_run_begins_offline(
    spool: Path, answer: bytes, said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with answering(answer) as server:
        start = time.monotonic()
        kymogram.init(run_name="r", server=server)
        kymogram.log("a", 1.0)
        info = kymogram.close()
        took = time.monotonic() - start
    assert said in capsys.readouterr().err
    assert info is not None and info.has_undelivered_spool
    assert [point.value for point in reader.all_points(spool)] == [1.0]
    assert took < 5.0  # far below close()'s 15 s: what answers is no Kymogram server


RAISED = [
    (refusal("401 No", "unauthenticated"), kymogram.NoKymogramApiKeyError),
    (http("401 No", b'{"error": "text"}'), kymogram.NoKymogramApiKeyError),
    (refusal("403 No", "denied"), kymogram.KymogramAuthError),
    (refusal("400 No", "invalid"), kymogram.KymogramValidationError),
    (refusal("409 No", "run_exists"), kymogram.KymogramOrchestrationIdMismatchError),
    (refusal("410 No", "deleted"), kymogram.KymogramLoggerInitError),
    (refusal("413 No", "limit"), kymogram.KymogramLoggerInitError),
    (http("200 OK", b"{}"), kymogram.KymogramLoggerInitError),
    (http("200 OK", b'{"run": 5}'), kymogram.KymogramLoggerInitError),
    (http("200 OK", f'{{{RUN}, "starts": 7}}'.encode()), kymogram.KymogramLoggerInitError),
    (http("200 OK", f'{{{RUN}, "starts": [{{}}]}}'.encode()), kymogram.KymogramLoggerInitError),
    (http("200 OK", f'{{{RUN}, "starts": [3]}}'.encode()), kymogram.KymogramLoggerInitError),
    (http("200 OK", f'{{{RUN}, "envs": [{{}}]}}'.encode()), kymogram.KymogramLoggerInitError),
]


@pytest.mark.parametrize(("answer", "error"), RAISED)
def test_init_raises(spool: Path, answer: bytes, error: type[Exception]) -> None:
    with answering(answer) as server, pytest.raises(error) as caught:
        kymogram.init(run_name="r", server=server)
    assert type(caught.value) is error
    assert not kymogram.is_initialized()
    assert not spool.exists()


def test_a_server_cannot_steer_the_terminal(capsys: pytest.CaptureFixture[str]) -> None:
    name = http("200 OK", b'{"run": "01M8085QWFDWZV5BG25CTV21D2", "run_name": "\\u001b[31mred\\n"}')
    with answering(name) as server:
        kymogram.init(run_name="r", server=server)
        kymogram.close(0)
    said = capsys.readouterr().err
    assert "\x1b" not in said
    assert r"run \x1b[31mred\n at" in said
    steering = refusal("403 No", "denied", "\x1b[2J")
    with answering(steering) as server, pytest.raises(kymogram.KymogramAuthError) as caught:
        kymogram.init(run_name="r", server=server)
    assert str(caught.value) == r"\x1b[2J. do this"
    assert caught.value.message == str(caught.value)


def test_a_parent_that_is_not_there_is_told(
    spool: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with answering(http("200 OK", f'{{{RUN}, "parent_missing": true}}'.encode())) as server:
        kymogram.init(run_name="r", server=server, fork_from_run="nobody", fork_at_step=3)
        kymogram.close(0)
    said = capsys.readouterr().err
    assert "fork_from_run 'nobody' is no run of default/default" in said


@pytest.mark.parametrize("scheme", ["http", "https"])
@pytest.mark.parametrize("user", ["", "me:p%40ss@"])
def test_a_proxy_with_a_password(
    spool: Path, monkeypatch: pytest.MonkeyPatch, scheme: str, user: str
) -> None:
    """The proxy is asked by its address, the name goes along and not into a look-up of hosts."""
    asked: list[bytes] = []
    monkeypatch.delenv("no_proxy", raising=False)
    monkeypatch.delenv("NO_PROXY", raising=False)
    with answering(http("407 Who", b"{}"), asked) as address:
        proxy = address.replace("//", "//" + user)
        monkeypatch.setenv(f"{scheme}_proxy", proxy)
        with pytest.raises(client.Unreachable, match="407"):
            client.open_run(f"{scheme}://far.invalid:7070", "k" * 40, {})
    line, *headers = asked[0].decode().split("\r\n")
    wanted = "CONNECT far.invalid:7070 " if scheme == "https" else "POST http://far.invalid:7070/"
    assert line.startswith(wanted)
    basic = [one for one in headers if one.startswith("Proxy-Authorization: ")]
    assert basic == (["Proxy-Authorization: Basic bWU6cEBzcw=="] if user else [])
    assert ("k" * 40 in asked[0].decode()) is (scheme == "http")


def cut_arrow() -> bytes:
    """What is left of an Arrow stream that a proxy cut, under a length that fits it."""
    pyarrow = pytest.importorskip("pyarrow")
    table = pyarrow.table({"step": list(range(1000)), "value": [0.5] * 1000})
    sink = pyarrow.BufferOutputStream()
    with pyarrow.ipc.new_stream(sink, table.schema) as stream:
        stream.write_table(table)
    whole: bytes = sink.getvalue().to_pybytes()
    return http("200 OK", whole[: len(whole) // 2])


STRANGE = [
    http("200 OK", b"{}"),
    http("200 OK", b"[" * 100_000),
    http("200 OK", b'{"series":null,"columns":null,"next":null}'),
    http("200 OK", b'{"series":[{"metric":1}],"next":null}'),
    http("500 Oops", b'{"error":null}'),
    http("500 Oops", b'{"error":{"code":1,"message":2}}'),
    "arrow",
]


@pytest.mark.parametrize("answer", STRANGE)
def test_a_reader_names_a_server_that_is_none(answer: bytes | str) -> None:
    with answering(cut_arrow() if isinstance(answer, str) else answer) as server:
        reading = query.Client(server)
        run = query.Run(reading, {"id": "r"})
        for read in (lambda: reading.run("w/p/r"), run.series, run.detail, lambda: run.points("a")):
            with pytest.raises(query.QueryError, match=r"no Kymogram server|no answer of Kymogram"):
                read()
