"""docs/names.md against the Python SDK: each name at an edge of a rule is tried.

The server, the Go SDK, the receivers and the importers are tried with the same table by
TestTheTableOfNames in Go.
"""

from __future__ import annotations

import re
import string
from collections.abc import Callable
from pathlib import Path

import pytest

import kymogram
from kymogram import KymogramValidationError

from . import reader

PAGE = Path(__file__).resolve().parents[2] / "docs" / "names.md"
SPACES = " \t\n\u3000\u2028\x85"


def cells() -> dict[str, str]:
    """Kind → the rule of the SDKs, as it is written."""
    lines = [one for one in PAGE.read_text("utf-8").splitlines() if one.startswith("| ")]
    rows = [re.split(r"(?<!\\)\|", one)[1:3] for one in lines[1:]]
    return {kind.strip(): rule.strip() for kind, rule in rows}


def allows(rule: str, name: str) -> bool:
    """The rule as a person reads it."""
    for phrase in rule.split("; "):
        quoted = re.search("`([^`]+)`", phrase)
        some = quoted[1].replace("\\|", "|") if quoted else ""
        sizes = re.fullmatch(r"([\d,]+) to ([\d,]+) bytes", phrase)
        if sizes:
            least, most = (int(one.replace(",", "")) for one in sizes.groups())
            good = least <= len(name.encode()) <= most
        elif phrase == "no white space":
            good = not any(one in SPACES for one in name)
        elif phrase == "no control characters":
            good = not any(ord(one) < 32 or 127 <= ord(one) < 160 for one in name)
        elif phrase.startswith("none of "):
            good = not set(some) & set(name)
        elif phrase.startswith("letters, digits and "):
            good = set(name) <= set(string.ascii_letters + string.digits + some)
        elif phrase == "no `._-` first":
            good = name[:1] not in (".", "_", "-")
        elif phrase.startswith("no ") and phrase.endswith(" first"):
            good = not name.startswith(some)
        else:
            raise AssertionError(f"docs/names.md: the test cannot read {phrase!r}")
        if not good:
            return False
    return True


def examples() -> list[str]:
    """Names at the edges of all rules; an empty one leaves the name of a run out."""
    found = ["a", "A9", "train/loss", "a b", "a\u3000b", "a\u2028b", "a\tb", "a\x7fb", "a\x85b"]
    found += ["é漢字😀", ":a", "a:b", "sys/a", "sysa", "/a//"]
    found += [f"a{one}b" for one in string.punctuation] + [f"{one}b" for one in string.punctuation]
    for size in (128, 256, 512, 1024):
        found += ["x" * size, "x" * (size + 1), "é" * (size // 2), "é" * (size // 2) + "x"]
    return found


def opened(**names: str) -> None:
    kymogram.close(0)
    kymogram.init(init_mode="offline", log_level="OFF", **names)  # type: ignore[arg-type]


TRIES: dict[str, Callable[[str], None]] = {
    "metric": lambda name: kymogram.log(name, 1.0),
    "label name": lambda name: kymogram.log("m", 1.0, labels={name: "v"}),
    "label value": lambda name: kymogram.log("m", 1.0, labels={"l": name}),
    "run": lambda name: opened(run_name=name),
    "project, workspace": lambda name: opened(run_name="r", project_name=name, workspace_name=name),
    "tag": lambda name: kymogram.add_tags([name]),
    "attribute path": lambda name: kymogram.log_attributes(name, 1),
}


def test_every_row_is_tried() -> None:
    assert set(cells()) == set(TRIES)


@pytest.mark.parametrize("kind", list(TRIES))
def test_the_table_of_names(spool: Path, kind: str) -> None:
    """What a rule allows is logged; the error of what it does not says which rule that is."""
    opened(run_name="r")
    rule, wrong, taken = cells()[kind], [], 0
    names = examples()
    if kind in ("run", "project, workspace"):  # each opens a run
        names = names[:16] + names[16:-16:5] + names[-16:]
    for name in names:
        try:
            TRIES[kind](name)
            error = ""
        except KymogramValidationError as raised:
            error = str(raised)
        if allows(rule, name) != (error == ""):
            wrong.append((name[:12], error))
        taken += not error
        if error and not re.search(REASONS, error):
            wrong.append((name[:12], error))
    assert not wrong
    if kind == "metric":
        kept = {one.metric for one in reader.all_points(spool)}
        assert kept == {name for name in examples() if allows(rule, name)}
        assert taken > 10


REASONS = (
    "bytes, at most|white space|control character|Reserved|starts with|It starts with a letter"
)
