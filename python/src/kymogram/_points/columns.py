"""What a call gives as step, time and episode, as the columns of its record.

`given_steps` and `time_column` are for the rows of one series; the episodes,
`env_steps` and `times_grid` for environments × rows of an RL call.
"""

from __future__ import annotations

from struct import Struct
from time import time_ns

from .._exceptions import KymogramValidationError
from .._input import numeric
from .._input.numeric import STEP_MAX
from .._spool.records import (
    CONSTANT,
    EACH,
    EXPLICIT,
    LINEAR,
    RELATIVE,
    Column,
    constant,
    linear,
    pack_i64,
)
from .tables import ARRAYS, WHOLE

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from .._input.numeric import Ints

NO_EPISODE = -1


def explicit(values: list[int], mode: int = EXPLICIT) -> Column:
    """A column of numbers."""
    return Column(mode, Struct(f"<{len(values)}q").pack(*values))


class Given(Column):
    """Steps that a call gives, one a row, and what the series has to know of them."""

    __slots__ = ("first", "last", "rises")

    def __init__(self, mode: int, data: bytes, first: int, last: int, rises: bool = True) -> None:
        super().__init__(mode, data)
        self.first = first
        self.last = last
        self.rises = rises


def same_or_each(steps: list[int], relative: bool) -> Column:
    """The steps of one row of several series: one number where all are equal."""
    flag = RELATIVE if relative else 0
    if steps.count(steps[0]) == len(steps):
        return Column(CONSTANT | flag, pack_i64(steps[0]))
    return explicit(steps, CONSTANT | EACH | flag)


def one_or_each(data: bytes, envs: int, mode: int = CONSTANT) -> Column:
    """A number an environment, or one where all are equal."""
    if data == data[:8] * envs:
        return Column(mode, data[:8])
    return Column(mode | EACH, data)


def one_dimension(metric: str, shape: tuple[int, ...]) -> int:
    """Rows of a value of one series."""
    if len(shape) != 1:
        raise KymogramValidationError(
            f"the value of {metric!r} has shape {shape}; log takes a number or one dimension"
        )
    return shape[0]


def again(value: Any) -> Any:
    """What can be read once, such as a generator, as a list."""
    return list(value) if hasattr(value, "__next__") else value


def given_steps(step: Any, rows: int, what: str = "step") -> Given | None:
    """The steps of a call, of which one number is the first; None where the series counts."""
    if step is None:
        return None
    if step.__class__ in ARRAYS and step.shape == (rows,) and rows and step.dtype in WHOLE:
        first, last = step.item(0), step.item(-1)
        if first >= 0 and last <= STEP_MAX and numeric.rise(step):  # and so are those between
            if last - first == rows - 1:  # one by one
                return Given(LINEAR, pack_i64(first), first, last)
            return Given(EXPLICIT, step.tobytes(), first, last)
    if not numeric.is_sequence(step):
        first = rising(what, step, rows)
        return Given(LINEAR, pack_i64(first), first, first + rows - 1)
    found = numeric.steps(what, step, rows)
    first, last = (int(found[0]), int(found[-1])) if rows else (0, 0)
    return Given(EXPLICIT, numeric.int64_bytes(found), first, last, numeric.rise(found))


def rising(what: str, value: Any, rows: int) -> int:
    """The first of as many successive steps."""
    first = numeric.step(what, value)
    if first + max(rows, 1) - 1 > STEP_MAX:
        raise KymogramValidationError(f"{what} {first} and {rows} points pass 2^62")
    return first


def time_column(timestamp: Any, rows: int) -> Column:
    """The time of every row, or one for all."""
    if timestamp is None:
        return constant(time_ns())
    if timestamp.__class__ in ARRAYS and timestamp.shape == (rows,) and timestamp.dtype in WHOLE:
        found = numeric.rising_ns(timestamp)
        if found is not None:
            return Column(EXPLICIT, found.tobytes())
    if numeric.is_sequence(timestamp):
        return Column(EXPLICIT, numeric.int64_bytes(numeric.times_ns(timestamp, rows)))
    return constant(numeric.time_ns(timestamp))


def grid_rows(metric: str, shape: tuple[int, ...], envs: int, many: bool) -> int:
    """Rows of a value for this many environments."""
    if not many and len(shape) <= 1:
        return shape[0] if shape else 1
    if not shape and envs == 1:
        return 1
    if shape and shape[0] == envs and len(shape) <= 2:
        return shape[1] if len(shape) == 2 else 1
    wanted = f"({envs},) or ({envs}, T)" if many else "a number or one dimension"
    raise KymogramValidationError(
        f"the value of {metric!r} has shape {shape}; {envs} environments take {wanted}"
    )


def episodes_numpy(numpy: Any, episode: Any, envs: int, rows: int) -> Any:
    """The episode: one integer, one an environment, or one a value where they change."""
    if episode is None:
        return NO_EPISODE
    if not numeric.is_sequence(episode):
        return numeric.step("episode", episode)
    try:
        if hasattr(episode, "detach") and hasattr(episode, "cpu"):
            episode = episode.detach().cpu()
        found = numpy.asarray(episode)
    except ValueError:
        raise KymogramValidationError("the rows of episode have unequal lengths") from None
    except Exception as error:
        raise numeric.without_data("episode", episode, error) from error
    if found.dtype.kind not in "iu":
        found = numpy.array(
            [numeric.step("episode", one) for one in found.reshape(-1).tolist()], dtype="<i8"
        ).reshape(found.shape)
    if envs == 1 and found.shape == (rows,):
        found = found.reshape(1, rows)
    if found.shape not in ((envs,), (envs, rows)):
        raise KymogramValidationError(
            f"episode has shape {found.shape}; {envs} environments with {rows} values each take "
            f"a number, ({envs},) or ({envs}, {rows})"
        )
    found = numpy.ascontiguousarray(found, dtype="<i8")
    if found.ndim == 2 and rows == 1:
        found = numpy.ascontiguousarray(found[:, 0])
    if found.shape == (1,):
        not_negative(found)  # others are looked at where they change
        return int(found[0])
    return found


def not_negative(episodes: Any) -> None:
    """Check an array of episodes: from 0 to 2^62."""
    if int(episodes.view("u8").max()) > STEP_MAX:  # a negative one is above it, too
        numeric.step("episode", int(episodes.min()))
        numeric.step("episode", int(episodes.max()))


def episodes_plain(episode: Any, envs: int) -> Any:
    """As episodes_numpy, without NumPy; None where they may change within the rows."""
    if episode is None:
        return NO_EPISODE
    if not numeric.is_sequence(episode):
        return numeric.step("episode", episode)
    found = numeric.as_list("episode", episode)
    if len(found) != envs:
        return None
    plain = numeric.plain_steps(found)
    if plain is not None or any(map(numeric.is_sequence, found)):
        return plain
    return numeric.steps("episode", found, envs)


def episodes_each(episode: Any, envs: int, rows: int) -> list[Ints]:
    """The episode of every value."""
    if episode is None:
        return [[NO_EPISODE] * rows] * envs
    if not numeric.is_sequence(episode):
        return [[numeric.step("episode", episode)] * rows] * envs
    found = _entries("episode", episode, envs, rows)
    if not any(map(numeric.is_sequence, found)):
        return [[one] * rows for one in numeric.steps("episode", found, envs)]
    return [
        numeric.steps("episode", one, rows, place)
        if numeric.is_sequence(one)
        else [numeric.step("episode", one)] * rows
        for place, one in enumerate(found)
    ]


def _entries(what: str, given: Any, envs: int, rows: int) -> list[Any]:
    """What a call gives for every environment; those of one environment may be its rows."""
    found = numeric.as_list(what, given)
    if envs == 1 and len(found) == rows and not any(map(numeric.is_sequence, found)):
        found = [found]
    if len(found) != envs:
        raise KymogramValidationError(
            f"{what} has {len(found)} entries for {envs} environments with {rows} values each"
        )
    return found


def env_steps(given: Any, envs: int, rows: int) -> Column:
    """The step within the episode of every value; one number is that of the first."""
    if not numeric.is_sequence(given):
        return linear(rising("env_step", given, rows))
    array = numeric.steps_array(given)
    if array is not None and array.size == envs * rows and array.shape[0] in (envs, array.size):
        return Column(EXPLICIT | EACH, array.tobytes())
    found = _entries("env_step", given, envs, rows)
    if rows > 1 and not all(map(numeric.is_sequence, found)):
        raise KymogramValidationError(
            f"env_step has {len(found)} entries for {envs} environments with {rows} values each"
        )
    parts = [
        numeric.steps("env_step", one if numeric.is_sequence(one) else [one], rows, place)
        for place, one in enumerate(found)
    ]
    return Column(EXPLICIT | EACH, b"".join(map(numeric.int64_bytes, parts)))


def times_grid(timestamp: Any, envs: int, rows: int) -> Column:
    """The times of environments × rows: one for all, one an environment or one a value."""
    if timestamp is None:
        return constant(time_ns())
    if not numeric.is_sequence(timestamp):
        return constant(numeric.time_ns(timestamp))
    array = numeric.times_array(timestamp)
    if array is not None:
        if array.shape == (envs, rows) or (envs == 1 and array.shape == (rows,)):
            data = array.tobytes()
            same = array.ndim == 1 or data[: 8 * rows] * envs == data
            return Column(EXPLICIT, data[: 8 * rows]) if same else Column(EXPLICIT | EACH, data)
        if array.shape == (envs,):
            return one_or_each(array.tobytes(), envs)
    found = _entries("timestamp", timestamp, envs, rows)
    if not any(map(numeric.is_sequence, found)):
        return one_or_each(numeric.int64_bytes(numeric.times_ns(found, envs)), envs)
    parts = [
        numeric.times_ns(one if numeric.is_sequence(one) else [one] * rows, rows, place)
        for place, one in enumerate(found)
    ]
    return Column(EXPLICIT | EACH, b"".join(map(numeric.int64_bytes, parts)))
