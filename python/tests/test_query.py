"""The read API against a real server; the oracle is what was logged."""

from __future__ import annotations

import json
import math
import random
import sys
import threading
import warnings
from array import array
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from typing import Any

import pytest

import kymogram
from kymogram import query
from kymogram._reading import columns

from .rig import Served

FLOATS = [0.5, math.nan, -0.0, math.inf, 1e-310, -math.inf, 0.1 + 0.2]


@pytest.fixture
def logged(served: Served) -> Served:
    with kymogram.init(run_name="a/b", config={"lr": 0.1, "big": 2**60 + 1}, tags=["t"]) as run:
        run.log("loss", FLOATS)
        run.log("tokens", 2**62, dtype="int64", step=5)
        run.log("tokens", -(2**63), dtype="int64", step=6)
        run.log("g", 1.0, labels={"layer": "", "x": "é&"[0]})
        run.log_rl_episode("return", 3.5, rl_step=2, episode=7, env_id="e")
        run.log_rl_episode("return", 4.5, rl_step=2, env_id="e")
    served.sync()
    return served


@pytest.fixture(params=["arrow", "numpy", "plain"])
def numpy(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    """With pyarrow, with NumPy alone, with the standard library alone."""
    if request.param == "arrow":
        pytest.importorskip("pyarrow")
    else:
        monkeypatch.setitem(sys.modules, "pyarrow", None)
    if request.param == "plain":
        monkeypatch.setitem(sys.modules, "numpy", None)
        yield None
    else:
        yield pytest.importorskip("numpy")


def bits(values: Any) -> list[str]:
    return [float(one).hex() for one in values]


def test_points(logged: Served, numpy: Any) -> None:
    run = logged.client.run("default/default/a/b")
    loss = run.points("loss")
    assert bits(loss["value"]) == bits(FLOATS)
    assert list(loss["step"]) == list(range(len(FLOATS)))
    assert isinstance(loss["value"], numpy.ndarray if numpy else array)
    tokens = run.points("tokens")
    assert [int(one) for one in tokens["value"]] == [2**62, -(2**63)]
    assert tokens["value"].dtype == "int64" if numpy else tokens["value"].typecode == "q"
    assert list(run.points("loss", first=2, last=3)["step"]) == [2, 3]
    assert run.points("loss", limit=4).rows == 4
    assert run.points("loss", first=100).rows == 0


def test_an_axis_with_gaps_stays_exact(logged: Served, numpy: Any) -> None:
    run = logged.client.run("default/default/a/b")
    points = run.points("return", scale="EPISODE", labels={"env_id": "e"})
    assert list(points["rl_step"]) == [2, 2]
    column = columns.column([7, None, 2**60 + 1], "q")
    assert (column.tolist() if numpy else column) == [7, None, 2**60 + 1]


def test_pages_join_without_seam(served: Served, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(query, "_POINTS_PAGE", 7)
    monkeypatch.setattr(query, "_PAGE", 3)
    chance = random.Random(1)
    values = [chance.gauss(0, 1) for _ in range(100)]
    for name in "abcdefgh":
        with kymogram.init(run_name=name) as run:
            run.log("x", values)
            for metric in range(5):
                run.log(f"m{metric}", 1.0)
    served.sync()
    runs = list(served.client.runs("default/default", sort="name"))
    assert [run.name for run in runs] == list("abcdefgh")
    assert [one.name for one in served.client.runs("default/default", sort="-name", limit=4)] == [
        *"hgfe"
    ]
    assert [one.metric for one in runs[0].series()] == ["m0", "m1", "m2", "m3", "m4", "x"]
    assert list(runs[0].points("x")["value"]) == values
    assert list(runs[0].points("x", limit=20)["value"]) == values[:20]


def test_a_name_that_no_run_has_is_a_warning(logged: Served) -> None:
    """Where the caller asks, once for each query; other lists are silent."""
    for take in (
        lambda **options: list(logged.client.runs("default/default", **options)),
        lambda **options: logged.client._runs_frame("default/default", "größe=1", {}),
    ):
        with pytest.warns(UserWarning) as caught:
            take(filter="größe=1")
        assert [str(one.message) for one in caught] == ['no run of default/default has "größe"']
        assert [one.filename for one in caught] == [__file__]
    with pytest.warns(UserWarning, match='did you mean "lr"'):
        assert list(logged.client.runs("default/default", "lrr=1")) == []
    with pytest.warns(UserWarning, match="the list is not sorted: no run .* has"):
        assert len(list(logged.client.runs("default/default", sort="nothing"))) == 1
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert list(logged.client.runs("default/default", "lr>0.5")) == []
        assert len(list(logged.client.runs("default/default", "lr=0.1"))) == 1


def test_buckets_hold_every_point(served: Served) -> None:
    values = [math.sin(i / 50) + (i == 777) * 9 for i in range(5000)] + [math.nan, math.inf]
    with kymogram.init(run_name="r") as run:
        run.log("x", values)
    served.sync()
    run_read = served.client.run("default/default/r")
    for series in run_read.series("^x$"):
        buckets = series.buckets(n=40)
    assert 0 < buckets.rows <= 40
    assert list(run_read.buckets("x", 40)["count"]) == list(buckets["count"])
    assert sum(buckets["count"]) == 5000
    assert (sum(buckets["nan"]), sum(buckets["pos_inf"])) == (1, 1)
    for lo, hi, least, most in zip(*(buckets[name] for name in ("lo", "hi", "min", "max"))):
        inside = [one for one in values[lo : hi + 1] if math.isfinite(one)]
        if inside:
            assert (least, most) == (min(inside), max(inside))
        else:
            assert math.isnan(least)


def test_runs_series_and_attributes(logged: Served) -> None:
    (run,) = logged.client.runs("default/default", "lr=0.1", tag="t", status="finished")
    assert (run.name, run.tags, run.status) == ("a/b", ["t"], "finished")
    assert run.attributes()["config/big"] == 2**60 + 1
    assert list(logged.client.runs("default/default", "lr>0.5")) == []
    found = {(one.metric, one.scale): one for one in run.series()}
    assert found["tokens", "ML_STEP"].last == -(2**63)
    assert found["loss", "ML_STEP"].count == len(FLOATS)
    assert found["return", "EPISODE"].labels == {"env_id": "e"}
    assert list(found["return", "EPISODE"].points()["value"]) == [3.5, 4.5]
    assert list(found["g", "ML_STEP"].points()["value"]) == [1.0]
    assert [one["project"] for one in logged.client.projects()] == ["default"]


def test_errors_say_what_to_do(served: Served) -> None:
    with pytest.raises(query.QueryError) as refused:
        served.client.run("default/default/none")
    assert refused.value.code == "not_found"
    with pytest.raises(query.QueryError, match="there is no project default.*kymogram projects"):
        list(served.client.runs("default"))
    away = query.Client("http://127.0.0.1:1")
    with pytest.raises(query.QueryError, match="kymogram serve") as trouble:
        away.run("x")
    assert trouble.value.code == "unavailable"


def test_pandas_is_optional(logged: Served, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pandas", None)
    with pytest.raises(query.QueryError, match="pip install pandas"):
        logged.client.run("default/default/a/b").points("loss").to_pandas()


class _Busy(HTTPServer):
    """Refuses so many requests with a status, then answers."""

    def __init__(self, status: int, times: int) -> None:
        super().__init__(("127.0.0.1", 0), _Answer)
        self.status, self.times, self.asked = status, times, 0


class _Answer(BaseHTTPRequestHandler):
    server: _Busy

    def do_GET(self) -> None:
        self.server.asked += 1
        status = self.server.status if self.server.asked <= self.server.times else 200
        refusal = {"error": {"code": "busy", "message": "the server is busy", "hint": "later"}}
        body = json.dumps({"projects": [], "next": None} if status == 200 else refusal).encode()
        self.send_response(status)
        if status in (429, 503):
            self.send_header("Retry-After", "0")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 - the base class's name
        pass


@pytest.mark.parametrize(
    ("status", "times", "asked"), [(429, 4, 5), (503, 1, 2), (429, 9, 5), (500, 1, 1)]
)
def test_a_busy_server_is_asked_again(status: int, times: int, asked: int) -> None:
    with _Busy(status, times) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        client = query.Client(f"http://127.0.0.1:{server.server_port}", api_key="k")
        try:
            if asked > times:
                assert list(client.projects()) == []
            else:
                with pytest.raises(query.QueryError, match=r"the server is busy\. later"):
                    list(client.projects())
        finally:
            server.shutdown()
        assert server.asked == asked


class _Cut(BaseHTTPRequestHandler):
    """Names a run, then ends in the middle of its points, as a server that is killed."""

    def do_GET(self) -> None:
        body = b'{"id": "01ARZ3NDEKTSV4RRFFQ69G5FAV"}'
        self.send_response(200)
        more = 100 if "/points" in self.path else 0
        self.send_header("Content-Length", str(len(body) + more))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: Any) -> None:
        """Say nothing."""


def test_an_answer_that_breaks_off_is_an_error(numpy: Any) -> None:
    server = HTTPServer(("127.0.0.1", 0), _Cut)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        run = query.Client(f"http://127.0.0.1:{server.server_port}").run("a")
        with pytest.raises(query.QueryError, match="broke off"):
            list(run.chunks("loss"))
    finally:
        server.shutdown()
        server.server_close()
