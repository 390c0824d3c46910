"""What becomes of points: backpressure, retries, errors, and the counters that tell of them."""

from __future__ import annotations

import json
import os
import signal
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import kymogram
from kymogram._delivery import agent as _agent
from kymogram._spool import folders
from kymogram.utils.exceptions import (
    MetranaClosingError,
    MetranaEventQueueFullError,
    MetranaSenderError,
    MetranaValidationError,
)

from . import reader, rig
from .conftest import closed_port
from .test_run import deliver


def until(condition: Callable[[], object], seconds: float = 20) -> None:
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, "it did not happen"
        time.sleep(0.01)


def bounded(strategy: str, **more: Any) -> kymogram.Run:
    return kymogram.init(
        run_name="r",
        backpressure_strategy=strategy,
        queue_capacity=10,
        log_level="OFF",
        **{"enqueue_timeout_secs": 0.0, **more},
    )


def folder(spool: Path) -> Path:
    return reader.writers(spool)[-1]


def document(spool: Path) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((folder(spool) / "open.json").read_text())
    return found


def test_spool_drops_nothing_for_want_of_acks(spool: Path) -> None:
    kymogram.init(run_name="r", queue_capacity=10, log_level="OFF")
    for i in range(1000):
        kymogram.log("a", float(i))
    found = kymogram.get_metrics()
    assert (found.float_points_enqueued, found.float_points_dropped) == (1000, 0)


def test_drop_new_bounds_what_is_not_acked(spool: Path) -> None:
    bounded("drop_new")
    for i in range(30):
        kymogram.log("a", float(i))
    found = kymogram.get_metrics()
    assert (found.float_points_added, found.float_points_enqueued) == (30, 10)
    assert (found.float_points_dropped, found.float_points_pending) == (20, 10)
    deliver(folder(spool), 6, acked=5, tallies=(5, 0, 0, 0, 0, 0, 0, 0))  # the series, 5 points
    kymogram.log({"a": 1.0, "b": 2.0})  # a call is taken whole while there is room for one point
    kymogram.log("b", [1.0] * 100)
    kymogram.log("a", 1.0)
    later = kymogram.get_metrics()
    assert (later.float_points_enqueued, later.float_points_dropped) == (112, 21)
    assert later.float_points_added == 133
    points = [p for p in reader.points(reader.records(folder(spool))) if p.metric == "a"]
    assert [p.axes["step"] for p in points] == [*range(10), 30]  # dropped ones leave gaps
    kymogram.close(0)
    told = reader.updates(reader.records(folder(spool)))
    assert sum(one["count"] for one in told if one["op"] == "dropped") == 21


def test_what_was_given_up_is_not_pending(spool: Path) -> None:
    """The server is away: its mark does not pass what the agent dropped after the last try."""
    bounded("drop_new", max_send_retries=0)
    for i in range(10):
        kymogram.log("a", float(i))
    deliver(folder(spool), 5, acked=4, tallies=(4, 0, 0, 0, 8, 3, 0, 0))
    found = kymogram.get_metrics()
    assert (found.float_points_sent, found.float_points_dropped) == (4, 3)
    assert (found.float_points_pending, found.points_pending) == (3, 3)
    deliver(folder(spool), 11, acked=7, tallies=(7, 0, 0, 0, 8, 3, 0, 0))
    found = kymogram.get_metrics()
    assert (found.float_points_sent, found.float_points_pending) == (7, 0)


def test_drop_new_counts_rl_points(spool: Path) -> None:
    bounded("drop_new")
    kymogram.log_rl_environment_step("r", [[1.0] * 5] * 2, rl_step=0, env_id=["x", "y"])
    kymogram.log_rl_environment_step("r", [1.0, 2.0], rl_step=1, env_id=["x", "y"])
    kymogram.log_rl_episode("e", 1.0, rl_step=1)
    kymogram.log_config({"kept": True})
    found = kymogram.get_metrics()
    assert (found.rl_float_points_enqueued, found.rl_float_points_dropped) == (10, 3)
    assert found.attribute_updates_enqueued == 1


def test_raise_says_the_bound(spool: Path) -> None:
    bounded("raise")
    for i in range(10):
        kymogram.log("a", float(i))
    with pytest.raises(MetranaEventQueueFullError, match="10 points are not acked"):
        kymogram.log("a", 10.0)
    deliver(folder(spool), 11, acked=10, tallies=(10, 0, 0, 0, 0, 0, 0, 0))
    kymogram.log("a", 10.0)
    assert kymogram.get_metrics().float_points_added == 11


def test_block_waits_for_an_ack(spool: Path) -> None:
    bounded("block")
    for i in range(10):
        kymogram.log("a", float(i))
    done = threading.Event()

    def go_on() -> None:
        kymogram.log("a", 10.0)
        done.set()

    threading.Thread(target=go_on, daemon=True).start()
    assert not done.wait(0.1)
    assert kymogram.get_metrics().float_points_added == 10  # others are not held up
    deliver(folder(spool), 2, acked=1, tallies=(1, 0, 0, 0, 0, 0, 0, 0))
    assert done.wait(10)
    assert kymogram.get_metrics().float_points_dropped == 0


def test_strategies_of_the_environment(spool: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("METRANA_BACKPRESSURE_STRATEGY", "Block")
    monkeypatch.setenv("KYMOGRAM_BACKPRESSURE_STRATEGY", "Raise")  # wins
    monkeypatch.setenv("METRANA_EVENT_QUEUE_MAX_SIZE", "3")
    monkeypatch.setenv("METRANA_ERROR_MODES", "raise_on_close")
    run = kymogram.init(run_name="r", log_level="OFF", enqueue_timeout_secs=0)
    assert (run.settings.bound, run.settings.error_strategy) == (3, "raise_on_close")
    for _ in range(3):
        kymogram.log("a", 1.0)
    with pytest.raises(MetranaEventQueueFullError):
        kymogram.log("a", 1.0)
    with pytest.raises(MetranaClosingError):
        kymogram.close(0)


def test_pace_is_written_for_the_agent(spool: Path) -> None:
    kymogram.init(
        run_name="r",
        log_level="OFF",
        backpressure_strategy="drop_new",
        max_pending_requests=5,
        max_send_retries=7,
        send_retry_initial_backoff_secs=0.2,
        send_retry_max_backoff_secs=3,
        batch_max_age_secs=4.5,
        max_msg_size=65536,
        compression="Zstd",
    )
    assert document(spool)["pace"] == {
        "max_pending_requests": 5,
        "max_msg_size": 65536,
        "retry_first_ms": 200,
        "retry_last_ms": 3000,
        "batch_max_age_ms": 4500,
        "compression": "zstd",
        "give_up_after": 7,
    }


def test_spool_never_gives_up(spool: Path) -> None:
    kymogram.init(run_name="r", log_level="OFF", max_send_retries=7)
    assert "give_up_after" not in document(spool)["pace"]


@pytest.mark.parametrize(
    ("argument", "value"),
    [
        ("queue_capacity", -1),
        ("queue_capacity", "many"),
        ("max_pending_requests", 0),
        ("max_msg_size", 1.5),
        ("max_send_retries", -1),
        ("batch_max_age_secs", -1),
        ("enqueue_timeout_secs", "soon"),
        ("delivery_policy", "maybe"),
        ("init_mode", "sometimes"),
        ("disk", 5),
        ("default_dtype", "complex64"),
    ],
)
def test_bad_arguments_are_named(spool: Path, argument: str, value: Any) -> None:
    with pytest.raises(MetranaValidationError, match="(?i)" + argument.split("_")[-1]):
        kymogram.init(run_name="r", **{argument: value})
    assert not kymogram.is_initialized()


def test_delivery_policy_asks_for_an_error(spool: Path) -> None:
    run = kymogram.init(run_name="r", log_level="OFF", delivery_policy="all_or_crash")
    assert run.settings.backpressure == "spool_then_raise"


def test_offline_mode_asks_nobody(spool: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def never(*_: Any) -> None:
        raise AssertionError("the server was asked")

    monkeypatch.setattr("kymogram._delivery.client.open_run", never)
    run = kymogram.init(run_name="r", init_mode="Offline", log_level="OFF")
    kymogram.log("a", 1.0)
    assert kymogram.is_offline()
    assert document(spool)["open"]["offline"] is True
    assert run.answer is None


@pytest.mark.parametrize("cap", ["max_bytes", "max_size_bytes"])
def test_disk_names_folder_and_cap(tmp_path: Path, cap: str) -> None:
    config = kymogram.DiskConfig(dir=tmp_path / "mine", **{cap: 1 << 20}, zstd_level=5)
    kymogram.init(run_name="r", disk=config, log_level="OFF")
    for _ in range(40):
        kymogram.log("a", [0.5] * 10_000)
    kymogram.close(0)
    used = sum(f.stat().st_size for f in (tmp_path / "mine").rglob("*.seg"))
    assert 0 < used <= 1 << 20


def test_disk_has_no_other_limits() -> None:
    with pytest.raises(TypeError, match="max_size'"):
        kymogram.DiskConfig(dir="mine", max_size=1 << 20)


def test_close_says_what_is_left(spool: Path) -> None:
    kymogram.init(run_name="first", log_level="OFF")
    kymogram.log("a", 1.0)
    info = kymogram.close(0)
    assert info is not None
    assert info.has_undelivered_spool
    assert (info.leftover_segments, info.metrics.float_points_pending) == (1, 1)
    assert info.leftover_bytes == 256 << 10
    assert info.foreign_spools == []
    kymogram.init(run_name="second", log_level="OFF")
    second = kymogram.shutdown_logger(0)
    assert second is not None
    assert [Path(one).name for one in second.foreign_spools] == [reader.writers(spool)[0].name]
    assert kymogram.close() is None


def errors_of(strategy: str) -> kymogram.Run:
    return kymogram.init(run_name="r", error_strategy=strategy, max_send_retries=2, log_level="OFF")


def test_an_error_is_silent_for_max_send_retries(spool: Path) -> None:
    run = errors_of("warn")
    kymogram.log("a", 1.0)
    deliver(folder(spool), 0, 3, error="connection refused", tallies=(0,) * 7 + (2,))
    assert run._helper is not None
    run._helper.listen()
    assert kymogram.check_sender_errors() == []
    for failures in (3, 4, 5):
        tallies = (0,) * 7 + (failures,)
        deliver(folder(spool), 0, 3, error="connection refused", tallies=tallies)
        run._helper.listen()
    (error,) = kymogram.check_sender_errors()  # once an outage
    assert "3 tries: connection refused" in error
    assert "wait in the spool" in error
    assert kymogram.check_sender_errors() == []
    found = kymogram.get_metrics()
    assert (found.errors_reported, found.float_points_dropped) == (1, 0)


def test_errors_raise_where_asked(spool: Path) -> None:
    run = errors_of("raise_on_log")
    for _ in range(3):
        kymogram.log("a", 1.0)
    deliver(folder(spool), 0, 3, error="no", tallies=(0,) * 7 + (9,))
    assert run._helper is not None
    run._helper.listen()
    with pytest.raises(MetranaSenderError, match="9 tries: no"):
        kymogram.log("a", 1.0)
    kymogram.log("a", 1.0)  # told once
    assert kymogram.get_metrics().float_points_added == 4


def test_more_errors_than_are_kept(spool: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("METRANA_RENDER_ERROR_QUEUE_MAX_SIZE", "3")
    run = errors_of("silent")
    for i in range(5):
        run.trouble(f"error {i}")
    found = kymogram.get_metrics()
    assert (found.errors_reported, found.errors_evicted) == (5, 2)
    assert kymogram.check_sender_errors() == ["error 2", "error 3", "error 4"]


# with a real server and its agent


@pytest.fixture
def agent(spool: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """The real agent; it is ended with the test."""
    if rig.BINARY is None:
        pytest.skip(rig.NO_BINARY)
    monkeypatch.setattr(_agent, "binary", lambda: str(rig.BINARY))
    yield
    kymogram.close(0)
    monkeypatch.setattr(_agent, "binary", lambda: None)
    try:
        os.kill(int(folders.read_json(str(spool / "agent.json"))["pid"]), signal.SIGTERM)
    except (OSError, KeyError):
        pass


def test_the_counters_agree_with_each_other_and_the_server(agent: None, served: Any) -> None:
    kymogram.init(run_name="r", log_level="OFF", config={"a": 1})
    for i in range(5000):
        kymogram.log("loss", i / 2)
    kymogram.log({"x": 1.0, "y": 2})
    kymogram.log("v", [1.0] * 300)
    kymogram.log_histogram("h", ([1, 2], [0.0, 1.0, 2.0]))
    for update in range(20):
        values = [[1.0] * 8] * 4
        kymogram.log_rl_environment_step("rew", values, rl_step=update, env_id=list("abcd"))
        kymogram.log_rl_episode("ret", 1.0, rl_step=update)
    kymogram.log_config({"b": 2, "c": {"d": 3}})
    kymogram.add_tags(["t"])
    kymogram.log_env_attributes("a", {"seed": 1, "level": "easy"})
    while_running = kymogram.get_metrics()
    for kind in ("float_points", "rl_float_points"):
        added, enqueued, sent, pending = (
            getattr(while_running, f"{kind}_{what}")
            for what in ("added", "enqueued", "sent", "pending")
        )
        assert added == enqueued >= sent
        assert pending <= enqueued
    assert kymogram.flush(30)
    found = kymogram.get_metrics()
    assert found.float_points_added == found.float_points_sent == 5000 + 2 + 300 + 1
    assert found.rl_float_points_added == found.rl_float_points_sent == 20 * 33
    assert found.attribute_updates_added == found.attribute_updates_sent == 3
    assert found.env_attribute_updates_added == found.env_attribute_updates_sent == 2
    assert found.points_pending == found.float_points_dropped == found.points_refused == 0
    info = kymogram.close()
    assert info is not None
    assert not info.has_undelivered_spool
    (run,) = served.client.runs("default/default")
    stored = {s.metric: 0 for s in run.series()}
    for one in run.series():
        stored[one.metric] += one.count
    assert sum(stored.values()) == found.points_acked == 5303 + 660
    assert stored["rew"] == 640


def test_zstd_and_small_batches_arrive(agent: None, served: Any) -> None:
    kymogram.init(
        run_name="r", log_level="OFF", compression="zstd", max_msg_size=4096, max_pending_requests=1
    )
    for i in range(3000):
        kymogram.log("loss", float(i))
    assert kymogram.flush(30)
    assert kymogram.get_metrics().requests_sent > 10
    kymogram.close()
    assert len(served.values("loss")) == 3000


def test_retries_end_in_a_counted_drop(agent: None, spool: Path) -> None:
    kymogram.init(
        run_name="r",
        server=f"http://127.0.0.1:{closed_port()}",
        backpressure_strategy="drop_new",
        max_send_retries=1,
        send_retry_initial_backoff_secs=0.01,
        send_retry_max_backoff_secs=0.01,
        log_level="OFF",
    )
    for i in range(50):
        kymogram.log("loss", float(i))
    until(lambda: kymogram.get_metrics().float_points_dropped == 50)
    until(kymogram.check_sender_errors)
    for _ in range(5):  # the dropped ones do not take room any more
        kymogram.log("loss", 0.0)
    found = kymogram.get_metrics()
    assert found.float_points_added == 55
    assert found.send_errors > 0


def test_under_spool_an_outage_drops_nothing(agent: None, served: Any, spool: Path) -> None:
    away = f"http://127.0.0.1:{closed_port()}"
    kymogram.init(
        run_name="r",
        server=away,
        max_send_retries=1,
        send_retry_initial_backoff_secs=0.01,
        send_retry_max_backoff_secs=0.01,
        log_level="OFF",
    )
    kymogram.log("loss", [1.0] * 50)
    until(kymogram.check_sender_errors)
    assert kymogram.get_metrics().float_points_dropped == 0
    kymogram.close(0)
    info = kymogram.replay_spool(spool, ingestion_url=served.address, timeout_secs=30)
    assert not info.has_undelivered_spool
    assert len(served.values("loss")) == 50


def test_follow_spool_ends_when_all_is_delivered(
    monkeypatch: pytest.MonkeyPatch, served: Any, spool: Path
) -> None:
    kymogram.init(run_name="r", init_mode="offline", log_level="OFF")
    kymogram.log("loss", [1.0] * 50)
    kymogram.close(0)
    monkeypatch.setattr(_agent, "binary", lambda: str(rig.BINARY))
    info = kymogram.follow_spool(spool, poll_interval_secs=0.2, idle_timeout_secs=20)
    monkeypatch.setattr(_agent, "binary", lambda: None)
    assert not info.has_undelivered_spool
    assert len(served.values("loss")) == 50


def test_replay_of_what_is_no_spool(tmp_path: Path) -> None:
    with pytest.raises(kymogram.MetranaSpoolUnavailableError, match="no spool|not a spool"):
        kymogram.replay_spool(tmp_path)
