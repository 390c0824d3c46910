"""torchelastic's own module, the real one, with our handlers."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from types import ModuleType
from typing import Any

import pytest

from kymogram import metrics
from kymogram.metrics import elastic

from .test_metrics import Recorder, Stuck, counts_of, unconfigured

__all__ = ["unconfigured"]


@pytest.fixture
def torchelastic() -> Iterator[Any]:
    """The package's module, as it was before."""
    module: Any = pytest.importorskip(
        "torchelastic.metrics", reason="torchelastic is not installed: make .venv/.dev"
    )
    yield module
    module.api._metrics_map.clear()
    module.configure(module.NullMetricHandler())


def attached(module: ModuleType, handler: metrics.MetricHandler, group: str | None = None) -> None:
    assert elastic.attach(handler, group, module) == [module.__name__]


def test_its_metrics_arrive(torchelastic: Any) -> None:
    every, agent = Recorder(), Recorder()
    attached(torchelastic, every)
    attached(torchelastic, agent, "agent")
    torchelastic.put_metric("a", 1)
    torchelastic.put_metric("b", 2, "agent")

    @torchelastic.prof(group="agent")  # type: ignore[untyped-decorator]
    def work() -> None:
        raise LookupError

    with pytest.raises(LookupError):
        work()
    assert every.pairs() == [("a", 1)]
    name = "test_its_metrics_arrive.<locals>.work"
    names = agent.names()
    assert sorted(names) == sorted(["b", f"{name}.failure", f"{name}.duration.ms"])
    assert isinstance(agent.seen[0], metrics.MetricData)
    assert isinstance(torchelastic.getStream("agent").handler, torchelastic.MetricHandler)


def test_its_programs_are_not_held_up(torchelastic: Any) -> None:
    class Failing(metrics.MetricHandler):
        at_once = True

        def emit(self, metric_data: metrics.MetricData) -> None:
            raise OSError("down")

    stuck = Stuck()
    attached(torchelastic, Failing(), "failing")
    attached(torchelastic, stuck, "stuck")
    done = threading.Event()

    def program() -> None:
        for n in range(100):
            torchelastic.put_metric("a", n, "failing")
            torchelastic.put_metric("a", n, "stuck")
        done.set()

    threading.Thread(target=program, daemon=True).start()
    assert done.wait(30)
    stuck.go.set()
    assert metrics.flush(30)
    assert counts_of(stuck).emitted == 100


def test_the_same_program_publishes_the_same(torchelastic: Any) -> None:
    """What prof of torchelastic publishes, ours publishes too, and more."""

    def publish(module: Any) -> None:
        class Work:
            @module.prof(group="g")  # type: ignore[untyped-decorator]
            def one(self) -> None: ...

        def two() -> None: ...

        two.__qualname__ = "two"
        Work().one()
        module.prof(two, group="g")()
        module.put_metric("x", 3, "g")

    theirs, ours = Recorder(), Recorder()
    torchelastic.configure(theirs, "g")
    metrics.configure(ours, "g")
    publish(torchelastic)
    publish(metrics)
    names = [one.name for one in theirs.seen]
    assert len(names) == 5
    more = [name for name in ours.names() if name not in names]
    assert not [name for name in names if name not in ours.names()]
    assert all(name.endswith((".one", ".two", ".count")) for name in more)
    assert len(more) == 4


def test_attach_says_when_there_is_nothing_to_attach_to(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(elastic, "MODULES", ("not_installed_anywhere",))
    with pytest.raises(ImportError, match="neither torch nor torchelastic"):
        metrics.attach(Recorder())


def test_torchrun_without_torch_says_so(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(elastic, "MODULES", ("not_installed_anywhere",))
    with pytest.raises(SystemExit) as ended:
        elastic.main(["--handler", "console", "--", "train.py"])
    assert ended.value.code == 1
    assert "torch, which is missing" in capsys.readouterr().err


def test_handlers_by_name() -> None:
    assert isinstance(elastic.handler_named("console"), metrics.ConsoleMetricHandler)
    assert isinstance(elastic.handler_named("run"), metrics.KymogramMetricHandler)
    for wrong in ("", "console:1", "jsonl:", "prometheus:x", "null"):
        with pytest.raises(Exception, match="none of console"):
            elastic.handler_named(wrong)
