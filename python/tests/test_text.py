"""log_text, read back from a real server."""

from __future__ import annotations

import pytest

import kymogram

from .rig import Served

TEXTS = ["", "one\ntwo", "Grüße 🌊", "\x00", "NaN", "x" * 100_000]


def test_text_comes_back(served: Served) -> None:
    with kymogram.init(run_name="r"):
        for text in TEXTS:
            kymogram.log_text("note", text, labels={"level": "INFO"}, timestamp=1_700_000_000_000)
        kymogram.log_text("note", "later", step=70, labels={"level": "INFO"})
        kymogram.log_text("note", "next", labels={"level": "INFO"})
    points = served.only().points("note", labels={"level": "INFO"})
    assert points["value"] == [*TEXTS, "later", "next"]
    assert list(points["step"]) == [*range(len(TEXTS)), 70, 71]
    assert points["time_ns"][0] == 1_700_000_000_000_000_000


def test_numbers_and_texts_do_not_mix(run: kymogram.Run) -> None:
    kymogram.log("loss", 1.0)
    with pytest.raises(kymogram.KymogramValidationError, match="holds numbers"):
        kymogram.log_text("loss", "one")
    kymogram.log_text("note", "one")
    with pytest.raises(kymogram.KymogramValidationError, match="no numbers"):
        kymogram.log("note", 1.0)
    with pytest.raises(kymogram.KymogramValidationError, match="no numbers"):
        kymogram.log({"note": 1.0, "loss": 2.0})
    with pytest.raises(kymogram.KymogramValidationError, match="not a str"):
        kymogram.log_text("note", 1)  # type: ignore[arg-type]
    with pytest.raises(kymogram.KymogramValidationError, match="1048577 bytes"):
        kymogram.log_text("note", "x" * (2**20 + 1))
