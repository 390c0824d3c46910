"""kymogram.telemetry with our server as its sink."""

from __future__ import annotations

import logging
import math
import os
import signal
import socket
import statistics
import subprocess
import sys
import textwrap
import threading
import urllib.request
from pathlib import Path
from typing import Any

import pytest

import kymogram
from kymogram._telemetry import influx
from kymogram.telemetry import MetricsLogger, get_gpu_metrics, get_system_metrics

from .rig import Served

MINER = {"prefix": "M", "uid": "7", "role": "miner", "group": "miner", "job_type": "mining"}
PROJECT = "tplr/tplr"
PATHS = [*MINER, "runtime_id"]


def miner(**more: Any) -> MetricsLogger:
    return MetricsLogger(**{**MINER, **more})


def points(served: Served, metric: str) -> list[tuple[Any, ...]]:
    """Time and value of a series' points, by time."""
    found = served.only(PROJECT).points(metric)
    return sorted(zip(map(int, found["time_ns"]), found["value"]))


@pytest.mark.parametrize(
    ("given", "kept"),
    [
        (3, 3),
        (True, 1),
        (0.5, 0.5),
        ([1, 2, 3], "[1, 2, 3]"),
        ([True, False], "[True, False]"),
        ([], 0.0),
        ([0.1, 2], {"mean": 1.05, "min": 0.1, "max": 2.0, "median": 1.05}),
        ("text", "text"),
        (None, 0.0),
        ((1, 2), "(1, 2)"),
        ({"a": 1}, "{'a': 1}"),
        (1 + 2j, "(1+2j)"),
        (["a"], "['a']"),
    ],
)
def test_process_value(given: Any, kept: Any) -> None:
    found = MetricsLogger.process_value(given)
    assert found == kept and type(found) is type(kept)


def test_a_number_of_numpy_is_one() -> None:
    numpy = pytest.importorskip("numpy")
    for given, kept in (
        (numpy.float32(0.5), 0.5),
        (numpy.array(0.5, "<f2"), 0.5),
        (numpy.int64(3), 3),
        (numpy.bool_(True), 1),
        (numpy.zeros(2), "[0. 0.]"),
        (numpy.datetime64(0, "ns"), "1970-01-01T00:00:00.000000000"),
    ):
        found = MetricsLogger.process_value(given)
        assert found == kept and type(found) is type(kept)


def test_a_point_becomes_series_with_axes(served: Served) -> None:
    logger = miner()
    losses = [0.1, 0.2, 0.4]
    logger.log(
        "training_step",
        {"window": 12, "global_step": 480},
        {"loss": 0.75, "peers": 3, "gather": [1, 2], "losses": losses},
        timestamp=1_700_000_000_000_000_001,
    )
    logger.close()
    run = served.only(PROJECT)
    assert run.name == "miner-7"
    assert {one.metric for one in run.series()} == {
        f"Mtraining_step/{name}"
        for name in "loss peers gather losses_mean losses_min losses_max losses_median".split()
    }
    assert all(one.labels == {} for one in run.series())
    loss = run.points("Mtraining_step/loss")
    found = [int(loss[name][0]) for name in ("step", "window", "global_step", "time_ns")]
    assert found == [480, 12, 480, 1_700_000_000_000_000_001]
    assert run.points("Mtraining_step/gather")["value"][0] == "[1, 2]"
    mean = run.points("Mtraining_step/losses_mean")["value"][0]
    assert math.isclose(mean, statistics.mean(losses))
    described = {path: one for path, one in run.attributes().items() if path in MINER}
    assert described == MINER


def test_points_of_one_epoch_are_all_kept(served: Served) -> None:
    """Natively the last point at a step hides the others; here a tag is no identity."""
    logger = miner()
    for i, loss in enumerate([10.0, 7.0, 4.0]):
        logger.log("training_step", {"epoch": 5}, {"loss": loss}, timestamp=1_000 + i)
    logger.close()
    assert [value for _, value in points(served, "Mtraining_step/loss")] == [10, 7, 4]


def test_a_batch_is_a_step_only_without_an_epoch(served: Served) -> None:
    logger = miner()
    logger.log("both", {"epoch": 5, "batch": 100}, {"loss": 1.0})
    logger.log("batch", {"batch": 100}, {"loss": 1.0})
    logger.close()
    run = served.only(PROJECT)
    axes = {one.metric: one.axes for one in run.series()}
    assert axes == {"Mboth/loss": ["epoch", "batch"], "Mbatch/loss": ["step", "batch"]}


def test_restarts_are_attempts_of_one_run(served: Served) -> None:
    for turn in range(4):
        logger = miner(runtime_id=f"life-{turn}", config={"lr": turn})
        logger.log("training_step", {"window": turn}, {"loss": float(turn)})
        logger.close()
    run = served.only(PROJECT)
    assert [one.count for one in run.series()] == [4]
    assert list(map(int, run.points("Mtraining_step/loss")["attempt"])) == [1, 2, 3, 4]
    found = run.attributes()
    assert (found["runtime_id"], found["config/lr"]) == ("life-3", "3")
    for turn in range(4):  # each keeps what it was
        own = {f"{name}={text}" for name, text in MINER.items()}
        own |= {f"runtime_id=life-{turn}", f"config/lr={turn}"}
        assert found[f"attempts/{turn + 1}"] == own


def test_config_describes_the_run_without_its_secrets(served: Served) -> None:
    class Config:
        def __init__(self) -> None:
            self.netuid, self.lr, self.max_tokens, self.tokenizer = 3, 0.1, 5, "gpt"
            self.api_key, self.wallet_password, self.token = "a", "b", "c"
            self.url = "https://me:word@host/x"
            self._hidden, self.nothing, self.deep = 1, None, {"a": 1}

    logger = miner(config=Config())
    logger.log("x", {}, {"v": 1.0})
    logger.close()
    found = served.only(PROJECT).attributes()
    config = {path[7:]: value for path, value in found.items() if path.startswith("config/")}
    assert config == {
        "netuid": "3",
        "lr": "0.1",
        "max_tokens": "5",
        "tokenizer": "gpt",
        "api_key": "***",
        "wallet_password": "***",
        "token": "***",
        "url": "***",
    }


def test_nan_and_infinity_survive(served: Served) -> None:
    logger = miner()
    for i, value in enumerate([math.nan, math.inf, -math.inf]):
        logger.log("x", {}, {"loss": value}, timestamp=1 + i)
    logger.close()
    assert [repr(float(value)) for _, value in points(served, "Mx/loss")] == ["nan", "inf", "-inf"]


def test_a_callers_tag_with_a_standard_name_is_the_label(
    served: Served, caplog: pytest.LogCaptureFixture
) -> None:
    logger = miner()
    for uid in (5, 6):
        logger.log("validator_sync", {"uid": uid, "window": 1}, {"l2": 1.0})
    logger.close()
    run = served.only(PROJECT)
    assert sorted(one.labels["uid"] for one in run.series()) == ["5", "6"]
    assert run.attributes()["uid"] == "7"
    assert [r.message.startswith("the tag 'uid'") for r in caplog.records] == [True]


def test_gpu_metrics_without_a_card_keep_the_point(
    served: Served, caplog: pytest.LogCaptureFixture
) -> None:
    with pytest.raises(RuntimeError):
        get_gpu_metrics()
    logger = miner()
    for _ in range(3):
        logger.log("x", {}, {"v": 1.0}, with_system_metrics=True, with_gpu_metrics=True)
    logger.close()
    run = served.only(PROJECT)
    names = {one.metric for one in run.series()}
    assert names == {"Mx/v", "Mx/sys_cpu_usage", "Mx/sys_mem_used", "Mx/sys_mem_total"}
    assert len(caplog.records) == 1 and "gpu metrics" in caplog.text


def test_system_metrics_are_those_of_the_kernel() -> None:
    found = get_system_metrics()
    lines = Path("/proc/meminfo").read_text(encoding="ascii").splitlines()
    kib = {line.split(":")[0]: int(line.split()[1]) for line in lines}
    assert found["mem_total"] == kib["MemTotal"] / 1024
    used = (kib["MemTotal"] - kib["MemAvailable"]) / 1024
    assert abs(found["mem_used"] - used) < found["mem_total"] / 4
    assert 0 <= found["cpu_usage"] <= 100


def test_what_cannot_be_kept_is_counted_and_named(
    served: Served, caplog: pytest.LogCaptureFixture
) -> None:
    logger = miner()
    logger.log("many", {f"t{i}": str(i) for i in range(100_000)}, {"v": 1.0})
    logger.log("empty", {}, {})
    logger.log("long", {"t": "x" * 2000}, {"v": 1.0})
    logger.log("kind", {}, {"v": 1, "w": 1.0})
    logger.log("kind", {}, {"v": 2.0, "w": 2})  # exact: converted
    logger.log("kind", {}, {"v": 0.5, "w": 3.0})  # w is kept
    logger.log("big", {}, {"v": 1 << 70, "w": 1.0})
    logger.log("late", {}, {"v": 1.0}, timestamp=1 << 65)
    logger.log("broken", {}, {"v": Broken()})
    assert (logger.counts().logged, logger.counts().failed) == (2, 7)
    logger.close()
    run = served.only(PROJECT)
    assert list(run.points("Mkind/v")["value"]) == [1, 2]
    assert list(run.points("Mkind/w")["value"]) == [1, 2, 3]
    assert list(run.points("Mbig/w")["value"]) == [1]
    assert "no text" in caplog.text
    for part in (
        "100,000 tags",
        "no field",
        "value of more than 1,024",
        "int64 since",
        "time of late",
    ):
        assert part in caplog.text


class Broken:
    def __str__(self) -> str:
        raise ValueError("no text")


def test_sample_rate_leaves_points_out_and_counts_them(run: kymogram.Run) -> None:
    logger = miner()
    for _ in range(1000):
        logger.log("x", {}, {"v": 1.0}, sample_rate=0.5)
    found = logger.counts()
    assert found.logged + found.sampled_out == 1000 and 300 < found.logged < 700
    logger.log("x", {}, {"v": 1.0}, sample_rate=0)
    assert logger.counts().logged == found.logged


def test_a_time_in_another_unit_and_a_share_above_one_are_told(
    run: kymogram.Run, caplog: pytest.LogCaptureFixture
) -> None:
    logger = miner()
    logger.log("x", {}, {"v": 1.0}, timestamp=1_795_787_098, sample_rate=50)
    logger.log("x", {}, {"v": 1.0}, timestamp=1_795_787_098, sample_rate=50)
    assert logger.counts()[:3] == (2, 0, 0)
    assert caplog.text.count("looks like seconds: give it times 1_000_000_000") == 1
    assert caplog.text.count("sample_rate=50 is more than 1") == 1


def test_an_influxdb_without_tls_is_named(caplog: pytest.LogCaptureFixture) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:

        def answer() -> None:
            connection, _ = server.accept()
            with connection:
                connection.recv(4096)
                connection.sendall(b"HTTP/1.1 400 Bad Request\r\n\r\n")

        threading.Thread(target=answer, daemon=True).start()
        address = f"127.0.0.1:{server.getsockname()[1]}"
        assert influx.version_of(f"https://{address}") is None
    assert f"https://{address} speaks no TLS: give host='http://{address}'" in caplog.text


def test_a_wrong_argument_is_counted_and_the_year_1970_kept(served: Served) -> None:
    logger = miner()
    wrong: Any = "0.5"
    logger.log("x", {}, {"v": 1.0}, sample_rate=wrong)
    logger.log("x", {}, {"v": 2.0}, timestamp=wrong)
    logger.log("x", {}, {"v": 3.0}, timestamp=0)
    assert logger.counts()[:3] == (1, 0, 2)
    logger.close()
    got = served.only(PROJECT).points("Mx/v")
    assert (list(got["time_ns"]), list(got["value"])) == ([0], [3.0])


def test_it_lives_beside_the_current_run(served: Served) -> None:
    kymogram.init(run_name="mine", project_name="other")
    attempt = os.environ["KYMOGRAM_ATTEMPT"]
    logger = miner()
    assert os.environ["KYMOGRAM_ATTEMPT"] == attempt
    kymogram.log("a", 1.0)
    logger.log("b", {}, {"v": 1.0})
    logger.close()
    kymogram.log("a", 2.0)
    kymogram.close()
    assert [one.metric for one in served.only(PROJECT).series()] == ["Mb/v"]
    (other,) = served.client.runs("default/other")
    assert list(other.points("a")["value"]) == [1, 2]


PROGRAM = """
    import os, signal, sys
    from kymogram.telemetry import MetricsLogger
    logger = MetricsLogger(uid="7", role="miner")
    for i in range(500):
        logger.log("x", {"window": i}, {"v": float(i)})
    if sys.argv[1] == "kill":
        os.kill(os.getpid(), signal.SIGKILL)
    if sys.argv[1] == "fork":
        if os.fork() == 0:
            logger.log("x", {"window": 500}, {"v": 500.0})
            os._exit(0)
        os.wait()
"""


@pytest.mark.parametrize("end", ["kill", "exit", "fork"])
def test_an_exit_without_close_loses_nothing(served: Served, end: str) -> None:
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(PROGRAM), end],
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
        check=False,
        timeout=120,
    )
    assert done.returncode == (-signal.SIGKILL if end == "kill" else 0)
    found = [value for _, value in points(served, "x/v")]
    assert found == [float(i) for i in range(500 + (end == "fork"))]


def test_each_write_can_be_seen(run: kymogram.Run, caplog: pytest.LogCaptureFixture) -> None:
    logger = miner()
    with caplog.at_level(logging.DEBUG, "kymogram.telemetry"):
        logger.log("x", {}, {"a": 1.0, "b": 2})
    (record,) = caplog.records
    assert "1 point, 2 fields" in record.message and "bytes kept" in record.message


def test_both_doors_make_the_same_series(served: Served) -> None:
    """The lines are what influxdb-client 1.50 makes of the original's points."""
    process = {"group": "miner", "job_type": "mining", "prefix": "M", "role": "miner"}
    tags = {"window": 12, "global_step": 480, "task": "mmlu"}
    body = []
    lives = [("1", "life"), ("2", "life"), ("1", "next"), ("", "life")]
    for uid, life in lives:
        logger = miner(uid=uid, runtime_id=life, config={"lr": 0.1})
        logger.log("step", tags, {"loss": 0.75, "n": 3, "text": "a b"}, timestamp=1_000)
        logger.log("other", {"batch": 3, "epoch": 1}, {"loss": 0.5}, timestamp=2_000)
        logger.close()
        given = ",".join(f"{name}={text}" for name, text in process.items())
        given += f",runtime_id={life},config_lr=0.1" + (uid and f",uid={uid}")
        body.append(f"Mstep,global_step=480,task=mmlu,window=12,{given} ")
        body[-1] += 'loss=0.75,n=3i,text="a b" 1000'
        body.append(f"Mother,batch=3,epoch=1,{given} loss=0.5 2000")
    served.sync()
    url = f"{served.address}/api/v2/write?org=tplr&bucket=door&precision=ns"
    request = urllib.request.Request(url, "\n".join(body).encode(), method="POST")
    with urllib.request.urlopen(request) as found:
        assert found.status == 204
    ours = {run.name: shape(run) for run in served.client.runs(PROJECT)}
    door = {run.name: shape(run) for run in served.client.runs("tplr/door")}
    assert sorted(ours) == ["default", "miner-1", "miner-2"] and ours == door
    described = {run.name: standard(run) for run in served.client.runs(PROJECT)}
    assert described == {run.name: standard(run) for run in served.client.runs("tplr/door")}


def standard(run: Any) -> dict[str, Any]:
    """What a run's attributes say of its process, and of each life of it."""
    start = ("attempts/", "config/")
    found = run.attributes().items()
    return {path: value for path, value in found if path in PATHS or path.startswith(start)}


def shape(run: Any) -> dict[str, Any]:
    """A run's series with labels, axes, kind and points; a text has the step alone."""
    found = {}
    for one in run.series():
        got = run.points(one.metric, labels=one.labels)
        axes = [axis for axis in one.axes if one.kind != "text" or axis == "step"]
        columns = {name: list(map(int, got[name])) for name in ("time_ns", "attempt", *axes)}
        found[one.metric] = (one.labels, one.kind, columns, list(got["value"]))
    return found
