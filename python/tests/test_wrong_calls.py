"""wrong_calls.py: what a type checker refuses, a call refuses too, and says what was meant."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

import kymogram

from . import reader

HERE = Path(__file__).resolve().parent
LINES = (HERE / "wrong_calls.py").read_text(encoding="utf-8").splitlines()
CALLS = {number: line for number, line in enumerate(LINES, 1) if line.startswith("kymogram.")}


def test_a_type_checker_refuses_each() -> None:
    pytest.importorskip("mypy")
    command = [sys.executable, "-m", "mypy", "--config-file", str(HERE.parent / "pyproject.toml")]
    done = subprocess.run(
        [*command, "--no-incremental", str(HERE / "wrong_calls.py")],
        capture_output=True,
        text=True,
        cwd=HERE.parent,
        check=False,
    )
    found = {int(one) for one in re.findall(r"wrong_calls\.py:(\d+): error", done.stdout)}
    assert found == set(CALLS), done.stdout


@pytest.mark.parametrize("call", CALLS.values())
def test_the_call_refuses_it(call: str, spool: Path) -> None:
    if "init(" not in call:
        kymogram.init(run_name="r")
    with pytest.raises((kymogram.KymogramValidationError, TypeError)):
        exec(call, {"kymogram": kymogram})
    kymogram.close()
    assert not (spool / "writers").exists() or not reader.all_points(spool)


@pytest.mark.parametrize(
    ("call", "says"),
    [
        ('init(project="p")', "did you mean project_name"),
        ('init(run_nam="p")', "did you mean run_name"),
        ('log("loss", 1.0, 3)', "step=3"),
        ('log({"a": {"b": 1.0}})', r"'a/…'"),
        ('log("a", "b")', r"log_text\(\)"),
        ('log({"train loss": 1})', "'_', '-' or '/'"),
    ],
)
def test_familiar_mistakes_get_an_answer(call: str, says: str, run: kymogram.Run) -> None:
    with pytest.raises((kymogram.KymogramValidationError, TypeError), match=says):
        exec("kymogram." + call, {"kymogram": kymogram})
