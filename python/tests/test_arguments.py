"""The table of init()'s arguments, and what is made from it."""

from __future__ import annotations

import importlib.util
import inspect
from pathlib import Path

import pytest

import kymogram
from kymogram._arguments.table import ARGUMENTS, POSITIONAL, TABLE, Arguments

MAKER = Path(__file__).resolve().parents[1] / "arguments.py"


def test_what_is_made_from_the_table_is_fresh() -> None:
    spec = importlib.util.spec_from_file_location("arguments", MAKER)
    assert spec is not None and spec.loader is not None
    maker = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(maker)
    for path, text in maker.made().items():
        assert path.read_text(encoding="utf-8") == text, f"run python python/arguments.py ({path})"


def test_the_signature_is_the_table() -> None:
    *parameters, unknown = inspect.signature(kymogram.init).parameters.values()
    assert unknown.kind is unknown.VAR_KEYWORD  # for an error that names what was meant
    assert [(p.name, p.annotation, p.default) for p in parameters] == [
        (one.name, one.type, one.default) for one in ARGUMENTS
    ]
    positional = [p.name for p in parameters if p.kind is p.POSITIONAL_OR_KEYWORD]
    assert positional == [one.name for one in ARGUMENTS[:POSITIONAL]]


def test_every_argument_is_explained_and_passes_its_own_check() -> None:
    for one in ARGUMENTS:
        assert one.doc and one.doc == one.doc.strip()
        if one.default is not None:
            Arguments({}).take(one.name)


def test_what_is_given_comes_before_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    assert Arguments({}).take("queue_capacity") == 10_000
    monkeypatch.setenv("METRANA_EVENT_QUEUE_MAX_SIZE", "2")
    assert Arguments({}).take("queue_capacity") == 2
    monkeypatch.setenv("KYMOGRAM_EVENT_QUEUE_MAX_SIZE", "3")
    assert Arguments({}).take("queue_capacity") == 3
    assert Arguments({"queue_capacity": 4}).take("queue_capacity") == 4
    assert Arguments({"queue_capacity": 4})["queue_capacity"] == 4


@pytest.mark.parametrize("name", [name for name, one in TABLE.items() if one.read is not None])
def test_a_blank_variable_is_none(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("KYMOGRAM_CAPTURE_ENVIRONMENT", raising=False)
    for variable in TABLE[name].variables:
        monkeypatch.setenv(variable, "  ")
    assert Arguments({}).take(name) == TABLE[name].otherwise


@pytest.mark.parametrize("variable", ["METRANA_EVENT_QUEUE_MAX_SIZE", "KYMOGRAM_LOG_LEVEL"])
def test_a_bad_variable_is_named(variable: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(variable, "x y")
    with pytest.raises(kymogram.KymogramValidationError, match=f"'x y'.* {variable}$"):
        kymogram.init(run_name="r", init_mode="offline")


def test_silent_is_silent(capfd: pytest.CaptureFixture[str], spool: object) -> None:
    """What goes wrong is not told; where the run is, is."""
    with kymogram.init(
        run_name="r", error_strategy="silent", server="http://127.0.0.1:1", close_timeout=0.1
    ) as run:
        run.log("a", 1.0, step=5)
        run.log("a", 2.0, step=5)
    assert not capfd.readouterr().err
    with kymogram.init(run_name="s", server="http://127.0.0.1:1", close_timeout=0.1) as run:
        run.log("a", 1.0)
    assert "is not reached" in capfd.readouterr().err
