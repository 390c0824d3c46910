"""What calls take, for type checkers: read by them, never at run time."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Protocol, SupportsFloat, SupportsIndex, TypeAlias


class Array(Protocol):
    """An array or a tensor of a library."""

    def __array__(self) -> Any: ...


Number: TypeAlias = SupportsFloat | SupportsIndex
Value: TypeAlias = Number | Array | Iterable[Number]  # a str has strings, so it is none
Values: TypeAlias = Value | Iterable[Value]  # (M, T) of many environments
Environments: TypeAlias = str | SupportsIndex | Array | Iterable[str | SupportsIndex]
