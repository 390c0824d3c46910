"""Frames of pandas and polars from columns; each library is imported when it is needed."""

from __future__ import annotations

from collections.abc import Mapping
from importlib import import_module
from typing import Any

from .._exceptions import KymogramError


class QueryError(KymogramError):
    """The server refused a request or could not be reached.

    `code` is the server's word for the reason (not_found, ambiguous, …),
    "unavailable" when nothing answered; `status` is HTTP's number or 0.
    """

    def __init__(self, message: str, code: str, status: int = 0) -> None:
        super().__init__(message)
        self.code = code
        self.status = status


def missing(what: str, library: str) -> QueryError:
    """The error for a library that is not installed."""
    return QueryError(f"{what} {library}: pip install {library}", "failed_precondition")


def library(name: str) -> Any:
    """A library that a method of the caller's choice needs."""
    try:
        return import_module(name)
    except ImportError:
        raise missing(f"to_{name}() needs", name) from None


def numpy() -> Any:
    """NumPy, None where it is not installed."""
    try:
        return import_module("numpy")
    except ImportError:
        return None


def pandas_frame(columns: Mapping[str, Any]) -> Any:
    """Integers with gaps are Int64, floats with gaps have NaN; what is no number is object."""
    pandas = library("pandas")
    return pandas.DataFrame({name: _pandas(pandas, one) for name, one in columns.items()})


def _pandas(pandas: Any, column: Any) -> Any:
    if isinstance(column, list):
        return pandas.Series(column, dtype="object")
    if not hasattr(column, "mask"):
        return column
    if column.dtype.kind == "i":
        return pandas.arrays.IntegerArray(column.filled(0), _mask(column))
    return column.filled(float("nan") if column.dtype.kind == "f" else None)


def polars_frame(columns: Mapping[str, Any]) -> Any:
    """Gaps are null. Values of several types are text, documents are objects."""
    polars = library("polars")
    return polars.DataFrame([_polars(polars, name, one) for name, one in columns.items()])


def _polars(polars: Any, name: str, column: Any) -> Any:
    if str(getattr(column, "dtype", "")) == "object":
        column = column.tolist()
    if isinstance(column, list):
        kinds = {type(one) for one in column if one is not None}
        if kinds <= {dict}:
            return polars.Series(name, column, dtype=polars.Object if kinds else None)
        if len(kinds) > 1:
            column = [one if one is None else str(one) for one in column]
        return polars.Series(name, column)
    if not hasattr(column, "mask"):
        return polars.Series(name, column)
    made = polars.Series(name, column.filled(0))
    return made.set(polars.Series(_mask(column)), None)


def _mask(column: Any) -> Any:
    return import_module("numpy").ma.getmaskarray(column)
