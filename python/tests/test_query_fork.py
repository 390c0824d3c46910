"""What a fork inherits, read back from a real server; the oracle is what was logged."""

from __future__ import annotations

import csv
import io
import json
from typing import Any

import pytest

import kymogram
from kymogram import query

from .rig import Served


@pytest.fixture
def forked(served: Served) -> Served:
    with kymogram.init(run_name="parent") as run:
        for step in range(10):
            run.log("loss", step / 2, step=step)
            run.log("early", 1.0, step=step)
    served.sync()
    with kymogram.init(run_name="fork", fork_from_run="parent", fork_at_step=5) as run:
        for step in range(5, 8):  # step 5 once more: the fork's counts
            run.log("loss", -float(step), step=step)
    served.sync()
    return served


WANT = {**{step: step / 2 for step in range(5)}, 5: -5.0, 6: -6.0, 7: -7.0}


def test_a_fork_goes_on(forked: Served, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(query, "_POINTS_PAGE", 3)
    parent = forked.client.run("default/default/parent")
    fork = forked.client.run("default/default/fork")
    assert forked.values("loss", fork) == {5: -5.0, 6: -6.0, 7: -7.0}
    points = fork.points("loss", include_inherited=True)
    assert dict(zip(map(int, points["step"]), points["value"])) == WANT
    assert list(points["run"]) == [parent.id] * 5 + [fork.id] * 3
    buckets = fork.buckets("loss", n=1, include_inherited=True)
    assert [list(buckets[name]) for name in ("count", "inherited", "min")] == [[8], [5], [-7.0]]
    listed = {one.metric: one for one in fork.series(include_inherited=True)}
    assert [(one.count, one.inherited) for one in listed.values()] == [(6, 6), (8, 5)]
    assert listed["early"].points().rows == 6
    assert listed["loss"].buckets(n=1)["count"][0] == 8
    assert [one.metric for one in fork.series()] == ["loss"]
    assert [(one["name"], one["up_to"]) for one in fork.lineage()["ancestors"]] == [("parent", 5)]
    assert [(one["name"], one["fork_step"]) for one in parent.lineage()["forks"]] == [("fork", 5)]
    with pytest.raises(query.QueryError, match="attempt"):
        fork.points("loss", include_inherited=True, attempt=1)


def test_the_command_line(forked: Served) -> None:
    ids = {name: forked.client.run(f"default/default/{name}").id for name in ("parent", "fork")}
    ref = "default/default/fork"

    def run_of(step: int) -> str:
        return ids["parent" if step < 5 else "fork"]

    out = forked.cli(*_export(forked, ref), "--metric", "loss", "--include-inherited")
    rows: list[dict[str, Any]] = [json.loads(line) for line in out.splitlines()]
    assert {one["step"]: one["value"] for one in rows} == WANT
    assert [one["run"] for one in rows] == [run_of(one["step"]) for one in rows]
    out = forked.cli(
        *_export(forked, ref), "--metric", "loss", "--include-inherited", "--format", "csv"
    )
    table = list(csv.DictReader(io.StringIO(out)))
    assert {int(one["step"]): float(one["value"]) for one in table} == WANT
    assert [one["run"] for one in table] == [run_of(int(one["step"])) for one in table]
    assert len(forked.cli(*_export(forked, ref)).splitlines()) == 3
    listed = forked.cli("series", "list", ref, "--server", forked.address, "--include-inherited")
    assert [line.split()[0] for line in listed.splitlines()[1:]] == ["early", "loss"]
    assert "parent, up to step 5" in forked.cli("runs", "show", ref, "--server", forked.address)


def test_parquet(forked: Served, tmp_path: Any) -> None:
    parquet = pytest.importorskip("pyarrow.parquet")
    path = tmp_path / "fork.parquet"
    forked.cli(
        *_export(forked, "default/default/fork"),
        *("--include-inherited", "--format", "parquet", "-o", str(path)),
    )
    rows = parquet.read_table(path).to_pylist()
    assert {one["step"]: one["value"] for one in rows if one["metric"] == "loss"} == WANT
    assert len({one["run"] for one in rows}) == 2


def test_pandas(forked: Served) -> None:
    pytest.importorskip("pandas")
    fork = forked.client.run("default/default/fork")
    frame = fork.to_pandas("loss", include_inherited=True)
    assert dict(zip(frame["step"], frame["value"])) == WANT
    assert len(fork.to_pandas()) == 3


def _export(served: Served, ref: str) -> list[str]:
    return ["export", ref, "--server", served.address]
