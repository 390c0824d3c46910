"""What Prometheus gets: from this process, and from the agent."""

from __future__ import annotations

import asyncio
import json
import os
import re
import shutil
import socket
import subprocess
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from urllib.parse import quote

import pytest

import kymogram
from kymogram import metrics
from kymogram.metrics import _endpoint, _exposition

from .conftest import REPOSITORY, real_binary
from .test_metrics import counts_of, unconfigured

__all__ = ["unconfigured"]


@pytest.fixture
def handler() -> Iterator[metrics.PrometheusMetricHandler]:
    """A handler that serves a free port."""
    made = metrics.PrometheusMetricHandler(port=0)
    metrics.configure(made)
    yield made
    made.close()


def get(port: int | None, accept: str = "") -> tuple[str, str]:
    url = f"http://127.0.0.1:{port}/metrics"
    request = urllib.request.Request(url, headers={"Accept": accept})
    with urllib.request.urlopen(request, timeout=30) as answer:
        return answer.read().decode(), answer.headers["Content-Type"]


def publish() -> None:
    metrics.put_metric("step.count", 2)
    metrics.put_metric("step.count", 3)
    metrics.put_metric("step.success", 1)
    metrics.put_metric("step.duration.ms", 125)
    metrics.put_metric("step.duration.ms", 500)
    metrics.put_metric("loss", 1)
    metrics.put_metric("loss", float("nan"), "odd")
    metrics.put_metric('f.<locals>."g"\\\n', -0.5, "group two")


def test_the_end_of_a_name_says_what_it_is(handler: metrics.PrometheusMetricHandler) -> None:
    publish()
    text, kind = get(handler.port)
    assert kind.startswith("text/plain; version=0.0.4")
    group = 'group="torchelastic"'
    for line in (
        f'kymogram_metric_events_total{{{group},name="step.count"}} 5.0',
        f'kymogram_metric_events_total{{{group},name="step.success"}} 1.0',
        f'kymogram_metric_duration_seconds_bucket{{{group},name="step.duration.ms",le="0.1"}} 0',
        f'kymogram_metric_duration_seconds_bucket{{{group},name="step.duration.ms",le="0.5"}} 2',
        f'kymogram_metric_duration_seconds_bucket{{{group},name="step.duration.ms",le="+Inf"}} 2',
        f'kymogram_metric_duration_seconds_sum{{{group},name="step.duration.ms"}} 0.625',
        f'kymogram_metric{{{group},name="loss"}} 1.0',
        'kymogram_metric{group="odd",name="loss"} NaN',
        'kymogram_metric{group="group two",name="f.<locals>.\\"g\\"\\\\\\n"} -0.5',
    ):
        assert line in text.splitlines()


def test_openmetrics_where_it_is_asked_for(handler: metrics.PrometheusMetricHandler) -> None:
    publish()
    text, kind = get(handler.port, "application/openmetrics-text; version=1.0.0")
    assert kind.startswith("application/openmetrics-text; version=1.0.0")
    assert "# TYPE kymogram_metric_events counter\n" in text
    assert text.endswith("# EOF\n")


def test_promtool_finds_no_fault(handler: metrics.PrometheusMetricHandler) -> None:
    promtool = shutil.which("promtool")
    if promtool is None:
        pytest.skip("promtool is not installed: apt-get install prometheus")
    publish()
    handler.request("http", "GET /x", 200, 0.01)
    handler.set_state("ready")
    handler.validated(0.1)
    handler.set_scores({1: 1})
    handler.weights_set()
    text, _ = get(handler.port)
    command = [promtool, "check", "metrics"]
    done = subprocess.run(command, input=text, capture_output=True, text=True, timeout=60)
    assert (done.returncode, done.stdout + done.stderr) == (0, "")


def raw(port: int | None, request: bytes) -> bytes:
    assert port is not None
    with socket.create_connection(("127.0.0.1", port), timeout=30) as connection:
        connection.sendall(request)
        return connection.makefile("rb").read()


@pytest.mark.parametrize(
    ("request_line", "status"),
    [
        ("GET /metrics HTTP/1.1", 200),
        ("HEAD /metrics HTTP/1.1", 200),
        ("GET /metrics?a=b HTTP/1.0", 200),
        ("POST /metrics HTTP/1.1", 405),
        ("GET / HTTP/1.1", 404),
        ("GET /metrics/ HTTP/1.1", 404),
        ("GET //metrics HTTP/1.1", 404),
        ("nonsense", 400),
        ("GET /metrics HTTP/2", 400),
        ("", 400),
    ],
)
def test_only_metrics_is_served(
    handler: metrics.PrometheusMetricHandler, request_line: str, status: int
) -> None:
    publish()
    answer = raw(handler.port, f"{request_line}\r\nHost: x\r\n\r\n".encode())
    assert answer.startswith(f"HTTP/1.1 {status} ".encode())
    assert b"Connection: close" in answer
    if request_line.startswith("HEAD"):
        assert answer.endswith(b"\r\n\r\n")


def test_a_request_is_bounded(
    handler: metrics.PrometheusMetricHandler, monkeypatch: pytest.MonkeyPatch
) -> None:
    answer = raw(handler.port, b"GET /metrics HTTP/1.1\r\nX: " + b"x" * 8192)
    assert answer.startswith(b"HTTP/1.1 431 ")
    monkeypatch.setattr(_endpoint, "REQUEST_S", 0.05)
    assert raw(handler.port, b"GET /metr").startswith(b"HTTP/1.1 408 ")


def test_scrapes_and_connections_are_bounded(
    handler: metrics.PrometheusMetricHandler, monkeypatch: pytest.MonkeyPatch
) -> None:
    endpoint = handler._endpoint
    assert endpoint is not None
    now = time.monotonic()
    monkeypatch.setattr(_endpoint, "time", SimpleNamespace(monotonic=lambda: now))
    for _ in range(20):
        get(handler.port)
    with pytest.raises(urllib.error.HTTPError) as refused:
        get(handler.port)
    assert refused.value.code == 429
    assert refused.value.headers["Retry-After"] == "1"
    for _ in range(_endpoint.CONNECTIONS):
        assert endpoint._slots.acquire(timeout=30)
    assert raw(handler.port, b"") == b""  # closed at once


def test_what_cannot_be_counted_is_refused(handler: metrics.PrometheusMetricHandler) -> None:
    for name, value in (("a.count", -1), ("a.duration.ms", float("nan")), ("a.success", "x")):
        metrics.put_metric(name, value)  # type: ignore[arg-type]
    assert counts_of(handler).failed == 3
    text, _ = get(handler.port)
    assert 'group="' not in text


def test_series_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_exposition, "SERIES_MAX", 3)
    exposition = _exposition.Exposition()
    for name in ("a", "b.count", "c.duration.ms", "a"):
        exposition.metric("g", name, 1)
    with pytest.raises(ValueError, match="more than 3 series"):
        exposition.metric("g", "d", 1)


async def application(scope: Any, receive: Any, send: Any) -> None:
    """Starlette says which route it matched by scope["route"]."""
    if scope["path"] == "/fails":
        raise RuntimeError
    if scope["path"].startswith("/runs/"):
        scope["route"] = SimpleNamespace(path="/runs/{id}")
    status = 404 if scope["path"] == "/runs/none" else 200
    await send({"type": "http.response.start", "status": status, "headers": []})
    await send({"type": "http.response.body", "body": b"x"})


def test_requests_of_an_asgi_application(handler: metrics.PrometheusMetricHandler) -> None:
    app = metrics.ASGIMetrics(application, handler)
    sent: list[Any] = []

    async def send(message: Any) -> None:
        sent.append(message)

    async def call(path: str, method: str = "GET", kind: str = "http") -> None:
        scope = {"type": kind, "path": path, "method": method}
        await app(scope, lambda: None, send)  # type: ignore[arg-type, return-value]

    for path in ("/runs/1", "/runs/2", "/runs/none", "/" + "x" * 99):
        asyncio.run(call(path))
    asyncio.run(call("/", "INVENTED"))
    asyncio.run(call("/runs/3", kind="websocket"))
    with pytest.raises(RuntimeError):
        asyncio.run(call("/fails"))
    assert sent[0]["status"] == 200
    text, _ = get(handler.port)
    found = {
        (route, int(code)): float(value)
        for route, code, value in re.findall(
            r'kymogram_node_requests_total{protocol="http",route="(.*?)",code="(\d+)"} (\S+)', text
        )
    }
    assert found == {
        ("GET /runs/{id}", 200): 2,
        ("GET /runs/{id}", 404): 1,
        ("GET other", 200): 1,
        ("OTHER other", 200): 1,
        ("GET other", 500): 1,
    }
    latency = 'kymogram_node_request_duration_seconds_count{protocol="http",route="GET /runs/{id}"}'
    assert f"{latency} 3" in text
    with pytest.raises(ValueError, match="a port"):
        metrics.ASGIMetrics(application, metrics.PrometheusMetricHandler())


def test_a_validator_tells_of_itself(handler: metrics.PrometheusMetricHandler) -> None:
    handler.set_state("starting")
    handler.set_state("ready")
    handler.validated(0.25)
    handler.validated(2, failed=True)
    handler.set_scores({3: 1})
    handler.set_scores({7: 0.5, 65535: 0})
    before = time.time()
    handler.weights_set()
    text, _ = get(handler.port)
    lines = text.splitlines()
    for line in (
        'kymogram_node_state{state="ready"} 1.0',
        'kymogram_node_state{state="starting"} 0.0',
        'kymogram_node_validations_total{result="success"} 1.0',
        'kymogram_node_validations_total{result="failure"} 1.0',
        "kymogram_node_validation_duration_seconds_sum 2.25",
        'kymogram_node_score{uid="7"} 0.5',
        'kymogram_node_score{uid="65535"} 0.0',
    ):
        assert line in lines
    assert 'uid="3"' not in text
    (moment,) = re.findall(r"(?m)^kymogram_node_last_weights_timestamp_seconds (\S+)", text)
    assert before <= float(moment) <= time.time()
    with pytest.raises(ValueError, match="is one of"):
        handler.set_state("idle")
    with pytest.raises(ValueError, match="is 0 to 65535"):
        handler.set_scores({-1: 1})
    with pytest.raises(ValueError, match="a port"):
        metrics.PrometheusMetricHandler().weights_set()


def go_families() -> set[str]:
    """The families that Go's code names."""
    found = set()
    for path in (REPOSITORY / "metrics").glob("*.go"):
        if not path.name.endswith("_test.go"):
            found.update(re.findall(r'"(kymogram_[a-z0-9_]+)"', path.read_text("utf-8")))
    return found


def test_the_families_are_those_of_go() -> None:
    families = _exposition.Exposition()._families
    names = {one.name + ("_total" if one.kind == "counter" else "") for one in families}
    assert len(names) == 12
    assert names <= go_families()


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system has no fork")
def test_a_forked_child_does_not_keep_the_port(handler: metrics.PrometheusMetricHandler) -> None:
    read, write = os.pipe()
    child = os.fork()
    if child == 0:  # lives until the parent has looked
        os.close(write)
        os.read(read, 1)
        os._exit(0)
    try:
        port = handler.port
        assert port is not None
        handler.close()
        with socket.socket() as again:
            again.bind(("127.0.0.1", port))
            again.listen()
    finally:
        os.close(write)
        os.waitpid(child, 0)


def until(what: str, found: Callable[[], Any]) -> Any:
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline:
        answer = found()
        if answer:
            return answer
        time.sleep(0.06)
    raise AssertionError(f"no {what} within a minute")


@pytest.fixture
def agent(spool: Path, tmp_path: Path) -> Iterator[str]:
    """A real agent that exposes one group; its endpoint's address."""
    binary = real_binary()
    if binary is None:
        pytest.skip("the kymogram binary is not built: make build")
    spool.mkdir(mode=0o700)
    log = tmp_path / "agent"
    command = [str(binary), "agent", "--spool", str(spool), "--metrics", "127.0.0.1:0"]
    with log.open("w") as out:
        started = subprocess.Popen([*command, "--expose", "torchelastic"], stderr=out)
    try:
        address = re.compile(r"address=http://(\S+)/metrics")
        yield until("endpoint", lambda: address.search(log.read_text()))[1]
    finally:
        started.terminate()
        assert started.wait(30) == 0


def test_the_agent_exposes_what_goes_to_the_spool(agent: str) -> None:
    kymogram.init(run_name="run", log_level="OFF")
    metrics.configure(metrics.PrometheusMetricHandler())
    publish()
    port = int(agent.rpartition(":")[2])
    text = until("value", lambda: one if 'name="loss"' in (one := get(port)[0]) else "")
    assert 'kymogram_metric_events_total{group="torchelastic",name="step.count"} 5\n' in text
    assert 'name="step.duration.ms"} 0.625\n' in text
    assert 'group="odd"' not in text
    assert 'group="group two"' not in text


def test_a_real_prometheus_reads_both(
    agent: str, handler: metrics.PrometheusMetricHandler, tmp_path: Path
) -> None:
    program = shutil.which("prometheus")
    if program is None:
        pytest.skip("Prometheus is not installed: apt-get install prometheus")
    kymogram.init(run_name="run", log_level="OFF")
    spooled = metrics.PrometheusMetricHandler()
    metrics.configure(metrics.FanOutMetricHandler(handler, spooled))
    publish()
    config = {
        "global": {"scrape_interval": "1s"},
        "scrape_configs": [
            {"job_name": "own", "static_configs": [{"targets": [f"127.0.0.1:{handler.port}"]}]},
            {"job_name": "agent", "static_configs": [{"targets": [agent]}]},
        ],
    }
    (tmp_path / "prometheus.yml").write_text(json.dumps(config))
    log = tmp_path / "log"
    command = [program, f"--config.file={tmp_path}/prometheus.yml"]
    command += [f"--storage.tsdb.path={tmp_path}/data", "--web.listen-address=127.0.0.1:0"]
    with log.open("w") as out:
        started = subprocess.Popen(command, stderr=out)
    try:
        listening = re.compile(r'msg="Listening on".* address=(\S+)')
        address = until("Prometheus", lambda: listening.search(log.read_text()))[1]
        until("readiness", lambda: "Server is ready" in log.read_text())

        def ask(query: str) -> dict[str, str]:
            url = f"http://{address}/api/v1/query?query=" + quote(query)
            with urllib.request.urlopen(url, timeout=30) as answer:
                result = json.load(answer)["data"]["result"]
            return {one["metric"]["job"]: one["value"][1] for one in result}

        both = {"own": "5", "agent": "5"}
        events = 'kymogram_metric_events_total{name="step.count",group="torchelastic"}'
        until("counter from both", lambda: ask(events) == both)
        for query, want in (
            ('kymogram_metric{name="loss",group="torchelastic"}', "1"),
            ('kymogram_metric_duration_seconds_sum{name="step.duration.ms"}', "0.625"),
            ('kymogram_metric_duration_seconds_bucket{le="0.5"}', "2"),
        ):
            both = {"own": want, "agent": want}
            until(query, lambda query=query, both=both: ask(query) == both)  # type: ignore[misc]
        assert ask('kymogram_metric{group="group two"}') == {"own": "-0.5"}
    finally:
        started.terminate()
        started.wait(30)
