"""Frames and chunks hold what was logged; the oracle is a dictionary."""

from __future__ import annotations

import math
import random
import sys
import warnings
from typing import Any

import pytest

import kymogram
from kymogram import query

from .rig import Served


@pytest.fixture(params=["pandas", "polars"])
def library(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    pytest.importorskip(request.param)
    return str(request.param)


@pytest.fixture(params=["arrow", "json"])
def transport(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    if request.param == "arrow":
        pytest.importorskip("pyarrow")
    else:
        monkeypatch.setitem(sys.modules, "pyarrow", None)


def frame(run: query.Run, library: str, *arguments: Any, **options: Any) -> Any:
    return getattr(run, f"to_{library}")(*arguments, **options)


def rows(frame: Any) -> list[dict[str, Any]]:
    """A frame's rows; a gap is None, also where pandas says NA or has a NaN for it."""
    if hasattr(frame, "iter_rows"):
        return [dict(row) for row in frame.iter_rows(named=True)]
    import pandas

    return [
        {name: None if value is pandas.NA else value for name, value in zip(frame, row)}
        for row in frame.itertuples(index=False, name=None)
    ]


@pytest.mark.usefixtures("transport")
def test_a_long_frame(served: Served, library: str) -> None:
    with kymogram.init(run_name="r") as run:
        run.log("loss", [0.5, math.nan, math.inf])
        run.log("tokens", 2**62, dtype="int64", step=7)
        kymogram.log_text("note", "é", step=1)
        run.log_rl_episode("ret", 3.5, rl_step=2**60 + 1, env_id="e")
    served.sync()
    found = served.client.run("default/default/r")
    numbers = frame(found, library, "loss|ret")
    assert list(numbers)[:3] == ["metric", "scale", "labels"] if library == "pandas" else True
    seen = rows(numbers)
    assert [one["metric"] for one in seen] == ["loss"] * 3 + ["ret"]
    assert [one["labels"] for one in seen] == [""] * 3 + ["env_id=e"]
    assert [float(one["value"]).hex() for one in seen] == [
        "0x1.0000000000000p-1",
        "nan",
        "inf",
        "0x1.c000000000000p+1",
    ]
    assert [one["step"] for one in seen] == [0, 1, 2, 0]
    assert [one["rl_step"] for one in seen] == [None, None, None, 2**60 + 1]  # exact, beside gaps
    mixed = rows(frame(found, library))
    wanted = {"tokens": 2**62, "note": "é"}
    for one in mixed:
        if one["metric"] in wanted:
            value = wanted[one["metric"]]
            assert one["value"] == (value if library == "pandas" else str(value))
    assert rows(frame(found, library, "nothing")) == []


@pytest.mark.usefixtures("transport")
def test_a_wide_frame(served: Served, library: str) -> None:
    chance = random.Random(5)
    logged: dict[str, dict[int, float]] = {}
    with kymogram.init(run_name="r") as run:
        for name, labels in (("a", {}), ("b", {"k": "1"}), ("b", {"k": "2"}), ("c", {"k": "1"})):
            column = name + (f"{{k={labels['k']}}}" if name == "b" else "")
            logged[column] = {}
            for step in sorted(chance.sample(range(1000), 150)):
                logged[column][step] = chance.gauss(0, 1)
                run.log(name, logged[column][step], step=step, labels=labels)
        run.log("n", 2**62 + 1, dtype="int64", step=5000)
        run.log_rl_episode("ret", 1.0, rl_step=1, env_id="e")
    served.sync()
    found = served.client.run("default/default/r")
    with pytest.warns(UserWarning, match=r"points that have no rl_step .* 150 of a, "):
        assert rows(frame(found, library, wide="rl_step")) == [{"rl_step": 1, "ret": 1.0}]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        wide = frame(found, library, wide="step")
    assert list(wide.columns) == ["step", *logged, "n", "ret"]
    logged["ret"] = {0: 1.0}
    steps = sorted({step for one in logged.values() for step in one} | {5000})
    got = rows(wide)
    assert [one["step"] for one in got] == steps
    for one in got:
        for name, values in logged.items():
            expected = values.get(one["step"])
            if expected is None:
                assert one[name] is None or math.isnan(one[name])
            else:
                assert one[name] == expected
        assert one["n"] == (2**62 + 1 if one["step"] == 5000 else None)


def test_no_column_of_a_wide_frame_covers_another(served: Served, library: str) -> None:
    """A metric may be called as the axis is, or (by an importer) as another series here."""
    with kymogram.init(run_name="r") as run:
        run.log({"step": 5.0, "loss": 6.0}, step=3)
    served.sync()
    found = served.client.run("default/default/r")
    assert rows(frame(found, library, wide="step")) == [
        {"step": 3, "loss": 6.0, "step@ML_STEP": 5.0}
    ]
    one, other, plain = (
        query.Series(found, metric, "ML_STEP", labels, "float64", ["step"], 1, 0, 1.0)
        for metric, labels in (("a{k=v}", {}), ("a", {"k": "v"}), ("a", {}))
    )
    names = query._names([one, other, plain], "step")
    assert len(set(names)) == 3 and names[2] == "a"


def test_a_wide_frame_says_what_it_leaves_out(served: Served, library: str) -> None:
    with kymogram.init(run_name="r") as run:
        for episode in range(4):
            run.log_rl_episode("ret", float(episode), rl_step=3, episode=episode, env_id="e")
    served.sync()
    with pytest.warns(UserWarning, match="share their rl_step with a later one .* 3 of ret"):
        wide = frame(served.client.run("default/default/r"), library, wide="rl_step")
    assert rows(wide) == [{"rl_step": 3, "ret": 3.0}]


@pytest.mark.usefixtures("transport")
def test_chunks_are_the_points(served: Served) -> None:
    values = [math.sin(i) for i in range(1000)]
    with kymogram.init(run_name="r") as run:
        run.log("x", values)
        for step in range(3):
            kymogram.log_histogram("h", kymogram.Histogram([0.0, 1.0, 2.0], counts=[step, 2]))
    served.sync()
    found = served.client.run("default/default/r")
    parts = list(found.chunks("x", 300))
    assert [part.rows for part in parts] == [300, 300, 300, 100]
    assert [float(one) for part in parts for one in part["value"]] == values
    assert [int(one) for part in parts for one in part["step"]] == list(range(1000))
    assert [part.rows for part in found.chunks("x", 300, first=5000)] == [0]
    documents = [one for part in found.chunks("h", 2) for one in part["value"]]
    assert documents == found.points("h")["value"]
    assert [one["counts"][0] for one in documents] == [0, 1, 2]
    for wrong in (0, -1, 10**9):
        with pytest.raises(query.QueryError, match="rows is 1 to"):
            found.chunks("x", wrong)


def test_a_frame_of_runs(served: Served, library: str) -> None:
    config = {f"c{i:03}": i for i in range(120)} | {"lr": 0.1}
    with kymogram.init(run_name="a", config=config, tags=["t"]) as run:
        run.log("loss", 0.5)
        run.log("n", 2**62, dtype="int64")
    with kymogram.init(run_name="b", config={"lr": 1, "kind": "x"}) as run:
        run.log("loss", 0.25)
    served.sync()
    made = getattr(served.client, f"runs_to_{library}")("default/default", sort="name")
    assert list(made.columns)[:6] == ["id", "name", "status", "tags", "created_ns", "duration_ms"]
    assert list(made.columns)[6:] == sorted(made.columns[6:])
    a, b = rows(made)
    assert (a["name"], b["name"], list(a["tags"])) == ("a", "b", ["t"])
    assert (a["config/c119"], a["config/lr"], b["config/lr"]) == (119, 0.1, 1.0)
    assert (b["config/c119"], b["config/kind"]) == (None, "x")
    assert (a["summary/loss"], b["summary/loss"], a["summary/n"]) == (0.5, 0.25, 2**62)


def test_missing_libraries_are_named(served: Served, monkeypatch: pytest.MonkeyPatch) -> None:
    with kymogram.init(run_name="r") as run:
        run.log("x", 1.0)
    served.sync()
    found = served.client.run("default/default/r")
    for name in ("pandas", "polars"):
        with monkeypatch.context() as without:
            without.setitem(sys.modules, name, None)
            with pytest.raises(query.QueryError, match=f"pip install {name}"):
                frame(found, name)
    with monkeypatch.context() as without, warnings.catch_warnings():
        for name in ("numpy", "pyarrow"):
            without.setitem(sys.modules, name, None)
        with pytest.raises(query.QueryError, match="pip install numpy"):
            found.to_polars(wide="step")
