"""Prints the docstrings and messages of the Python package as JSON."""

from __future__ import annotations

import ast
import inspect
import json
import sys
from collections.abc import Iterator
from pathlib import Path

DOCUMENTED = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)


def content(node: ast.AST) -> str:
    """A string, also a formatted one, whose values are one word each."""
    if isinstance(node, ast.Constant):
        return node.value if isinstance(node.value, str) else ""
    if isinstance(node, ast.JoinedStr):
        return "".join(content(one) if isinstance(one, ast.Constant) else "x" for one in node.values)
    return ""


def texts(path: Path, is_public: bool) -> Iterator[tuple[int, bool, str]]:
    """Line, whether it is a docstring, words."""
    tree = ast.parse(path.read_text())
    docstrings, parts = set(), set()
    for node in ast.walk(tree):
        if isinstance(node, DOCUMENTED) and ast.get_docstring(node, clean=False) is not None:
            first = node.body[0]
            assert isinstance(first, ast.Expr)
            docstrings.add(first.value)
            is_own = isinstance(node, ast.Module) or not node.name.startswith("_")
            if is_public and is_own:
                yield first.lineno, True, inspect.cleandoc(content(first.value))
        if isinstance(node, ast.JoinedStr):
            parts.update(node.values)
    for node in ast.walk(tree):
        if not isinstance(node, (ast.Constant, ast.JoinedStr)) or node in docstrings | parts:
            continue
        if found := content(node):
            yield node.lineno, False, found


def main(root: Path) -> None:
    found = []
    source = root / "python" / "src" / "kymogram"
    for path in sorted(source.rglob("*.py")):
        folders = path.relative_to(source).parts[:-1]
        is_public = not any(one.startswith("_") for one in folders)
        for line, is_doc, words in texts(path, is_public):
            name = path.relative_to(root).as_posix()
            found.append({"File": name, "Line": line, "Doc": is_doc, "Content": words})
    json.dump(found, sys.stdout)


main(Path(sys.argv[1]))
