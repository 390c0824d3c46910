"""MetricsLogger with an InfluxDB as its sink: a scripted one, and real ones where there are."""

from __future__ import annotations

import gzip
import http.server
import json
import logging
import os
import signal
import subprocess
import sys
import textwrap
import threading
import time
import urllib.parse
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from kymogram.telemetry import (
    MertricsLoggerWriteOptions,
    MetricsLogger,
    MetricsLoggerWriteOptions,
)

from .conftest import REPOSITORY, closed_port

influxdb_client = pytest.importorskip(
    "influxdb_client", reason="influxdb-client is not installed: pip install 'kymogram[influx]'"
)

MINER: dict[str, Any] = {"prefix": "M", "uid": "7", "role": "miner", "runtime_id": "life"}
TAGS = "prefix=M,role=miner,runtime_id=life"
FAST: dict[str, int] = {
    "flush_interval": 20,
    "jitter_interval": 0,
    "retry_interval": 20,
    "max_retry_delay": 50,
}


class Influx:
    """An InfluxDB that answers as it is told, and keeps the lines of what it took."""

    def __init__(self, version: str) -> None:
        self.version = version
        self.lines: list[str] = []
        self.asked: list[tuple[str, str]] = []  # path and sign-in of each write
        self.answers: list[tuple[int, str]] = []  # of the next writes; 204 behind them
        self.poison = ""  # a body that holds it is refused
        outer = self

        class Handler(http.server.BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                self._answer(204, "")

            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["Content-Length"]))
                if self.headers.get("Content-Encoding") == "gzip":
                    body = gzip.decompress(body)
                outer.asked.append((self.path, self.headers.get("Authorization", "")))
                status, text = outer.take(body.decode())
                self._answer(status, text)

            def _answer(self, status: int, text: str) -> None:
                self.send_response(status)
                self.send_header("X-Influxdb-Version", outer.version)
                self.send_header("Content-Length", str(len(text)))
                self.end_headers()
                self.wfile.write(text.encode())

            def log_message(self, *_: Any) -> None:
                pass

        self.server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.host = "http://127.0.0.1"
        self.port = self.server.server_address[1]
        threading.Thread(target=self.server.serve_forever, daemon=True).start()

    def take(self, body: str) -> tuple[int, str]:
        if self.answers:
            status, text = self.answers.pop(0)
            if status != 204:
                return status, text
        if self.poison and self.poison in body:
            return 400, '{"code":"invalid","message":"unable to parse"}'
        self.lines += body.split("\n")
        return 204, ""

    def logger(self, **more: Any) -> MetricsLogger:
        given: dict[str, Any] = {**MINER, "host": self.host, "port": self.port, **more}
        given.setdefault("write_options", MetricsLoggerWriteOptions(batch_size=100, **FAST))
        return MetricsLogger(**given)


@pytest.fixture(params=["v2.7.1", "1.6.7"])
def influx(request: pytest.FixtureRequest) -> Iterator[Influx]:
    found = Influx(request.param)
    yield found
    found.server.shutdown()
    found.server.server_close()


def test_a_point_is_the_originals_line(influx: Influx) -> None:
    logger = influx.logger(token="me:word", config={"lr": 0.1, "api_key": "x"})
    fields = {"loss": 0.5, "n": 3, "on": True, "ids": [1, 2], "text": "a b"}
    logger.log("step", {"window": 12, "empty": None}, fields, timestamp=1_000)
    logger.close()
    assert influx.lines == [
        "Mstep,window=12,config_api_key=***,config_lr=0.1,prefix=M,role=miner,runtime_id=life,uid=7"
        ' ids="[1, 2]",loss=0.5,n=3i,on=1i,text="a b" 1000'
    ]
    ((path, sign_in),) = influx.asked
    if influx.version.startswith("1"):
        assert path == "/write?db=tplr&precision=ns" and sign_in == "Basic bWU6d29yZA=="
    else:
        assert path.startswith("/api/v2/write?org=tplr&bucket=tplr") and sign_in == "Token me:word"


def test_batches_have_the_size_that_was_asked(influx: Influx) -> None:
    logger = influx.logger(
        write_options=MertricsLoggerWriteOptions(batch_size=50, flush_interval=60_000)
    )
    for i in range(120):
        logger.log("x", {}, {"v": i}, timestamp=1 + i)
    logger.close()
    assert len(influx.lines) == 120 and len(influx.asked) == 3


@pytest.mark.parametrize(("role", "size"), [("validator", 10_000), ("miner", 1_000)])
def test_the_batch_follows_the_role(influx: Influx, role: str, size: int) -> None:
    logger = influx.logger(role=role, write_options=None)
    for i in range(size - 1):
        logger.log("x", {}, {"v": i}, timestamp=1 + i)
    assert influx.asked == []
    logger.log("x", {}, {"v": 1.0})
    deadline = time.monotonic() + 60
    while not influx.lines and time.monotonic() < deadline:
        time.sleep(0.01)
    assert len(influx.lines) == size
    logger.close()


def test_what_may_be_taken_later_is_sent_again(
    influx: Influx, caplog: pytest.LogCaptureFixture
) -> None:
    influx.answers = [(503, "busy"), (429, "slow"), (401, "unauthorized"), (500, "oops")]
    logger = influx.logger()
    for i in range(10):
        logger.log("x", {}, {"v": i}, timestamp=1 + i)
    assert logger.flush(60)
    assert len(influx.lines) == 10 and logger.counts().waiting == 0
    assert "answer 503" in caplog.text
    logger.close()


def test_a_bad_line_costs_itself_alone(influx: Influx, caplog: pytest.LogCaptureFixture) -> None:
    influx.poison = "v=7i"
    logger = influx.logger()
    for i in range(64):
        logger.log("x", {}, {"v": i}, timestamp=1 + i)
    assert logger.flush(60)
    assert len(influx.lines) == 63 and logger.counts().refused == 1
    assert "refused 1 points for good" in caplog.text
    logger.close()


def test_a_partial_write_is_not_sent_again(influx: Influx) -> None:
    influx.answers = [(422, "partial write: field type conflict dropped=3")]
    logger = influx.logger()
    for i in range(10):
        logger.log("x", {}, {"v": i}, timestamp=1 + i)
    assert logger.flush(60)
    assert logger.counts().refused == 3 and len(influx.asked) == 1
    logger.close()


def test_the_bound_bounds(influx: Influx, caplog: pytest.LogCaptureFixture) -> None:
    influx.answers = [(503, "busy")] * 1000
    logger = influx.logger(max_queue_size=10)
    for i in range(100):
        logger.log("x", {}, {"v": i}, timestamp=1 + i)
    found = logger.counts()
    assert (found.logged, found.failed, found.refused, found.waiting) == (10, 90, 90, 10)
    assert "max_queue_size" in caplog.text
    influx.answers = []
    assert logger.flush(60)
    assert len(influx.lines) == 10
    logger.log("x", {}, {"v": 1.0})
    assert logger.flush(60)
    logger.close()


def test_nan_is_counted_and_named_once(influx: Influx, caplog: pytest.LogCaptureFixture) -> None:
    logger = influx.logger()
    for i in range(3):
        logger.log("x", {}, {"loss": float("nan"), "v": 1.0}, timestamp=1 + i)
    logger.log("x", {}, {"loss": float("inf")})
    logger.close()
    assert len(influx.lines) == 3
    found = logger.counts()
    assert (found.nonfinite, found.failed) == (4, 1)
    warned = [r.message for r in caplog.records if "NaN" in r.message]
    assert len(warned) == 1 and "Mx/loss" in warned[0]


def test_the_standard_tag_wins(influx: Influx) -> None:
    logger = influx.logger()
    logger.log("x", {"uid": 5, "role": "other"}, {"v": 1.0}, timestamp=1)
    logger.close()
    assert influx.lines == [f"Mx,caller_role=other,caller_uid=5,{TAGS},uid=7 v=1 1"]


def test_each_write_can_be_seen(influx: Influx, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.DEBUG, "kymogram.telemetry"):
        logger = influx.logger()
        logger.log("x", {}, {"v": 1.0}, timestamp=1)
        logger.close()
    assert "1 points, 50 bytes: answer 204 in" in caplog.text


PROGRAM = """
    import os, signal, sys
    from kymogram.telemetry import MetricsLogger, MetricsLoggerWriteOptions
    options = MetricsLoggerWriteOptions(batch_size=1000)
    logger = MetricsLogger(
        sys.argv[1], uid="7", role="miner", runtime_id="life", write_options=options
    )
    for i in range(500):
        logger.log("x", {}, {"v": i, "text": "two\\nlines"}, timestamp=1 + i)
    if sys.argv[2] == "kill":
        os.kill(os.getpid(), signal.SIGKILL)
    if sys.argv[2] == "fork":
        if os.fork() == 0:
            logger.log("x", {}, {"v": 500, "text": "two\\nlines"}, timestamp=501)
            logger.close()
            os._exit(0)
        os.wait()
"""


@pytest.mark.parametrize("end", ["kill", "exit", "fork"])
def test_an_exit_without_close_loses_nothing(influx: Influx, end: str) -> None:
    address = f"{influx.host}:{influx.port}"
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(PROGRAM), address, end],
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
        check=False,
        timeout=120,
    )
    assert done.returncode == (-signal.SIGKILL if end == "kill" else 0)
    assert (influx.asked == []) == (end == "kill")
    influx.logger(host=address, port=None).close(60)  # sends what the killed one left
    text = "\n".join(influx.lines)
    count = 500 + (end == "fork")
    assert all(f"v={i}i {1 + i}" in text for i in range(count))
    assert text.count("Mx") == 0 and text.count("x,role") == count
    left = list((Path(os.environ["KYMOGRAM_SPOOL_DIR"]) / "influx").rglob("*.lines"))
    assert left == []


def test_no_host_is_built_in(monkeypatch: pytest.MonkeyPatch, influx: Influx) -> None:
    monkeypatch.setenv("INFLUXDB_HOST", influx.host)
    monkeypatch.setenv("INFLUXDB_PORT", str(influx.port))
    monkeypatch.setenv("INFLUXDB_DATABASE", "other")
    monkeypatch.setenv("INFLUXDB_ORG", "org")
    monkeypatch.setenv("INFLUXDB_TOKEN", "a:b")
    logger = MetricsLogger(**MINER)
    logger.log("x", {}, {"v": 1.0})
    logger.close()
    path = influx.asked[0][0]
    assert "db=other" in path or "org=org&bucket=other" in path


class Real:
    """A real InfluxDB 1.x."""

    def __init__(self, program: str, folder: Path) -> None:
        self.port, rpc = closed_port(), closed_port()
        config = folder / "influxdb.conf"
        config.write_text(
            f"""
            reporting-disabled = true
            bind-address = "127.0.0.1:{rpc}"
            [meta]
            dir = "{folder}/meta"
            [data]
            dir = "{folder}/data"
            wal-dir = "{folder}/wal"
            [http]
            bind-address = "127.0.0.1:{self.port}"
            flux-enabled = true
            """,
            encoding="utf-8",
        )
        log = (folder / "log").open("w")
        self.process = subprocess.Popen([program, "-config", str(config)], stdout=log, stderr=log)
        deadline = time.monotonic() + 60
        while time.monotonic() < deadline:
            try:
                self.ask("CREATE DATABASE tplr")
                return
            except OSError:
                time.sleep(0.05)
        raise AssertionError((folder / "log").read_text(encoding="utf-8"))

    def ask(self, query: str) -> Any:
        """What InfluxQL answers."""
        body = urllib.parse.urlencode({"db": "tplr", "q": query, "epoch": "ns"}).encode()
        with urllib.request.urlopen(f"http://127.0.0.1:{self.port}/query", body) as answer:
            return json.load(answer)["results"][0].get("series", [])


def programs() -> list[Any]:
    """The real servers that this machine has; a missing one is a test that is skipped."""
    found = []
    for name in ("influxd-1.6", "influxd-1.8"):
        path = REPOSITORY / "bin" / "tools" / name
        why = f"there is no bin/tools/{name}: make influx"
        missing = pytest.mark.skipif(not path.exists(), reason=why)
        found.append(pytest.param(str(path), id=name, marks=missing))
    return found


@pytest.mark.parametrize("program", programs())
def test_a_real_influxdb_has_every_point(program: str, tmp_path: Path) -> None:
    real = Real(program, tmp_path)
    try:
        options = MetricsLoggerWriteOptions(batch_size=300, **FAST)
        logger = MetricsLogger(
            "http://127.0.0.1", real.port, max_workers=2, write_options=options, **MINER
        )
        for i in range(1000):
            logger.log("x", {"window": 1}, {"v": i, "t": "a\nb", "f": i / 7}, timestamp=1 + i)
        logger.log("x", {"window": 1}, {"v": "not a number"}, timestamp=2000)
        assert logger.flush(60)
        assert logger.counts().refused == 1
        logger.close()
        (found,) = real.ask('SELECT v, t, f, uid FROM "Mx"')
        assert found["values"] == [[1 + i, i, "a\nb", i / 7, "7"] for i in range(1000)]
    finally:
        real.process.kill()
        real.process.wait()
