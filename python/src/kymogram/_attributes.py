"""Attributes, configuration and tags → the updates of `internal/model/batch.go`."""

from __future__ import annotations

import math
import os
import sys

from . import _names
from ._exceptions import KymogramValidationError
from ._say import voice

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Any

STRING_BYTES = 64 << 10
TAGS = 1_000  # in one update
_SAFE = 1 << 53
_DEPTH = 32


def value(path: str, given: Any) -> dict[str, Any]:
    """One attribute value as {"type", "value"}."""
    if isinstance(given, bool):
        return {"type": "bool", "value": given}
    if isinstance(given, int):
        if not -(1 << 63) <= given < 1 << 63:
            voice.warn(f"{path!r} is outside int64: {given} is kept as text", once="big attribute")
            return {"type": "string", "value": _text(path, given)}
        return {"type": "int64", "value": given if abs(given) <= _SAFE else str(given)}
    if isinstance(given, float):
        return {"type": "float64", "value": _float(given)}
    if isinstance(given, (set, frozenset)):
        return {"type": "string_set", "value": sorted(_text(path, one) for one in given)}
    datetime = sys.modules.get("datetime")
    if datetime is not None and isinstance(given, datetime.datetime):
        return {"type": "time", "value": str(round(given.timestamp() * 1_000_000) * 1000)}
    if (
        not isinstance(given, (str, bytes))
        and hasattr(given, "item")
        and not getattr(given, "ndim", 0)
    ):
        return value(path, given.item())
    return {"type": "string", "value": _text(path, given)}


def _float(number: float) -> float | str:
    if math.isnan(number):
        return "NaN"
    if math.isinf(number):
        return "Infinity" if number > 0 else "-Infinity"
    return number


def _text(path: str, given: Any) -> str:
    text = str(given)
    size = len(text.encode(errors="surrogatepass"))
    if size > STRING_BYTES:
        raise KymogramValidationError(
            f"the text of {path!r} has {size} bytes, at most {STRING_BYTES} are allowed"
        )
    return text.encode(errors="replace").decode()


def _children(given: Any) -> Iterator[tuple[str, Any]] | None:
    """The parts of a nested value; None for a leaf."""
    if hasattr(given, "items") and callable(given.items):
        return ((str(key), one) for key, one in given.items())
    if isinstance(given, (list, tuple)):
        if hasattr(given, "_asdict"):
            given = given._asdict()
            return ((str(key), one) for key, one in given.items())
        return ((str(place), one) for place, one in enumerate(given))
    kind = type(given)
    if hasattr(kind, "__dataclass_fields__") or kind.__name__ in ("Namespace", "SimpleNamespace"):
        return iter(vars(given).items()) if hasattr(given, "__dict__") else None
    if getattr(given, "ndim", 0) and hasattr(given, "tolist"):
        return ((str(place), one) for place, one in enumerate(given.tolist()))
    return None


def flatten(prefix: str, given: Any, depth: int = 0) -> Iterator[tuple[str, Any]]:
    """Paths and leaves of nested mappings and lists, keys in order."""
    if depth > _DEPTH:
        raise KymogramValidationError(f"{prefix!r} is nested deeper than {_DEPTH}")
    children = _children(given)
    if children is None:
        yield _names.path(prefix), given
        return
    for key, one in sorted(children, key=lambda pair: pair[0]):
        yield from flatten(f"{prefix}/{key}" if prefix or depth else key, one, depth + 1)


def updates(prefix: str, given: Any) -> list[dict[str, Any]]:
    """set_attribute for every leaf; None removes."""
    found = []
    for path, leaf in flatten(prefix, given):
        one: dict[str, Any] = {"op": "set_attribute", "path": path}
        if leaf is not None:
            one["value"] = value(path, leaf)
        found.append(one)
    return found


def config(given: Any) -> list[dict[str, Any]]:
    """The updates of a configuration."""
    if given is None:
        return []
    if _children(given) is None:
        raise KymogramValidationError(f"config is a mapping, not {type(given).__name__}")
    return updates("config", given)


def environment(env: str, given: Any, episode: int | None) -> list[dict[str, Any]]:
    """The updates of an environment's attributes."""
    if _children(given) is None:
        raise KymogramValidationError(f"env attributes are a mapping, not {type(given).__name__}")
    found = []
    for one in updates("", given):
        one["op"], one["env"] = "set_env_attribute", env
        if episode is not None:
            one["episode"] = episode
        found.append(one)
    return found


def tags(op: str, given: Any) -> list[dict[str, Any]]:
    """set_tags, add_tags or remove_tags, in parts that the server takes."""
    names = _names.tags(given)
    found = [{"op": op, "tags": names[:TAGS]}]
    more = "add_tags" if op == "set_tags" else op
    for start in range(TAGS, len(names), TAGS):
        found.append({"op": more, "tags": names[start : start + TAGS]})
    return found


def description(text: object) -> str:
    """A description; None clears it."""
    if text is None:
        return ""
    if not isinstance(text, str):
        raise KymogramValidationError(f"description is text, not {type(text).__name__}")
    return _text("description", text)


def commit(folder: str) -> str | None:
    """The commit that the folder's git repository has checked out."""
    while True:
        git = os.path.join(folder, ".git")
        if os.path.exists(git):
            return _head(git)
        parent = os.path.dirname(folder)
        if parent == folder:
            return None
        folder = parent


def _head(git: str) -> str | None:
    try:
        if os.path.isfile(git):  # a worktree: a file that names its folder
            git = os.path.join(os.path.dirname(git), _read(git).removeprefix("gitdir: "))
        head = _read(os.path.join(git, "HEAD"))
        if not head.startswith("ref: "):
            return head or None
        name = head[5:]
        common = os.path.join(git, "commondir")
        roots = [git, os.path.join(git, _read(common))] if os.path.exists(common) else [git]
        for root in roots:
            if os.path.exists(os.path.join(root, name)):
                return _read(os.path.join(root, name)) or None
        for root in roots:
            packed = os.path.join(root, "packed-refs")
            for line in _read(packed).splitlines() if os.path.exists(packed) else ():
                if line.endswith(" " + name):
                    return line.split(" ")[0]
    except (OSError, ValueError):
        pass
    return None


def _read(path: str) -> str:
    with open(path, encoding="utf-8") as file:
        return file.read().strip()
