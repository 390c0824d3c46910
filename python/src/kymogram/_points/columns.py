"""What a call gives as step, time and episode, as the columns of its record.

`given_steps` and `time_column` are for the rows of one series; `episodes_each`,
`env_steps` and `times_each` for environments × rows of an RL call.
"""

from __future__ import annotations

from struct import Struct
from time import time_ns

from .._exceptions import KymogramValidationError
from .._input import numeric
from .._input.numeric import STEP_MAX
from .._spool.records import CONSTANT, EACH, EXPLICIT, RELATIVE, Column, constant, pack_i64

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

NO_EPISODE = -1


def explicit(values: list[int], mode: int = EXPLICIT) -> Column:
    """A column of numbers."""
    return Column(mode, Struct(f"<{len(values)}q").pack(*values))


def same_or_each(steps: list[int], relative: bool) -> Column:
    """The steps of one row of several series: one number where all are equal."""
    flag = RELATIVE if relative else 0
    if steps.count(steps[0]) == len(steps):
        return Column(CONSTANT | flag, pack_i64(steps[0]))
    return explicit(steps, CONSTANT | EACH | flag)


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


def given_steps(step: Any, rows: int) -> int | list[int] | None:
    """The step of the first row, or one a row; None where the series counts."""
    if step is None:
        return None
    if numeric.is_sequence(step):
        return numeric.steps("step", step, rows)
    return rising("step", step, rows)


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
    if numeric.is_sequence(timestamp):
        return explicit(numeric.times_ns(timestamp, rows))
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
    if found.ndim == 2 and (rows == 1 or (found == found[:, :1]).all()):
        found = numpy.ascontiguousarray(found[:, 0])
    if found.ndim == 2 or found.shape == (1,):
        not_negative(found)  # one an environment: looked at where it changed
    return int(found[0]) if found.shape == (1,) else found


def not_negative(episodes: Any) -> None:
    """Check an array of episodes: from 0 to 2^62."""
    if int(episodes.view("u8").max()) > STEP_MAX:  # a negative one is above it, too
        numeric.step("episode", int(episodes.min()))
        numeric.step("episode", int(episodes.max()))


def episodes_each(episode: Any, envs: int, rows: int) -> list[list[int]]:
    """The episode of every value."""
    if episode is None:
        return [[NO_EPISODE] * rows] * envs
    if not numeric.is_sequence(episode):
        return [[numeric.step("episode", episode)] * rows] * envs
    found = numeric.as_list("episode", episode)
    if envs == 1 and len(found) == rows and not any(numeric.is_sequence(one) for one in found):
        found = [found]
    if len(found) != envs:
        raise KymogramValidationError(
            f"episode has {len(found)} entries for {envs} environments with {rows} values each"
        )
    return [
        numeric.steps("episode", one, rows)
        if numeric.is_sequence(one)
        else [numeric.step("episode", one)] * rows
        for one in found
    ]


def env_steps(given: Any, envs: int, rows: int) -> list[list[int]]:
    """The step within the episode of every value; one number is that of the first."""
    if not numeric.is_sequence(given):
        first = rising("env_step", given, rows)
        return [list(range(first, first + rows))] * envs
    found = numeric.as_list("env_step", given)
    nested = any(numeric.is_sequence(one) for one in found)
    if envs == 1 and not nested:
        found, nested = [found], True
    if len(found) != envs or (rows > 1 and not nested):
        raise KymogramValidationError(
            f"env_step has {len(found)} entries for {envs} environments with {rows} values each"
        )
    return [
        numeric.steps("env_step", one if numeric.is_sequence(one) else [one], rows) for one in found
    ]


def times_each(timestamp: Any, envs: int, rows: int) -> list[Column]:
    """The time column of every environment."""
    if timestamp is None:
        return [constant(time_ns())] * envs
    if not numeric.is_sequence(timestamp):
        return [constant(numeric.time_ns(timestamp))] * envs
    found = numeric.as_list("timestamp", timestamp)
    if envs == 1 and len(found) == rows and not any(numeric.is_sequence(one) for one in found):
        found = [found]
    if len(found) != envs:
        raise KymogramValidationError(
            f"timestamp has {len(found)} entries for {envs} environments with {rows} values each"
        )
    return [
        explicit(numeric.times_ns(one, rows))
        if numeric.is_sequence(one)
        else constant(numeric.time_ns(one))
        for one in found
    ]
