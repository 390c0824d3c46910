"""Histograms and scatters, from the call to the server's API."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy
import pytest

import kymogram
from kymogram import Histogram
from kymogram.utils.exceptions import MetranaValidationError

from . import reader


def logged(spool: Path, metric: str) -> list[tuple[int | None, Any]]:
    return [
        (point.axes.get("step"), json.loads(point.value))
        for point in reader.all_points(spool)
        if point.metric == metric and isinstance(point.value, bytes)
    ]


def test_histogram(run: kymogram.Run, spool: Path) -> None:
    values = numpy.array([0.0, 0.1, 0.5, 0.9, 1.0])
    kymogram.log_histogram("w", Histogram([0, 0.5, 1], counts=[2, 3]), 7)
    kymogram.log_histogram("w", numpy.histogram(values, 2))
    kymogram.log_histogram("d", Histogram.from_numpy(numpy.histogram(values, 2, density=True)))
    exact = (0.0, 1.0, 2.5, 2.07)
    kymogram.log_histogram("s", Histogram([0, 1], counts=numpy.array([5]), stats=exact))
    kymogram.log_histogram("w", Histogram([0, 1], counts=[1]), 7, evaluation=True)
    first, second, evaluation = logged(spool, "w")
    assert first == (7, {"bin_edges": [0, 0.5, 1], "counts": [2, 3]})
    assert second == (8, {"bin_edges": [0, 0.5, 1], "counts": [2, 3]})
    assert evaluation == (7, {"bin_edges": [0, 1], "counts": [1]})
    assert logged(spool, "d") == [(0, {"bin_edges": [0, 0.5, 1], "densities": [0.8, 1.2]})]
    names = ("min", "max", "sum", "sum_of_squares")
    assert logged(spool, "s")[0][1]["stats"] == dict(zip(names, exact))


def test_scatter(run: kymogram.Run, spool: Path) -> None:
    nan = float("nan")
    kymogram.log_scatter("s", [1, 2], (nan, -float("inf")), 3, x_title="epoch", labels={"a": "b"})
    kymogram.log_scatter3d("t", numpy.arange(2), [0.5, 1], [3, 4], z_title="height")
    assert logged(spool, "s") == [(3, {"x": [1, 2], "y": ["NaN", "-Infinity"], "x_title": "epoch"})]
    assert logged(spool, "t") == [
        (0, {"x": [0, 1], "y": [0.5, 1], "z": [3, 4], "z_title": "height"})
    ]


@pytest.mark.parametrize(
    ("message", "arguments"),
    [
        ("2 to 513", {"bin_edges": [0], "counts": []}),
        ("2 to 513", {"bin_edges": range(514), "counts": [1] * 513}),
        ("strictly rising", {"bin_edges": [0, 0], "counts": [1]}),
        ("finite", {"bin_edges": [0, float("inf")], "counts": [1]}),
        ("either counts or densities", {"bin_edges": [0, 1]}),
        ("either counts", {"bin_edges": [0, 1], "counts": [1], "densities": [1]}),
        ("2 numbers for 1 bins", {"bin_edges": [0, 1], "counts": [1, 2]}),
        ("not negative", {"bin_edges": [0, 1], "counts": [-1]}),
        ("four finite numbers", {"bin_edges": [0, 1], "counts": [1], "stats": (1, 2)}),
        ("one dimension", {"bin_edges": [[0, 1]], "counts": [1]}),
    ],
)
def test_bad_histograms(message: str, arguments: dict[str, Any]) -> None:
    with pytest.raises(MetranaValidationError, match=message):
        Histogram(**arguments)


def test_bad_documents(run: kymogram.Run) -> None:
    with pytest.raises(MetranaValidationError, match="unequal lengths"):
        kymogram.log_scatter("s", [1], [1, 2])
    with pytest.raises(MetranaValidationError, match="control character"):
        kymogram.log_scatter("s", [1], [1], x_title="a\nb")
    with pytest.raises(MetranaValidationError, match=r"numpy\.histogram"):
        kymogram.log_histogram("h", 5)
    for values in ([0.1, 0.2, 0.3], {"bin_edges": [0, 1], "counts": [1]}):
        with pytest.raises(MetranaValidationError, match=r"log_histogram takes numpy\.histogram"):
            kymogram.log_histogram("h", values)
    kymogram.log_scatter("s", [1], [1])
    with pytest.raises(MetranaValidationError, match="holds scatters"):
        kymogram.log_histogram("s", Histogram([0, 1], counts=[1]))
    with pytest.raises(MetranaValidationError, match="holds no numbers"):
        kymogram.log("s", 1.0)


def test_documents_reach_the_server(served: Any) -> None:
    kymogram.init(run_name="r", log_level="OFF")
    kymogram.log_histogram("h", Histogram([0, 0.5, 1], counts=[2, 3]), 4)
    kymogram.log_scatter3d("s", [1], [float("nan")], [3], 5, y_title="loss")
    kymogram.close(0)
    assert served.values("h") == {4: {"bin_edges": [0, 0.5, 1], "counts": [2, 3]}}
    want = {5: {"x": [1], "y": ["NaN"], "z": [3], "y_title": "loss"}}
    assert served.values("s") == want
    kinds = {series.metric: series.kind for series in served.only().series()}
    assert kinds == {"h": "histogram", "s": "scatter"}
    run = served.only().id
    line = served.cli("export", run, "--metric", "^h$", "--server", served.address)
    assert json.loads(line)["value"] == {"bin_edges": [0, 0.5, 1], "counts": [2, 3]}
