"""Numbers as Python has them → the bytes of a record.

NumPy, PyTorch, JAX and TensorFlow are recognised by what they can do; none of
them is imported here unless the value itself already needs it.
"""

from __future__ import annotations

import sys
from array import array
from itertools import islice
from operator import index, lt

from .._exceptions import KymogramValidationError
from .._say import voice
from .._spool.records import FLOAT, INT, NARROW, WIDE, Buffer, pack_f64, pack_i64
from . import duration

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    Ints = array[int] | Any  # of int64: Python's array, or NumPy's

EXACT = 1 << 53  # float64 holds every integer up to here
INT_MAX = (1 << 63) - 1
_SMALL = 512  # bytes, where a copy is cheaper than a view
STEP_MAX = 1 << 62  # the server leaves room for what is added to a step
_TIME_MS_MAX = STEP_MAX // 1_000_000
_NS_FROM = 10**18  # what is beyond, of 2001 and later, was meant as nanoseconds
_KINDS = {
    None: (None, False),
    "float64": (FLOAT, False),
    "float32": (FLOAT, True),
    "float16": (FLOAT, True),
    "int64": (INT, False),
    "int32": (INT, False),
}

# Of these days in milliseconds nobody has points; of these years in seconds many have.
_SECONDS_FROM, _SECONDS_TO = 978_307_200, 2_592_000_000  # 2001, and 30 days: 2052

_NO_NUMBERS = (str, bytes, bytearray, complex, set, frozenset)

Shape = tuple[int, ...]
Numbers = tuple[Shape, int, Buffer]  # shape, () for a scalar; bytes of a number; the numbers


def _asked(dtype: object) -> tuple[int | None, bool]:
    name = getattr(dtype, "name", None) or getattr(dtype, "__name__", None) or dtype
    name = str(name).removeprefix("torch.") if name is not None else None
    if name not in _KINDS:
        raise KymogramValidationError(
            f"dtype {dtype!r} is not known: choose float64 (the default), float32 (4 bytes a value "
            "of an array) or int64 (exact)"
        )
    return _KINDS[name]


def kind_of(dtype: object) -> int | None:
    """The kind that dtype asks for; None leaves it to the series."""
    return None if dtype is None else _asked(dtype)[0]


def fits(name: str, held: int, dtype: object) -> None:
    """Whether a series of this kind takes what dtype asks for; float64 takes int64, and says so."""
    asked = kind_of(dtype)
    if asked == held:
        return
    if held == INT:
        raise KymogramValidationError(
            f"{name!r} holds int64 since its first point; use dtype='int64'"
        )
    voice.warn(
        f"{name!r} holds float64 since its first point, which rounds integers above 2^53: "
        'dtype="int64" belongs to the first point of a series',
        once=f"inexact {name}",
    )


def rounds(dtype: object) -> bool:
    """Whether dtype asks to store arrays of floats as float32."""
    return _asked(dtype)[1]


def convert(name: str, value: Any, kind: int, narrow: bool = False) -> Numbers:
    """The numbers of a value in 8 bytes each; in 4 where that is exact, or `narrow` asks for it."""
    if isinstance(value, (float, int)):
        return (), WIDE, _scalar(name, value, kind)
    if isinstance(value, (list, tuple)):
        return _sequence(name, value, kind)
    numpy = sys.modules.get("numpy")
    if numpy is not None and isinstance(value, (numpy.ndarray, numpy.generic)):
        return _array(name, numpy, value, kind, narrow)
    if isinstance(value, _NO_NUMBERS) or value is None:
        raise _not_a_number(name, value)
    try:
        return _foreign(name, value, kind, narrow)
    except KymogramValidationError:
        raise
    except Exception as error:
        raise without_data(f"the value of {name!r}", value, error) from error


def floats(name: str, value: Any) -> tuple[Shape, list[float]]:
    """The shape of a value and its numbers, as Python has them."""
    shape, width, data = convert(name, value, FLOAT)
    return shape, _plain(data, "d" if width == WIDE else "f").tolist()


def _foreign(name: str, value: Any, kind: int, narrow: bool) -> Numbers:
    if hasattr(value, "detach") and hasattr(value, "cpu"):
        return convert(name, _tensor(value), kind, narrow)
    if hasattr(value, "numpy") and hasattr(value, "shape"):
        return convert(name, value.numpy(), kind, narrow)  # TensorFlow: no __array__ of scalars
    if hasattr(value, "__array__"):
        import numpy

        return _array(name, numpy, numpy.asarray(value), kind, narrow)
    if hasattr(value, "__len__") and hasattr(value, "__iter__") and not hasattr(value, "items"):
        return _sequence(name, list(value), kind)
    if hasattr(value, "__float__") or hasattr(value, "__index__"):
        return (), WIDE, _scalar(name, value, kind)
    raise _not_a_number(name, value)


def _tensor(value: Any) -> Any:
    """A torch-like tensor as NumPy, or as lists where NumPy is absent."""
    plain = value.detach().cpu()
    try:
        return plain.numpy()
    except (TypeError, RuntimeError):  # bfloat16, or torch without NumPy
        plain = plain.float() if getattr(plain, "itemsize", WIDE) < NARROW else plain.double()
        try:
            return plain.numpy()
        except (TypeError, RuntimeError):
            return plain.tolist()


def without_data(what: str, value: object, error: Exception) -> KymogramValidationError:
    """Such as a tensor of a graph that is being traced, or on a device that gives none away."""
    return KymogramValidationError(
        f"{what} is a {type(value).__name__} that gives no numbers: {error!s:.200}"
    )


def _not_a_number(name: str, value: object) -> KymogramValidationError:
    hint = ""
    if hasattr(value, "items"):
        hint = f". Log what is in it: log({{'{name}/…': …}})"
    elif isinstance(value, str):
        hint = ". log_text() logs a text"
    return KymogramValidationError(
        f"the value of {name!r} is a {type(value).__name__}, not a number or an array of numbers:"
        f" {value!r:.80}{hint}"
    )


def _scalar(name: str, value: Any, kind: int) -> bytes:
    if kind == INT:
        return pack_i64(exact_int(name, value))
    try:
        number = float(value)
    except FloatingPointError:  # NumPy was told to raise: np.seterr
        import numpy

        with numpy.errstate(all="ignore"):
            number = float(value)
    except OverflowError:
        raise KymogramValidationError(
            f"the value of {name!r} is too large for float64: {value!r:.60}"
        ) from None
    except (TypeError, ValueError):
        raise _not_a_number(name, value) from None
    if isinstance(value, int) and not -EXACT <= value <= EXACT and int(number) != value:
        _inexact(name)
    return pack_f64(number)


def _inexact(name: str) -> None:
    voice.warn(
        f'{name!r} holds integers above 2^53 that float64 rounds; log them with dtype="int64"',
        once=f"inexact {name}",
    )


def exact_int(name: str, value: Any) -> int:
    """An int64 that equals the value, or an error."""
    try:
        number = index(value)
    except TypeError:
        try:
            number = int(value)
        except (TypeError, ValueError, OverflowError):
            raise KymogramValidationError(
                f"{name!r} holds int64; {value!r:.60} is not an integer"
            ) from None
        if number != value:
            raise KymogramValidationError(
                f"{name!r} holds int64; {value!r:.60} is not an integer"
            ) from None
    if not -INT_MAX - 1 <= number <= INT_MAX:
        raise KymogramValidationError(f"{name!r} holds int64; {number} is outside its range")
    return number


def _sequence(name: str, value: Any, kind: int) -> Numbers:
    if not value:
        return (0,), WIDE, b""
    first = value[0]
    if hasattr(first, "__len__") or getattr(first, "ndim", None):
        return _rows(name, value, kind)
    return (len(value),), WIDE, _list(name, value, kind)


def _list(name: str, value: Any, kind: int) -> bytes:
    if kind == INT:
        return _little(array("q", [exact_int(name, one) for one in value]))
    kinds = set(map(type, value))
    if not kinds <= {float, bool}:
        return b"".join([_one(name, one) for one in value])
    return _little(array("d", value))


def _one(name: str, value: Any) -> Buffer:
    shape, _, data = convert(name, value, FLOAT)
    if shape:
        raise KymogramValidationError(
            f"the value of {name!r} mixes numbers and arrays; all rows need the same length"
        )
    return data


def _rows(name: str, value: Any, kind: int) -> Numbers:
    rows = [convert(name, row, kind) for row in value]
    shapes = {shape for shape, _, _ in rows}
    if len(shapes) > 1:
        lengths = sorted(shape[0] if shape else 1 for shape in shapes)
        raise KymogramValidationError(
            f"the rows of the value of {name!r} have unequal lengths: {lengths}"
        )
    width = max(width for _, width, _ in rows)
    same = [data if own == width else _widen(data, kind) for _, own, data in rows]
    return (len(rows), *shapes.pop()), width, b"".join(same)


def _little(values: array[Any]) -> bytes:
    if sys.byteorder == "big":
        values.byteswap()
    return values.tobytes()


def _plain(data: Buffer, letter: str) -> array[Any]:
    """The opposite of _little."""
    found = array(letter)
    found.frombytes(bytes(data))
    if sys.byteorder == "big":
        found.byteswap()
    return found


def _widen(data: Buffer, kind: int) -> bytes:
    """Numbers of 4 bytes in 8."""
    if kind == INT:
        return _little(array("q", _plain(data, "i")))
    return _little(array("d", _plain(data, "f")))


def _array(name: str, numpy: Any, value: Any, kind: int, narrow: bool) -> Numbers:
    if value.dtype.kind in "cSUmM" or value.dtype.names:
        raise _not_a_number(name, value)
    if hasattr(value, "mask"):  # numpy.ma: what is hidden is no number
        if kind == INT and value.mask.any():
            raise KymogramValidationError(f"{name!r} holds int64; a masked value is none")
        try:
            value = value.filled() if kind == INT else value.astype("<f8").filled(numpy.nan)
        except (TypeError, ValueError, OverflowError):
            raise _not_a_number(name, value) from None
    if kind == INT:
        data = _int_array(name, numpy, value)
        return value.shape, data.itemsize, data.tobytes()
    data = _float_array(name, numpy, value, narrow)
    # No copy yet: what makes the record copies, and only then takes the checksum,
    # because the caller's other threads may change the array meanwhile.
    if data.nbytes <= _SMALL or not data.flags.c_contiguous:
        return value.shape, data.itemsize, data.tobytes()
    return value.shape, data.itemsize, memoryview(data).cast("B")


def _float_array(name: str, numpy: Any, value: Any, narrow: bool) -> Any:
    letter, size = value.dtype.kind, value.dtype.itemsize
    if letter == "O":  # NumPy would take None for NaN, and text for the number in it
        flat = [_one(name, one) for one in value.reshape(-1).tolist()]
        return numpy.frombuffer(b"".join(flat), "<f8").reshape(value.shape)
    exact = value.ndim and (size < NARROW or (letter == "f" and size == NARROW))
    try:
        kind = "<f4" if value.ndim and (exact or narrow) else "<f8"
        if size <= WIDE and (exact or kind == "<f8"):
            data = value.astype(kind, order="C", copy=False)
        else:
            with numpy.errstate(all="ignore"):  # beyond float32 or float64 is Inf, or 0
                data = value.astype(kind, order="C", copy=False)
    except (TypeError, ValueError, OverflowError):
        raise _not_a_number(name, value) from None
    if letter in "iu" and size == WIDE and data.itemsize == WIDE and value.size:
        outside = int(value.max()) > EXACT or int(value.min()) < -EXACT
        if outside and (data.astype(value.dtype) != value).any():
            _inexact(name)
    return data


def _int_array(name: str, numpy: Any, value: Any) -> Any:
    size = value.dtype.itemsize + (value.dtype.kind == "u")  # of the int that holds it
    if value.dtype.kind in "ibu" and size <= WIDE:
        return value.astype("<i4" if value.ndim and size <= NARROW else "<i8")
    if value.dtype.kind == "u":
        if value.size and int(value.max()) > INT_MAX:
            raise KymogramValidationError(f"{name!r} holds int64; a value is outside its range")
        return value.astype("<i8")
    flat = [exact_int(name, one) for one in value.reshape(-1).tolist()]
    return numpy.array(flat, dtype="<i8").reshape(value.shape)


def step(what: str, value: Any) -> int:
    """A step: an integer from 0 to 2^62."""
    if isinstance(value, bool) or value.__class__.__name__ in ("bool_", "bool"):
        voice.warn(f"{what} is {value!r}, taken as {int(value)}", once=f"bool {what}")
        return int(value)
    if getattr(value, "ndim", 0):
        raise KymogramValidationError(f"{what} is one integer, not an array: {value!r:.60}")
    try:
        number = index(value)
    except TypeError:
        number = _whole(what, value)
    if number < 0:
        raise KymogramValidationError(f"{what} is negative: {number}")
    if number > STEP_MAX:
        raise KymogramValidationError(f"{what} is above 2^62: {number}")
    return number


def _whole(what: str, value: Any) -> int:
    try:
        number = int(value)
        if number == value and not isinstance(value, str):
            return number
    except (TypeError, ValueError, OverflowError):
        pass
    raise KymogramValidationError(f"{what} is an integer, not {value!r:.60}")


def is_sequence(value: Any) -> bool:
    """Whether value stands for many numbers."""
    if isinstance(value, (int, float, str, bytes)):
        return False
    if hasattr(value, "ndim"):
        return bool(value.ndim)
    return hasattr(value, "__iter__") and not hasattr(value, "__index__")


def as_list(what: str, value: Any) -> list[Any]:
    """What a sequence, an array or a tensor holds."""
    try:
        if hasattr(value, "detach") and hasattr(value, "cpu"):
            value = _tensor(value)
        return value.tolist() if hasattr(value, "tolist") else list(value)
    except Exception as error:
        raise without_data(what, value, error) from error


def steps(what: str, value: Any, count: int, row: int | None = None) -> Ints:
    """A step for each of count points; `row` is where a grid has them, for errors."""
    found = steps_array(value)
    if found is not None and found.shape == (count,):
        return found
    return _each(what, value, count, row, step, plain_steps)


def steps_array(value: Any) -> Any:
    """An array of steps as NumPy's int64; None for what has to be looked at one by one."""
    found = whole_array(value)
    return found if found is not None and within(found, STEP_MAX) else None


def _each(
    what: str,
    value: Any,
    count: int,
    row: int | None,
    check: Callable[[str, Any], int],
    plain: Callable[[list[Any]], Ints | None],
) -> Ints:
    """A number for each of count points, of anything; an error names the element."""
    found = as_list(what, value)
    if len(found) != count:
        raise KymogramValidationError(
            f"{what} has {len(found)} entries and the value {count}: give one a point"
        )
    numbers = plain(found)
    if numbers is None:
        numbers = array("q")
        for place, one in enumerate(found):
            try:
                numbers.append(check(what, one))
            except KymogramValidationError as error:
                where = f"element {place}" if row is None else f"row {row}, element {place}"
                raise KymogramValidationError(f"{error} ({where})") from None
    return numbers


def plain_steps(found: list[Any]) -> Ints | None:
    """A list of nothing but integers in range."""
    if set(map(type, found)) != {int} or min(found) < 0 or max(found) > STEP_MAX:
        return None
    return array("q", found)


def _plain_times(found: list[Any]) -> Ints | None:
    """The same for milliseconds, in nanoseconds."""
    if set(map(type, found)) != {int}:
        return None
    first, last = min(found), max(found)
    if first < 0 or last > _TIME_MS_MAX or (first < _SECONDS_TO and last >= _SECONDS_FROM):
        return None
    return array("q", [one * 1_000_000 for one in found])


def int64_bytes(values: Ints) -> bytes:
    """The bytes of a column."""
    return _little(values) if isinstance(values, array) else values.tobytes()


def rise(values: Ints) -> bool:
    """Whether every number is above the one before."""
    if isinstance(values, array):
        return all(map(lt, values, islice(values, 1, None)))
    return every(values[1:] > values[:-1])


def every(flags: Any) -> bool:
    """What flags.all() says, in a third of its time."""
    return b"\0" not in flags.tobytes()


def within(found: Any, most: int) -> bool:
    """Whether an array of int64 lies between 0 and most."""
    return every(found.view("u8") <= most)  # a negative one is above it


def _of_numpy(value: Any) -> tuple[Any, Any]:
    """NumPy, and what an array or a tensor holds as its plain array; None for anything else."""
    numpy = sys.modules.get("numpy")
    if numpy is None or isinstance(value, (list, tuple)):
        return numpy, None
    if value.__class__ is numpy.ndarray:  # as nearly all are
        return numpy, value
    try:
        if hasattr(value, "detach") and hasattr(value, "cpu"):
            value = _tensor(value)
        elif hasattr(value, "__array__") and not isinstance(value, numpy.ndarray):
            value = numpy.asarray(value)
    except Exception:  # the slow way says which
        return numpy, None
    return numpy, value if value.__class__ is numpy.ndarray else None  # no mask, no matrix


def whole_array(value: Any) -> Any:
    """An array of whole numbers as int64, in order; None where they are none."""
    numpy, found = _of_numpy(value)
    return None if found is None else _as_int64(numpy, found)


def _as_int64(numpy: Any, found: Any) -> Any:
    if found.dtype.str == "<i8" and found.flags.c_contiguous:
        return found
    letter, size = found.dtype.kind, found.dtype.itemsize
    if letter in "iu":
        return found.astype("<i8", order="C", copy=False)
    if letter != "f" or size > WIDE:
        return None
    with numpy.errstate(all="ignore"):  # NaN is none of them
        found = found.astype("<f8", order="C", copy=False)
        if not every(abs(found) <= STEP_MAX):
            return None
        whole = found.astype("<i8")
        return whole if every(whole == found) else None


def time_ns(value: Any) -> int:
    """Unix milliseconds → nanoseconds."""
    try:
        whole = int(value)
        number: int = whole * 1_000_000 + round(float(value - whole) * 1_000_000)
    except (TypeError, ValueError, OverflowError):
        raise KymogramValidationError(
            f"timestamp is Unix milliseconds, not {value!r:.60}"
        ) from None
    if not 0 <= number <= STEP_MAX:
        ns = "; that looks like nanoseconds: give // 1_000_000" if whole >= _NS_FROM else ""
        raise KymogramValidationError(
            f"timestamp is Unix milliseconds from 0 to {_TIME_MS_MAX}, got {value!r:.60}{ns}"
        )
    if _SECONDS_FROM <= whole < _SECONDS_TO:
        voice.warn(
            f"timestamp={value!r:.60} is Unix milliseconds, thus of January 1970; "
            "give seconds times 1000",
            once="timestamp in seconds",
        )
    return number


def times_ns(value: Any, count: int, row: int | None = None) -> Ints:
    """A time for each of count points; `row` is where a grid has them, for errors."""
    found = times_array(value)
    if found is not None and found.shape == (count,):
        return found
    return _each("timestamp", value, count, row, _time_ns, _plain_times)


def _time_ns(what: str, value: Any) -> int:
    return time_ns(value)


def times_array(value: Any) -> Any:
    """An array of Unix milliseconds in nanoseconds; None for what is looked at one by one."""
    numpy, found = _of_numpy(value)
    if found is None:
        return None
    if found.dtype.kind == "f" and found.dtype.itemsize <= WIDE:
        with numpy.errstate(all="ignore"):  # NaN is no time
            found = found.astype("<f8", order="C", copy=False)
            if not every(abs(found) <= _TIME_MS_MAX):
                return None
            whole = found.astype("<i8")
            ns = whole * 1_000_000 + numpy.rint((found - whole) * 1_000_000).astype("<i8")
        if not within(ns, STEP_MAX):
            return None
    else:
        whole = _as_int64(numpy, found)
        if whole is None:
            return None
        if whole.ndim == 1:
            ns = rising_ns(whole)
            if ns is not None:
                return ns
        elif within(whole - _SECONDS_TO, _TIME_MS_MAX - _SECONDS_TO):
            return whole * 1_000_000
        if not within(whole, _TIME_MS_MAX):
            return None
        ns = whole * 1_000_000
    if whole.size and int(whole.min()) < _SECONDS_TO:
        some = whole[(whole >= _SECONDS_FROM) & (whole < _SECONDS_TO)]
        if some.size:
            time_ns(int(some[0]))  # says so
    return ns


def rising_ns(whole: Any) -> Any:
    """Milliseconds of now, which do not fall, as nearly all; None for others."""
    if whole.size and whole.item(0) >= _SECONDS_TO and whole.item(-1) <= _TIME_MS_MAX:
        return whole * 1_000_000 if every(whole[1:] >= whole[:-1]) else None
    return None


def seconds(what: str, value: Any) -> float:
    """A time limit, also as a duration such as 1m30s; more than any is no limit."""
    found: float | None
    try:
        found = float(value)
    except (TypeError, ValueError):
        found = duration.parse(value) if isinstance(value, str) else None
    if found is not None and found >= 0:
        return found
    raise KymogramValidationError(
        f"{what} is a number of seconds or a duration such as 1m30s, got {value!r}"
    )
