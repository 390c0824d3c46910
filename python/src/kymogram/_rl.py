"""log_rl_episode and log_rl_environment_step.

An environment counts its steps within the episode. The counters of all series
lie side by side in one table, so a call for 64 environments moves 64 counters
in one NumPy operation; without NumPy the same goes one by one.
"""

from __future__ import annotations

import sys
from array import array
from time import time_ns

from . import _names, _owners, _values
from ._arrays import TYPES, Template, contiguous, storable
from ._exceptions import KymogramValidationError
from ._log import Logger, StepSeries, current, explicit, learn, logger
from ._records import (
    CONSTANT,
    EACH,
    ENV_STEP,
    EPISODE,
    EXPLICIT,
    FLOAT,
    LINEAR,
    PAYLOAD_LIMIT,
    RELATIVE,
    RL_STEP,
    STEP,
    Column,
    block,
    block_head,
    constant,
    linear,
    pack_i64,
)
from ._say import voice

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from typing import Any

    from ._log import Key
    from ._records import Buffer
    from ._segment import Segment

    Values = tuple[int, int, Buffer]  # rows, bytes of a number, the numbers

NO_EPISODE = -1
_TEMPLATES = 64  # shapes of a group's calls that are remembered
_PAST = 16  # episodes of an environment that may be taken up again


class Table:
    """Episode, next step and its kind, for every environment series by its slot."""

    def __init__(self) -> None:
        self.numpy = sys.modules.get("numpy")
        self.int64 = None if self.numpy is None else self.numpy.dtype("<i8")
        self.changes = 0
        self.size = 0
        self.episode: Any = array("q")
        self.next: Any = array("q")
        self.relative: Any = array("b")

    def add(self, start: int | None) -> int:
        """A slot for a new series."""
        if self.size == len(self.next):
            self._grow()
        slot = self.size
        self.size += 1
        self.episode[slot] = NO_EPISODE
        self.next[slot] = start or 0
        self.relative[slot] = start is None
        return slot

    def _grow(self) -> None:
        more = max(64, self.size)
        self.episode = self._longer(self.episode, more)
        self.next = self._longer(self.next, more)
        self.relative = self._longer(self.relative, more)

    def _longer(self, column: Any, more: int) -> Any:
        letter = "b" if column is self.relative else "q"
        plain = array(letter, list(column) + [0] * more)
        if self.numpy is None:
            return plain
        return self.numpy.array(plain, dtype="i1" if letter == "b" else "<i8")


class EnvSeries(StepSeries):
    """A series of environment steps."""

    __slots__ = ("base", "env", "key", "past", "slot")

    def __init__(self, number: int, kind: int, key: Key, env: str, slot: int, base: int) -> None:
        super().__init__(number, kind, (key[0], key[1], dict(key[2])), 0)
        self.key = key
        self.base = base  # the first step of an episode: 0, or 1 by auto_start_from_one
        self.env = env
        self.slot = slot
        self.past: dict[int, tuple[int, int]] = {}


class Group:
    """The environments of a vectorised call."""

    def __init__(self, found: list[EnvSeries], numpy: Any) -> None:
        self.series = found
        self.known = {one.number: one for one in found}
        self.ids = [one.number for one in found]
        self.index = {one.env: place for place, one in enumerate(found)}
        slots = [one.slot for one in found]
        straight = slots == list(range(slots[0], slots[0] + len(slots)))
        self.slots: Any = slice(slots[0], slots[0] + len(slots)) if straight else slots
        if numpy is not None and not straight:
            self.slots = numpy.array(slots)
        self.straight = straight
        self.distinct = len(self.index) == len(found)
        self.kind = found[0].kind if len({one.kind for one in found}) == 1 else 0
        self.changes = -1
        self.episodes = b""
        self.episode_column = b""  # the same, one number where all are equal
        self.relative: bool | None = False  # None: some are
        self.segment: Segment | None = None
        self.templates: dict[tuple[int, int, int, int, bool], Template] = {}
        self.stamp = 0
        self.rl_step = 0


class RLLogger:
    """The RL calls of one writer."""

    def __init__(self, base: Logger) -> None:
        self.base = base
        self.writer = base.writer
        self.table = Table()
        self._env_series: dict[Key, EnvSeries] = {}
        self._groups: dict[Any, Group] = {}
        self._last: dict[Any, tuple[list[str], Any, Group]] = {}  # by metric: envs, evaluation
        self._touched: dict[str, tuple[int, int, int | None]] = {}
        self._owned: set[str] = set()
        self.shared: set[str] = set()  # environments that another process logs too
        self._stamp = 0

    # environments

    def last(self, env: str) -> tuple[int | None, int | None]:
        """The last (rl_step, episode) of an environment."""
        best: tuple[int, int | None, int | None] = (
            -1,
            *self.base.starts.environments.get(env, (None, None)),
        )
        with self.writer.lock:
            touched = self._touched.get(env)
            if touched is not None and touched[0] > best[0]:
                best = touched
            for group in self._groups.values():
                place = group.index.get(env)
                if place is not None and group.stamp > best[0]:
                    episode = int(self.table.episode[group.series[place].slot])
                    best = (group.stamp, group.rl_step, None if episode < 0 else episode)
        return best[1], best[2]

    def _group(
        self, metric: object, envs: Any, labels: Any, evaluation: object, dtype: object, base: int
    ) -> Group:
        alike = envs.__class__ is list and labels is None
        if alike and metric.__class__ is str:
            last = self._last.get(metric)
            if last is not None and envs == last[0] and evaluation is last[1]:
                return last[2]
        if labels is not None and not hasattr(labels, "items"):
            labels = _names.labels(labels)
        pairs = None if labels is None else tuple(labels.items())
        key = (metric, tuple(envs), pairs, bool(evaluation))
        try:
            found = self._groups.get(key)
        except TypeError:
            found = None
        if found is None:
            found = self._make_group(metric, envs, labels, evaluation, dtype, base)
            self._groups[key] = found
        if alike:
            self._last[metric] = (list(envs), evaluation, found)
        return found

    def _make_group(
        self, metric: object, envs: Any, labels: Any, evaluation: object, dtype: object, base: int
    ) -> Group:
        name = _names.metric(metric)
        names = [_names.environment(one) for one in envs]
        if not names:
            raise KymogramValidationError("env_id is an empty list")
        plain = _names.labels(labels, evaluation)
        with self.writer.lock:
            for one in names:
                self.owned(one)
            found = [self._find(name, one, plain, dtype, base) for one in names]
            return Group(found, self.table.numpy)

    def owned(self, env: str) -> None:
        """Look, at an environment's first call, whether another process logs it too."""
        if env in self._owned:
            return
        self._owned.add(env)
        owner = self.writer.claim(env)
        if owner is not None:
            self.shared.add(env)
            if current.run is not None:
                current.run.trouble(_owners.told(env, 0, f"process {owner}"))

    def _find(
        self, metric: str, env: str, labels: dict[str, str], dtype: object, base: int
    ) -> EnvSeries:
        pairs = tuple(sorted({**labels, "env_id": env}.items()))
        key = (metric, "ENVIRONMENT_STEP", pairs)
        found = self._env_series.get(key)
        if found is None:
            kind = _values.kind_of(dtype) or self.base.kind
            start = self.base.starts.of_episode(key, None)
            slot = self.table.add(start)
            if not start:
                self.table.next[slot] = base
            found = EnvSeries(self.base.number(), kind, key, env, slot, base)
            self._env_series[key] = found
        return found

    def _enter(self, one: EnvSeries, episode: int) -> None:
        """The environment goes on in this episode."""
        table, slot = self.table, one.slot
        one.past[int(table.episode[slot])] = (int(table.next[slot]), int(table.relative[slot]))
        if len(one.past) > _PAST:
            del one.past[next(iter(one.past))]
        known = one.past.pop(episode, None)
        if known is None:
            start = self.base.starts.of_episode(one.key, None if episode < 0 else episode)
            known = (start or one.base, start is None)
        table.episode[slot] = episode
        table.next[slot], table.relative[slot] = known
        table.changes += 1

    # log_rl_environment_step

    def environment_step(
        self,
        metric: Any,
        value: Any,
        rl_step: Any,
        evaluation: object,
        episode: Any,
        env_id: Any,
        labels: Any,
        timestamp: Any,
        dtype: object,
        env_step: Any = None,
        from_one: object = False,
    ) -> None:
        """Log one value an environment, or a row of them."""
        rl = (
            rl_step
            if rl_step.__class__ is int and 0 <= rl_step <= _values.STEP_MAX
            else _values.step("rl_step", rl_step)
        )
        many = env_id.__class__ is list or (env_id is not None and _values.is_sequence(env_id))
        envs = env_id if many else (env_id,)
        group = self._group(metric, envs, labels, evaluation, dtype, 1 if from_one else 0)
        if not group.kind:
            raise KymogramValidationError(
                f"some environments of {metric!r} hold int64 and some float64"
            )
        metric = group.series[0].metric
        narrow = self.base.narrows(dtype)
        plain = group.kind == FLOAT and value.__class__ in TYPES
        width = storable(value, narrow) if plain else 0
        if width:
            shape: _values.Shape = value.shape
            data: Buffer = memoryview(contiguous(value)).cast("B")
        else:
            learn(value)
            shape, width, data = _values.convert(metric, value, group.kind, narrow)
        rows = _grid(metric, shape, len(group.ids), many)
        if rows == 0:
            return
        if rl < group.rl_step:
            self._rl_fell(group, rl)
        numpy = self.table.numpy
        if numpy is not None and group.distinct and timestamp is None and env_step is None:
            grid = self._known_episodes(group, episode)
            if grid is None:
                grid = _episodes_numpy(numpy, episode, len(group.ids), rows)
            with self.writer.lock:
                if self._fast(numpy, group, rl, grid, (rows, width, data)):
                    return
        grid = _episodes(episode, len(group.ids), rows)
        times = _times(timestamp, len(group.ids), rows)
        steps = None if env_step is None else _env_steps(env_step, len(group.ids), rows)
        with self.writer.lock:
            self._slow(group, rl, grid, times, (rows, width, data), steps)

    def _known_episodes(self, group: Group, episode: Any) -> Any:
        """An int64 an environment, as it is; None where it has to be looked at."""
        many = len(group.ids)
        if episode.__class__ not in TYPES or many == 1:
            return None
        same = episode.dtype == self.table.int64 and episode.shape == (many,)
        return episode if same else None

    def _rl_fell(self, group: Group, rl: int) -> None:
        """Tell that rl_step decreased: kept, but seldom meant."""
        self.base.falls += 1
        metric = group.series[0].metric
        voice.warn(
            f"rl_step of {metric!r} went back from {group.rl_step} to {rl}; it must not decrease. "
            "The points are kept",
            once=f"rl fall {metric}",
        )

    def _fast(self, numpy: Any, group: Group, rl: int, episodes: Any, values: Values) -> bool:
        """All environments in one record; False when they count in different ways."""
        table, slots = self.table, group.slots
        if getattr(episodes, "ndim", 0) == 2:
            return self._changing(numpy, group, rl, episodes, values)
        packed = episodes.tobytes() if hasattr(episodes, "tobytes") else pack_i64(episodes)
        if group.changes != table.changes or packed != group.episodes:
            each = len(packed) > 8
            if each:
                _not_negative(episodes)
            changed = numpy.flatnonzero(table.episode[slots] != episodes)
            for place in changed.tolist():
                self._enter(group.series[place], int(episodes[place]) if each else episodes)
            relative = table.relative[slots]
            group.relative = bool(relative[0]) if (relative == relative[0]).all() else None
            group.changes, group.episodes = table.changes, packed
            has = each or episodes >= 0
            group.episode_column = _same(packed, len(group.ids)) if has else b""
        if group.relative is None:
            return False
        following = table.next[slots]
        steps = _same(following.tobytes(), len(group.ids))
        if group.straight:
            following += values[0]
        else:
            table.next[slots] = following + values[0]
        self._send(group, rl, steps, values)
        self._stamp += 1
        group.stamp, group.rl_step = self._stamp, rl
        return True

    def _send(self, group: Group, rl: int, steps: bytes, values: Values) -> None:
        rows, width, data = values
        ended = group.episode_column
        columns = b"".join((pack_i64(time_ns()), steps, pack_i64(rl), ended, steps))
        key = (rows, width, len(steps), len(ended), bool(group.relative))
        template = group.templates.get(key)
        if template is None:
            if len(group.templates) >= _TEMPLATES:
                group.templates.clear()
            template = Template(_first(group, key), len(columns) + len(data))
            group.templates[key] = template
        writer = self.writer
        if template.length <= PAYLOAD_LIMIT:
            if group.segment is writer.segment:
                try:
                    template.write(group.segment, columns, data)
                    return
                except ValueError:
                    pass
            payload = b"".join((template.first, columns, data))
            writer.append(group.series, payload, rows * len(group.ids))
        else:
            when, step_mode, episode_mode = Column(CONSTANT, columns[:8]), *_modes(key)
            step = Column(step_mode, steps)
            axes = [(STEP, step), (RL_STEP, constant(rl)), (ENV_STEP, step)]
            if ended:
                axes.insert(2, (EPISODE, Column(episode_mode, ended)))
            self._write(group, block(group.kind, rows, group.ids, when, axes, data, width))
        defined = writer.segment.defined
        if writer.hot and all(number in defined for number in group.ids):
            group.segment = writer.segment

    def _write(self, group: Group, records: list[tuple[list[int], bytes, int]]) -> None:
        for ids, payload, points in records:
            self.writer.append([group.known[number] for number in ids], payload, points)

    def _changing(self, numpy: Any, group: Group, rl: int, episodes: Any, values: Values) -> bool:
        """Episodes end within the rows: explicit steps."""
        table, slots, (rows, width, data) = self.table, group.slots, values
        changed = numpy.empty(episodes.shape, dtype=bool)
        changed[:, 0] = episodes[:, 0] != table.episode[slots]
        numpy.not_equal(episodes[:, 1:], episodes[:, :-1], out=changed[:, 1:])
        where, places = changed.nonzero()
        found = [self._start(group.series[i], int(episodes[i, j])) for i, j in zip(where, places)]
        relative = set(table.relative[slots].tolist()) | {kind for _, kind in found}
        if len(relative) > 1:
            return False
        column = numpy.arange(rows, dtype="<i8")
        offsets = numpy.repeat(table.next[slots][:, None], rows, axis=1)
        self._offsets(group, offsets, where.tolist(), places.tolist(), episodes, rows)
        steps = column + offsets
        axis = Column(EXPLICIT | EACH | (RELATIVE if relative.pop() else 0), steps.tobytes())
        ended = Column(EXPLICIT | EACH, episodes.tobytes())
        axes = [(STEP, axis), (RL_STEP, constant(rl)), (EPISODE, ended), (ENV_STEP, axis)]
        when = constant(time_ns())
        self._write(group, block(group.kind, rows, group.ids, when, axes, data, width))
        self._stamp += 1
        group.stamp, group.rl_step = self._stamp, rl
        return True

    def _start(self, one: EnvSeries, episode: int) -> tuple[int, int]:
        """Where an episode would start, without entering it."""
        known = one.past.get(episode)
        if known is None:
            start = self.base.starts.of_episode(one.key, None if episode < 0 else episode)
            known = (start or one.base, int(start is None))
        return known

    def _offsets(
        self,
        group: Group,
        offsets: Any,
        where: list[int],
        places: list[int],
        episodes: Any,
        rows: int,
    ) -> None:
        """Fill offsets so that step = place + offset, and move the counters to the rows' end."""
        table = self.table
        since = [0] * len(group.ids)
        for i, j in zip(where, places):
            one = group.series[i]
            table.next[one.slot] += j - since[i]
            self._enter(one, int(episodes[i, j]))
            offsets[i, j:] = int(table.next[one.slot]) - j
            since[i] = j
        for i, one in enumerate(group.series):
            table.next[one.slot] += rows - since[i]

    def _slow(
        self,
        group: Group,
        rl: int,
        episodes: list[list[int]],
        times: list[Column],
        numbers: Values,
        given: list[list[int]] | None = None,
    ) -> None:
        """Series after series, each cut where its episode changes."""
        table, (rows, width, data) = self.table, numbers
        self._stamp += 1
        group.rl_step = rl
        for place, one in enumerate(group.series):
            mine = episodes[place]
            values = data[width * rows * place : width * rows * (place + 1)]
            start = 0
            while start < rows:
                episode, stop = mine[start], start + 1
                while stop < rows and mine[stop] == episode:
                    stop += 1
                if table.episode[one.slot] != episode:
                    self._enter(one, episode)
                if given is None:
                    step = linear(int(table.next[one.slot]), bool(table.relative[one.slot]))
                    table.next[one.slot] += stop - start
                else:
                    step = explicit(given[place][start:stop])
                    table.next[one.slot], table.relative[one.slot] = given[place][stop - 1] + 1, 0
                    table.changes += 1
                axes = [(STEP, step), (RL_STEP, constant(rl))]
                if episode >= 0:
                    axes.append((EPISODE, constant(episode)))
                axes.append((ENV_STEP, step))
                when = times[place].rows(start, stop)
                part, ids = values[width * start : width * stop], [one.number]
                self._write(group, block(one.kind, stop - start, ids, when, axes, part, width))
                start = stop
            self._touched[one.env] = (self._stamp, rl, None if mine[-1] < 0 else mine[-1])

    # log_rl_episode

    def episode(
        self,
        metric: Any,
        value: Any,
        rl_step: Any,
        evaluation: object,
        episode: Any,
        env_id: Any,
        labels: Any,
        timestamp: Any,
        dtype: object,
    ) -> None:
        """Log a value an episode."""
        env = _names.environment(env_id)
        rl = _values.step("rl_step", rl_step)
        named = {**_names.labels(labels), "env_id": env}
        _, found = self.base.find(metric, "EPISODE", named, evaluation, dtype)
        shape, width, data = _values.convert(
            found.metric, value, found.kind, self.base.narrows(dtype)
        )
        if len(shape) > 1:
            raise KymogramValidationError(
                f"the value of {found.metric!r} has shape {shape}; log_rl_episode takes a number "
                "or one dimension"
            )
        rows = shape[0] if shape else 1
        when = _times(timestamp, 1, rows)[0]
        if _values.is_sequence(episode):
            given: Any = _values.steps("episode", episode, rows)
        else:
            given = None if episode is None else _values.step("episode", episode)
        if rows == 0:
            return
        with self.writer.lock:
            self.owned(env)
            axis = self.base._axis(found, rows, given)
            axes = [(STEP, axis), (RL_STEP, constant(rl))]
            if given is not None:
                axes.append((EPISODE, axis))
            ids = [found.number]
            for _, payload, points in block(found.kind, rows, ids, when, axes, data, width):
                self.writer.append((found,), payload, points)
            self._stamp += 1
            last = found.last if given is not None else self.last(env)[1]
            self._touched[env] = (self._stamp, rl, last)


def _same(column: bytes, count: int) -> bytes:
    """One number where all of a column are equal."""
    return column[:8] if column == column[:8] * count else column


def _modes(key: tuple[int, int, int, int, bool]) -> tuple[int, int]:
    """The modes of the columns of steps and episodes in a vectorised record."""
    rows, _, steps, episodes, relative = key
    step = LINEAR if rows > 1 else CONSTANT
    step |= (EACH if steps > 8 else 0) | (RELATIVE if relative else 0)
    return step, CONSTANT | (EACH if episodes > 8 else 0)


def _first(group: Group, key: tuple[int, int, int, int, bool]) -> bytes:
    """The first bytes of a vectorised record."""
    rows, width, _, episodes, _ = key
    step, episode = _modes(key)
    axes = [(STEP, step), (RL_STEP, CONSTANT), (ENV_STEP, step)]
    if episodes:
        axes.insert(2, (EPISODE, episode))
    return block_head(group.kind, width, rows, group.ids, CONSTANT, axes)


def _grid(metric: str, shape: tuple[int, ...], envs: int, many: bool) -> int:
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


def _episodes_numpy(numpy: Any, episode: Any, envs: int, rows: int) -> Any:
    """The episode: one integer, one an environment, or one a value where they change."""
    if episode is None:
        return NO_EPISODE
    if not _values.is_sequence(episode):
        return _values.step("episode", episode)
    if hasattr(episode, "detach") and hasattr(episode, "cpu"):
        episode = episode.detach().cpu()
    try:
        found = numpy.asarray(episode)
    except ValueError:
        raise KymogramValidationError("the rows of episode have unequal lengths") from None
    if found.dtype.kind not in "iu":
        found = numpy.array(
            [_values.step("episode", one) for one in found.reshape(-1).tolist()], dtype="<i8"
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
        _not_negative(found)  # one an environment: looked at where it changed
    return int(found[0]) if found.shape == (1,) else found


def _not_negative(episodes: Any) -> None:
    if int(episodes.min()) < 0:
        raise KymogramValidationError(f"episode is negative: {int(episodes.min())}")


def _episodes(episode: Any, envs: int, rows: int) -> list[list[int]]:
    """The episode of every value."""
    if episode is None:
        return [[NO_EPISODE] * rows] * envs
    if not _values.is_sequence(episode):
        return [[_values.step("episode", episode)] * rows] * envs
    found = list(_as_list(episode))
    if envs == 1 and len(found) == rows and not any(_values.is_sequence(one) for one in found):
        found = [found]
    if len(found) != envs:
        raise KymogramValidationError(
            f"episode has {len(found)} entries for {envs} environments with {rows} values each"
        )
    return [
        _values.steps("episode", one, rows)
        if _values.is_sequence(one)
        else [_values.step("episode", one)] * rows
        for one in found
    ]


def _env_steps(given: Any, envs: int, rows: int) -> list[list[int]]:
    """The step within the episode of every value; one number is that of the first."""
    if not _values.is_sequence(given):
        first = _values.step("env_step", given)
        return [list(range(first, first + rows))] * envs
    found = list(_as_list(given))
    nested = any(_values.is_sequence(one) for one in found)
    if envs == 1 and not nested:
        found, nested = [found], True
    if len(found) != envs or (rows > 1 and not nested):
        raise KymogramValidationError(
            f"env_step has {len(found)} entries for {envs} environments with {rows} values each"
        )
    return [
        _values.steps("env_step", one if _values.is_sequence(one) else [one], rows) for one in found
    ]


def _as_list(value: Any) -> Sequence[Any]:
    if hasattr(value, "detach") and hasattr(value, "cpu"):
        value = value.detach().cpu()
    found: Sequence[Any] = value.tolist() if hasattr(value, "tolist") else list(value)
    return found


def _times(timestamp: Any, envs: int, rows: int) -> list[Column]:
    """The time column of every environment."""
    if timestamp is None:
        return [constant(time_ns())] * envs
    if not _values.is_sequence(timestamp):
        return [constant(_values.time_ns(timestamp))] * envs
    found = list(_as_list(timestamp))
    if envs == 1 and len(found) == rows and not any(_values.is_sequence(one) for one in found):
        found = [found]
    if len(found) != envs:
        raise KymogramValidationError(
            f"timestamp has {len(found)} entries for {envs} environments with {rows} values each"
        )
    return [
        explicit(_values.times_ns(one, rows))
        if _values.is_sequence(one)
        else constant(_values.time_ns(one))
        for one in found
    ]


def of(found: Logger) -> RLLogger:
    """The RL calls of a logger, made at the first."""
    rl = found.rl
    if rl is None:
        with found.writer.lock:
            rl = found.rl = found.rl or RLLogger(found)
    return rl


def log_rl_episode(
    metric_name: str,
    value: Any,
    rl_step: int,
    evaluation: bool | None = False,
    episode: Any = None,
    env_id: str | None = None,
    labels: Mapping[str, str] | None = None,
    timestamp: Any = None,
    kill_timeout: float = 3.0,
    *,
    dtype: Any = None,
) -> None:
    """Log a value an episode; without `episode` the series goes on from its last."""
    of(logger()).episode(
        metric_name, value, rl_step, evaluation, episode, env_id, labels, timestamp, dtype
    )


def log_rl_environment_step(
    metric_name: str,
    value: Any,
    rl_step: int,
    evaluation: bool | None = False,
    episode: Any = None,
    env_id: Any = None,
    labels: Mapping[str, str] | None = None,
    timestamp: Any = None,
    kill_timeout: float = 3.0,
    *,
    env_step: Any = None,
    auto_start_from_one: bool = False,
    dtype: Any = None,
) -> None:
    """Log steps within an episode, of one environment or of many at once.

    One environment takes a number or an array of shape (T,); with M ids in
    `env_id` the value has shape (M,) or (M, T). `episode` and `timestamp` are
    one number, one an environment, (M,), or one a value, (M, T). The step
    within the episode is counted, over updates, from 0 (from 1 with
    `auto_start_from_one`, decided at a series' first call) until the episode
    changes; `env_step` gives it instead: that of the first value, or one a
    value. Each environment belongs to one process: a second one is warned.
    """
    of(logger()).environment_step(
        metric_name,
        value,
        rl_step,
        evaluation,
        episode,
        env_id,
        labels,
        timestamp,
        dtype,
        env_step,
        auto_start_from_one,
    )
