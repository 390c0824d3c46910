"""Durations are read as Go reads them."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from kymogram import KymogramValidationError
from kymogram._input import duration, numeric
from kymogram.utils import env_vars

VECTORS = json.loads(
    (Path(__file__).parents[2] / "testdata" / "durations.json").read_text(encoding="utf-8")
)


@pytest.mark.parametrize(("text", "seconds"), VECTORS["seconds"].items())
def test_read(text: str, seconds: float) -> None:
    assert duration.parse(text) == pytest.approx(seconds, rel=1e-12)
    assert numeric.seconds("it", text) == pytest.approx(seconds, rel=1e-12)


@pytest.mark.parametrize("text", VECTORS["refused"])
def test_refused(text: str) -> None:
    assert duration.parse(text) is None
    with pytest.raises(KymogramValidationError, match="1m30s"):
        numeric.seconds("it", text)


def test_a_plain_number_is_of_seconds() -> None:
    assert numeric.seconds("it", "1.5") == numeric.seconds("it", 1.5) == 1.5


def test_of_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KYMOGRAM_RENDERING_CLOSE_TIMEOUT", "1m30s")
    assert env_vars.get_rendering_close_timeout() == 90
