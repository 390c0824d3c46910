"""Brings the signature of init() and the tables of the docs up to date with their table.

The table is src/kymogram/_arguments/table.py. tests/test_arguments.py fails when
something was not brought up to date.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from itertools import groupby
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE / "src"))

from kymogram._arguments.table import ARGUMENTS, POSITIONAL, Argument  # noqa: E402

BEGIN, END = "Made from _arguments/table.py by python/arguments.py", "Made until here"


def signature() -> list[str]:
    """The parameters of init()."""
    lines = [f"    {one.name}: {one.type} = {default_of(one)}," for one in ARGUMENTS]
    lines.insert(POSITIONAL, "    *,")
    return lines


def default_of(one: Argument) -> str:
    """A default as ruff writes it."""
    return f'"{one.default}"' if isinstance(one.default, str) else repr(one.default)


def reference() -> list[str]:
    """The table of docs/python-reference.md."""
    others = [one for one in ARGUMENTS if "render" not in one.name]
    return ["| argument | default | meaning | variable |", "|---|---|---|---|", *rows(others)]


def renderings() -> list[str]:
    """The table of the guide on renderings."""
    head = "| argument of `init` | default | meaning | variable |"
    return [head, "|---|---|---|---|", *rows([one for one in ARGUMENTS if "render" in one.name])]


def rows(found: list[Argument]) -> Iterator[str]:
    """A row an argument; neighbours of one meaning share theirs."""
    for doc, same in groupby(found, lambda one: one.doc):
        first, *others = same
        names = ", ".join(f"`{one.name}`" for one in (first, *others))
        cells = (names, shown(first), doc, ", ".join(variables(first)))
        yield "".join(f"| {cell} " if cell else "| " for cell in cells) + "|"


def shown(one: Argument) -> str:
    """The default, as a reader of the docs sees it."""
    if one.shown or one.default is None:
        return one.shown
    if isinstance(one.default, bool):
        return str(one.default).lower()
    return f"`{one.default}`" if isinstance(one.default, str) else f"{one.default:,g}"


def variables(one: Argument) -> list[str]:
    """The variables of the docs; X stands for KYMOGRAM_X and METRANA_X."""
    ends = {name.partition("_")[2] for name in one.variables}
    return [f"`{name}`" for name in (ends if len(ends) == 1 else one.variables)]


def between(text: str, lines: list[str]) -> str:
    """The text with other lines between its markers."""
    old = text.splitlines()
    first = next(i for i, line in enumerate(old) if BEGIN in line)
    last = next(i for i, line in enumerate(old) if END in line)
    return "\n".join([*old[: first + 1], *lines, *old[last:]]) + "\n"


MADE = {
    HERE / "src" / "kymogram" / "_init.py": signature,
    HERE.parent / "docs" / "python-reference.md": reference,
    HERE.parent / "docs" / "guides" / "rl.md": renderings,
}


def made() -> dict[Path, str]:
    """Every file that is made, as it ought to be."""
    return {
        path: between(path.read_text(encoding="utf-8"), lines()) for path, lines in MADE.items()
    }


if __name__ == "__main__":
    for path, text in made().items():
        path.write_text(text, encoding="utf-8")
