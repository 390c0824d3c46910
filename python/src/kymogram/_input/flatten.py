"""Nested mappings, lists and objects, whatever a program is configured by → paths and leaves."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from math import prod

from . import naming

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from typing import Any

_DEPTH = 32
_ARRAY = 10_000  # elements; a larger one is data and says its text
_NO_LISTS = (str, bytes, bytearray, memoryview, range)
_NAMESPACES = ("Namespace", "SimpleNamespace")


def children(given: Any) -> Iterable[tuple[str, Any]] | None:
    """The parts of a nested value; None for a leaf."""
    kind = type(given)
    if kind in (str, int, float, bool) or given is None or isinstance(given, type):
        return None
    try:
        return _parts(given, kind)
    except Exception:  # it only looks like one
        return None


def _parts(given: Any, kind: type) -> Iterable[tuple[str, Any]] | None:
    if callable(getattr(given, "items", None)):
        return _sorted(_items(given))
    if callable(getattr(given, "_asdict", None)):  # a named tuple
        return _sorted(_items(given._asdict()))
    if isinstance(given, (list, tuple)) or (
        isinstance(given, Sequence) and not isinstance(given, _NO_LISTS)
    ):
        return ((str(place), one) for place, one in enumerate(_elements(given)))
    names = _fields(given, kind)
    if names is not None:
        return _sorted((name, _part(getattr, given, name)) for name in names)
    if getattr(given, "ndim", 0) and hasattr(given, "tolist") and prod(given.shape) <= _ARRAY:
        return ((str(place), one) for place, one in enumerate(given.tolist()))
    return None


def _sorted(parts: Iterable[tuple[Any, Any]]) -> list[tuple[str, Any]]:
    return sorted(((text(key), one) for key, one in parts), key=lambda part: part[0])


def _items(given: Any) -> Iterable[tuple[Any, Any]]:
    try:
        return list(given.items())
    except Exception:  # such as OmegaConf's, of a value that is missing
        return [(key, _part(given.__class__.__getitem__, given, key)) for key in given]


def _elements(given: Any) -> Iterable[Any]:
    try:
        return list(given)
    except Exception:
        return [_part(given.__class__.__getitem__, given, place) for place in range(len(given))]


def _part(get: Any, given: Any, name: Any) -> Any:
    try:
        return get(given, name)
    except Exception as error:
        return f"({type(error).__name__}: {error})"


def _fields(given: Any, kind: type) -> Iterable[str] | None:
    """The names of what an object is made of: dataclasses, attrs, pydantic, argparse."""
    if hasattr(kind, "__dataclass_fields__"):
        return [one.name for one in sys.modules["dataclasses"].fields(given)]
    if hasattr(kind, "__attrs_attrs__"):
        return [one.name for one in kind.__attrs_attrs__]
    if hasattr(kind, "model_fields") or any(base.__name__ in _NAMESPACES for base in kind.__mro__):
        return list(vars(given))
    return None


def text(given: object) -> str:
    """The text of whatever it is."""
    if isinstance(given, str):
        return str.__str__(given)
    try:
        return str(given)
    except Exception as error:
        return f"({type(given).__name__}: {type(error).__name__})"


def _brief(given: Any) -> str:
    """The beginning of the text of something large."""
    from reprlib import Repr

    short = Repr()
    short.maxlevel = 2
    return short.repr(given)


def flatten(
    prefix: str, given: Any, within: tuple[tuple[int, str], ...] = ()
) -> Iterator[tuple[str, Any]]:
    """Paths and leaves, keys in order. A value that holds itself ends where it comes again."""
    path = prefix
    parts = children(given)
    if parts is None:
        yield naming.inner_path(path), given
        return
    for known, where in within:
        if known == id(given):
            yield naming.inner_path(path), f"(the same as {where or 'the whole'})"
            return
    if len(within) > _DEPTH:
        yield naming.inner_path(path), _brief(given)
        return
    within += ((id(given), path),)
    for key, one in parts:
        yield from flatten(f"{prefix}/{key}" if prefix or len(within) > 1 else key, one, within)
