"""torch.distributed.elastic.metrics and a torchrun job, the real ones."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import kymogram
from kymogram import metrics
from kymogram.metrics import api

from ..rig import Served
from ..test_metrics import Recorder, unconfigured

__all__ = ["unconfigured"]

theirs = pytest.importorskip("torch.distributed.elastic.metrics", reason="make test-frameworks")


@pytest.fixture(autouse=True)
def unattached() -> Iterator[None]:
    """torch's metrics go nowhere after a test."""
    yield
    theirs.api._metrics_map.clear()
    theirs.configure(theirs.NullMetricHandler())


def test_every_public_name_of_torch_is_here() -> None:
    names = [name for name in vars(theirs) if not name.startswith("_")]
    assert [name for name in names if not hasattr(metrics, name)] == ["Optional"]
    public = [name for name in vars(theirs.api) if not name.startswith("_")]
    assert [name for name in public if not hasattr(api, name)] == ["namedtuple", "deprecated"]


def test_its_metrics_arrive() -> None:
    every, agent = Recorder(), Recorder()
    assert theirs.__name__ in metrics.attach(every)
    metrics.attach(agent, "agent")
    theirs.put_metric("a", 1)
    theirs.put_metric("b", 2, "agent")

    class Work:
        @theirs.prof(group="agent")  # type: ignore[untyped-decorator]
        def fails(self) -> None:
            raise LookupError

    with pytest.raises(LookupError):
        Work().fails()
    assert every.pairs() == [("a", 1)]
    name = "test_its_metrics_arrive.<locals>.Work.fails"
    assert sorted(agent.names()) == sorted(["b", f"{name}.failure", f"{name}.duration.ms"])
    assert isinstance(theirs.getStream("agent").handler, theirs.MetricHandler)


WORKER = """
import os
import torch
import torch.distributed
import torch.distributed.elastic.metrics as theirs
import kymogram
import kymogram.metrics as metrics

torch.distributed.init_process_group("gloo")
kymogram.init(run_name="job")
metrics.attach(metrics.KymogramMetricHandler(), "app")

class Trainer:
    @theirs.prof(group="app")
    def step(self, n):
        value = torch.ones(1) * (torch.distributed.get_rank() + n)
        torch.distributed.all_reduce(value)
        return value.item()

for n in range(3):
    theirs.put_metric("sum", Trainer().step(n), "app")
theirs.put_metric("ignored", 1, "another")
torch.distributed.destroy_process_group()
kymogram.close()
"""


def torchrun(tmp_path: Path, *arguments: str) -> list[dict[str, Any]]:
    """Run a job; what its agent published."""
    worker, lines = tmp_path / "worker.py", tmp_path / "agent.jsonl"
    worker.write_text(WORKER)
    source = str(Path(kymogram.__file__).parents[1])
    command = [sys.executable, "-m", "kymogram.metrics.elastic", "--handler", f"jsonl:{lines}"]
    command += ["--", "--standalone", *arguments, str(worker)]
    environment = dict(os.environ, PYTHONPATH=source, OMP_NUM_THREADS="1")
    done = subprocess.run(command, capture_output=True, text=True, timeout=300, env=environment)
    assert done.returncode == 0, done.stdout + done.stderr
    return [json.loads(line) for line in lines.read_text("utf-8").splitlines()]


def test_a_torchrun_job(served: Served, tmp_path: Path) -> None:
    """Two ranks log one run; the metrics of their agent go to a file."""
    published = torchrun(tmp_path, "--nproc-per-node", "2")
    assert {one["group_name"] for one in published} == {"torchelastic"}
    by_name = {one["name"]: one["value"] for one in published}
    assert by_name["workers.default.run_success_no_retries"] == 1
    assert by_name["workers.default.run_failed_no_retries"] == 0
    assert by_name["SimpleElasticAgent.run.success"] == 1
    assert by_name["LocalElasticAgent._start_workers.duration.ms"] >= 0
    run = served.only()
    assert run.name == "job"
    counted = {series.metric: series.count for series in run.series("^app/")}
    assert counted == {
        "app/sum": 6,
        "app/Trainer.step.success": 6,
        "app/Trainer.step.duration.ms": 6,
    }
    # Both ranks see the sum of 0 + n and 1 + n at step n.
    assert served.values("app/sum", run) == {0: 1, 1: 3, 2: 5}
