"""Answers as Arrow streams: a tenth of the time and memory of JSON. Needs pyarrow."""

from __future__ import annotations

from importlib import import_module
from typing import Any

from .columns import letter

_LABEL = "label."


def library() -> Any:
    """pyarrow, None where it or NumPy is not installed."""
    try:
        import_module("numpy")
        return import_module("pyarrow")
    except ImportError:
        return None


def page(pyarrow: Any, body: bytes) -> dict[str, Any]:
    """A page of points as its JSON would be, but its columns are final."""
    table = pyarrow.ipc.open_stream(body).read_all()
    meta = {key.decode(): value.decode() for key, value in (table.schema.metadata or {}).items()}
    labels = {key[len(_LABEL) :]: one for key, one in meta.items() if key.startswith(_LABEL)}
    series = {name: meta[name] for name in ("run", "metric", "scale", "kind", "axis")}
    columns = {
        name: _column(table.column(name), letter(name, meta["kind"])) for name in table.column_names
    }
    return {"series": series | {"labels": labels}, "columns": columns, "next": meta["next"] or None}


def _column(column: Any, letter: str) -> Any:
    numpy = import_module("numpy")
    if not letter:
        return _texts(column)
    dtype = "f8" if letter == "d" else "i8"
    if not column.null_count:
        return column.to_numpy().astype(dtype)  # a copy: Arrow's own memory is read-only
    filled = column.fill_null(0).to_numpy().astype(dtype)
    return numpy.ma.masked_array(filled, mask=column.is_null().to_numpy())


def _texts(column: Any) -> list[Any]:
    """Texts; a writer is one text for all of its rows."""
    if str(column.type) != "fixed_size_binary[16]":
        return list(column.to_pylist())
    coded = column.combine_chunks().dictionary_encode()
    writers = [one.hex() for one in coded.dictionary.to_pylist()]
    return [writers[i] for i in coded.indices.to_pylist()]
