"""Who may import whom: arrows run one way, also those that only a type checker follows."""

from __future__ import annotations

import ast
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import kymogram

SOURCE = Path(__file__).resolve().parents[1] / "src" / "kymogram"

# Modules that hold the words of the package: they lie under all groups.
WORDS = "_enums _exceptions _metrics _rendering _say _settings _types".split()
# Modules that define what `import kymogram` gives; pickles and tracebacks name them.
CALLS = "_api _documents _init _log _replay _rl _run _text".split()
ADAPTERS = (
    "_adapters gymnasium huggingface keras lightning logging stable_baselines3 tensorboard"
).split()
# Public modules that only name what others define.
NAMES = ["kymogram", "logger", "types", "utils"]

GROUPS = (
    "_platform _spool _input _host _delivery _points _episodes _arguments _videos _opening "
    "_netstate _telemetry _reading"
).split()
MAY_IMPORT = {
    "words": [],
    "_platform": [],
    "_spool": ["words", "_platform"],
    "_input": ["words", "_spool"],
    "_host": ["words", "_platform", "_spool", "_input"],
    "_delivery": ["words", "_platform", "_spool", "_host"],
    "_points": ["words", "_spool", "_input"],
    "_episodes": ["words", "_spool", "_input", "_points"],
    "_arguments": ["words", "_spool", "_input", "_host"],
    "_videos": ["words", "_spool", "_input", "_arguments"],
    "_opening": "words _platform _spool _input _host _delivery _points _arguments _videos".split(),
    "_netstate": ["words", "_delivery"],
    "_telemetry": ["words", "_platform", "_spool", "_input", "_points"],
    "_reading": ["words"],
    "calls": ["words", *GROUPS, "query"],  # _reading and query: a run's card in a notebook
    "metrics": ["words", "_points", "calls"],
    "adapters": ["words", "_input", "_points", "calls", "metrics"],
    "chain": ["words", "_delivery"],
    "netstate": ["words", "_host", "_netstate"],
    "telemetry": "words _spool _host _arguments _opening _telemetry calls".split(),
    "query": ["words", "_host", "_delivery", "_reading"],
    "names": ["words", "_host", "_input", "_spool", "_arguments", "_opening", "calls"],
}


def modules() -> dict[str, Path]:
    """Every module by its name."""
    found = {}
    for path in SOURCE.rglob("*.py"):
        parts = path.relative_to(SOURCE.parent).with_suffix("").parts
        found[".".join(parts[:-1] if parts[-1] == "__init__" else parts)] = path
    return found


MODULES = modules()


def imports(name: str) -> set[str]:
    """The package's modules that a module imports, anywhere in its text."""
    path = MODULES[name]
    package = name if path.name == "__init__.py" else name.rpartition(".")[0]
    found = set()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            parents = package.split(".")[: len(package.split(".")) + 1 - node.level]
            base = ".".join([*parents, node.module or ""] if node.level else [node.module or ""])
            for alias in node.names:
                full = f"{base.rstrip('.')}.{alias.name}"
                found.add(full if full in MODULES else base.rstrip("."))
    return {one for one in found if one in MODULES and one != name}


GRAPH = {name: imports(name) for name in MODULES}


def group(name: str) -> str:
    """The group of a module."""
    first = name.split(".")[1] if "." in name else name
    for title, members in {
        "words": WORDS,
        "calls": CALLS,
        "adapters": ADAPTERS,
        "names": NAMES,
    }.items():
        if first in members:
            return title
    return first


def circles(graph: dict[str, set[str]]) -> list[set[str]]:
    """Sets of modules that reach one another."""
    reached: dict[str, set[str]] = {}
    for start in graph:
        seen: set[str] = set()
        ahead = list(graph[start])
        while ahead:
            one = ahead.pop()
            if one not in seen:
                seen.add(one)
                ahead += graph.get(one, ())
        reached[start] = seen
    return [{b for b in reached[a] if a in reached[b]} for a in graph if a in reached[a]]


def test_no_circle_between_modules() -> None:
    assert circles(GRAPH) == []


def test_no_circle_between_groups() -> None:
    between: dict[str, set[str]] = {}
    for name, found in GRAPH.items():
        between.setdefault(group(name), set()).update(group(one) for one in found)
    assert circles({name: found - {name} for name, found in between.items()}) == []


def test_circles_are_found() -> None:
    """Of the test itself: it sees a circle, and an import that only a type checker follows."""
    assert circles({"a": {"b"}, "b": {"c"}, "c": {"b"}}) == [{"b", "c"}, {"b", "c"}]
    assert "kymogram._spool.writer" in imports("kymogram._delivery.helper")


def test_every_group_is_in_the_table() -> None:
    assert {group(name) for name in MODULES} == set(MAY_IMPORT)


@pytest.mark.parametrize("name", sorted(MODULES))
def test_who_imports_whom(name: str) -> None:
    own = group(name)
    others = {one for one in GRAPH[name] if group(one) not in (own, *MAY_IMPORT[own])}
    assert others == set(), f"{name} is of {own}, which may import {MAY_IMPORT[own]}"


@pytest.mark.parametrize("name", GROUPS)
def test_a_group_says_what_it_is(name: str) -> None:
    """A docstring and nothing else: a name taken up here would cost every import of the group."""
    tree = ast.parse((SOURCE / name / "__init__.py").read_text(encoding="utf-8"))
    assert "Start at" in (ast.get_docstring(tree) or "")
    assert len(tree.body) == 1


def test_public_names_stay_where_pickles_look_for_them() -> None:
    """The module of each public class and function is one of those at the package's top."""
    for name in kymogram.__all__:
        module = getattr(getattr(kymogram, name), "__module__", "kymogram._log")
        assert module.count(".") == 1 and group(module) in ("words", "calls"), (name, module)


def test_a_wheels_binary_is_found(tmp_path: Path) -> None:
    """python/hatch_build.py puts it into `_bin`, beside the public modules."""
    shutil.copytree(SOURCE, tmp_path / "kymogram", ignore=_no_binary)
    carried = tmp_path / "kymogram" / "_bin" / "kymogram"
    carried.parent.mkdir()
    carried.write_bytes(b"\x7fELF")
    carried.chmod(0o755)
    found = subprocess.run(
        [sys.executable, "-c", "from kymogram._delivery import agent; print(agent.binary())"],
        env={"PYTHONPATH": str(tmp_path), "PATH": ""},
        capture_output=True,
        text=True,
        check=True,
    )
    assert found.stdout.strip() == str(carried)


def _no_binary(_folder: str, names: list[str]) -> set[str]:
    return {"_bin", "__pycache__"}.intersection(names)
