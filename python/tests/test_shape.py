"""Half of the functions have at most 10 lines, nine of ten at most 40 (ARCHITECTURE.md)."""

from __future__ import annotations

import ast
from pathlib import Path

SOURCE = Path(__file__).parents[1] / "src"


def lengths() -> list[int]:
    found = []
    for path in SOURCE.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
                body = (
                    node.body[1:] if ast.get_docstring(node) and len(node.body) > 1 else node.body
                )
                found.append((node.end_lineno or 0) - body[0].lineno + 1)
    return sorted(found)


def test_functions_are_short() -> None:
    all_of = lengths()
    assert all_of[len(all_of) // 2] <= 10
    assert all_of[len(all_of) * 9 // 10] <= 40
