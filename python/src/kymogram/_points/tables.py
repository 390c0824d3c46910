"""The tables of the hot path: calls by metric name, and the types of their values.

`AUTO` and `STEPPED` hold, by metric name, what a call needs: the segment's
write, the step counter, the CRC of the record's constant start; the `GROUPS`
hold the same by the names of a mapping, and `VECTORS` the calls with an array.
Entries are made and removed under the writer's lock; rotation, close and fork
clear them.
"""

from __future__ import annotations

from .._spool.records import NARROW, WIDE

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

AUTO: dict[Any, tuple[Any, ...]] = {}
STEPPED: dict[Any, tuple[Any, ...]] = {}
GROUPS: dict[tuple[str, ...], tuple[Any, ...]] = {}
GROUPS_STEPPED: dict[tuple[str, ...], tuple[Any, ...]] = {}
VECTORS: dict[Any, Any] = {}  # Vector of arrays, by metric name
PLAIN: set[type] = {float, bool}  # types whose values float64 holds exactly; NumPy's join on sight
PLAIN_OR_INT: set[type] = {float, bool, int}
ARRAYS: set[Any] = set()  # numpy.ndarray, once one was logged
WIDTHS: dict[Any, int] = {}  # the dtypes that are stored as they are → bytes of a number
WHOLE: set[Any] = set()  # the dtype of int64
_NUMPY_PLAIN = ("float64", "float32", "float16")


def forget() -> None:
    """Leave the current segment: every next call finds its way anew."""
    AUTO.clear()
    STEPPED.clear()
    GROUPS.clear()
    GROUPS_STEPPED.clear()
    VECTORS.clear()


def learn(value: Any) -> None:
    """NumPy's arrays and float scalars take the hot path from now on."""
    kind = type(value)
    if kind.__module__ != "numpy" or kind in PLAIN or kind in ARRAYS:
        return
    if kind.__name__ in _NUMPY_PLAIN:
        PLAIN.add(kind)
        PLAIN_OR_INT.add(kind)
    elif kind.__name__ == "ndarray":
        _know(kind)


def _know(ndarray: type) -> None:
    """From the first array on, arrays are known by their type."""
    import numpy

    WIDTHS.update({numpy.dtype("<f4"): NARROW, numpy.dtype("<f8"): WIDE})
    WHOLE.add(numpy.dtype("<i8"))
    ARRAYS.add(ndarray)
