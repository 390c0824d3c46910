"""The read API with pandas."""

from __future__ import annotations

import pytest

import kymogram

from ..rig import Served

pandas = pytest.importorskip("pandas", reason="make test-frameworks")


def test_pandas(served: Served) -> None:
    with kymogram.init(run_name="r") as run:
        run.log("loss", [0.5, float("nan")], step=3)
        run.log("tokens", 2**62 + 1, dtype="int64")
        run.log("g", 1.0, labels={"layer": "2"})
    found = served.only()
    loss = found.points("loss").to_pandas()
    assert list(loss["step"]) == [3, 4]
    assert loss["value"].isna().tolist() == [False, True]
    whole = found.to_pandas()
    assert whole.groupby("metric").size().to_dict() == {"g": 1, "loss": 2, "tokens": 1}
    assert whole[whole.metric == "g"]["labels"].tolist() == ["layer=2"]
    assert int(found.points("tokens").to_pandas()["value"][0]) == 2**62 + 1
    buckets = found.buckets("loss", n=2).to_pandas()
    assert (buckets["count"].sum(), buckets["nan"].sum()) == (1, 1)
    assert len(found.to_pandas("no such metric")) == 0
