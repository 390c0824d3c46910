"""The RL calls of a writer.

An environment counts its steps within the episode. The counters of all series
lie side by side in one table, so a call for 64 environments moves 64 counters
in one NumPy operation; without NumPy the same goes one by one.
"""

from __future__ import annotations

from time import time_ns

from .._exceptions import KymogramValidationError
from .._input import naming, numeric
from .._points.arrays import Template, contiguous, storable
from .._points.columns import (
    env_steps,
    episodes_each,
    episodes_numpy,
    explicit,
    grid_rows,
    not_negative,
    rising,
    times_each,
)
from .._points.current import current
from .._points.tables import ARRAYS, learn
from .._say import voice
from .._spool import owners
from .._spool.records import (
    CONSTANT,
    EACH,
    ENV_STEP,
    EPISODE,
    EXPLICIT,
    FLOAT,
    PAYLOAD_LIMIT,
    RELATIVE,
    RL_STEP,
    STEP,
    Column,
    block,
    constant,
    linear,
    pack_i64,
)
from .group import EnvSeries, Group, Table, first_bytes, modes, one_if_same

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any

    from .._points.logger import Logger
    from .._points.series import Key, StepSeries
    from .._spool.records import Buffer

    Values = tuple[int, int, Buffer]  # rows, bytes of a number, the numbers

_TEMPLATES = 64  # shapes of a group's calls that are remembered
_GROUPS = 256  # sets of environments that are remembered: some calls are about another set each
_PAST = 16  # episodes of an environment that may be taken up again


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
            labels = naming.labels(labels)
        pairs = None if labels is None else tuple(labels.items())
        key = (metric, tuple(envs), pairs, bool(evaluation))
        try:
            found = self._groups.get(key)
        except TypeError:
            found = None
        if found is None:
            found = self._make_group(metric, envs, labels, evaluation, dtype, base)
            with self.writer.lock:  # another thread may go through the table
                if len(self._groups) >= _GROUPS:
                    self._forget_group(next(iter(self._groups)))
                self._groups[key] = found
        if alike:
            with self.writer.lock:
                self._last[metric] = (list(envs), evaluation, found)
        return found

    def _forget_group(self, key: Any) -> None:
        """Keep of a set of environments only where each stands."""
        group = self._groups.pop(key)
        self._last = {metric: one for metric, one in self._last.items() if one[2] is not group}
        for one in group.series:
            touched = self._touched.get(one.env)
            if group.stamp > (0 if touched is None else touched[0]):
                episode = int(self.table.episode[one.slot])
                last = None if episode < 0 else episode
                self._touched[one.env] = (group.stamp, group.rl_step, last)

    def _make_group(
        self, metric: object, envs: Any, labels: Any, evaluation: object, dtype: object, base: int
    ) -> Group:
        name = naming.metric(metric)
        names = [naming.environment(one) for one in envs]
        if not names:
            raise KymogramValidationError("env_id is an empty list")
        plain = naming.labels(labels, evaluation)
        with self.writer.lock:
            self.owned(names)
            found = [self._find(name, one, plain, dtype, base) for one in names]
            return Group(found, self.table.numpy)

    def owned(self, envs: Sequence[str]) -> None:
        """Look, at an environment's first call, whether another process logs it too."""
        new = [env for env in envs if env not in self._owned]
        if not new:
            return
        self._owned.update(new)
        by: dict[int, list[str]] = {}
        for env, owner in self.writer.claim(new).items():
            by.setdefault(owner, []).append(env)
        for owner, taken in by.items():
            self.shared.update(taken)
            if current.run is not None:
                current.run.trouble(owners.told(taken[0], len(taken) - 1, f"process {owner}"))

    def _find(
        self, metric: str, env: str, labels: dict[str, str], dtype: object, base: int
    ) -> EnvSeries:
        pairs = tuple(sorted({**labels, "env_id": env}.items()))
        key = (metric, "ENVIRONMENT_STEP", pairs)
        found = self._env_series.get(key)
        if found is None:
            kind = numeric.kind_of(dtype) or self.base.kind
            start = self.base.starts.of_episode(key, None)
            slot = self.table.add(start)
            if not start:
                self.table.next[slot] = base
            found = EnvSeries(self.base.number(), kind, key, env, slot, base)
            found.first = int(self.table.next[slot])
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
            if rl_step.__class__ is int and 0 <= rl_step <= numeric.STEP_MAX
            else numeric.step("rl_step", rl_step)
        )
        many = env_id.__class__ is list or (env_id is not None and numeric.is_sequence(env_id))
        envs = env_id if many else (env_id,)
        group = self._group(metric, envs, labels, evaluation, dtype, 1 if from_one else 0)
        try:
            if not group.kind:
                raise KymogramValidationError(
                    f"some environments of {metric!r} hold int64 and some float64"
                )
            metric = group.series[0].metric
            if dtype is not None:
                numeric.fits(metric, group.kind, dtype)
            narrow = self.base.narrows(dtype)
            plain = group.kind == FLOAT and value.__class__ in ARRAYS
            width = storable(value, narrow) if plain else 0
            if width:
                shape: numeric.Shape = value.shape
                data: Buffer = memoryview(contiguous(value, width)).cast("B")
            else:
                learn(value)
                shape, width, data = numeric.convert(metric, value, group.kind, narrow)
            rows = grid_rows(metric, shape, len(group.ids), many)
            if rows == 0:
                return
            if rl < group.rl_step:
                self._rl_fell(group, rl)
            numpy = self.table.numpy
            if numpy is not None and group.distinct and timestamp is None and env_step is None:
                grid = self._known_episodes(group, episode)
                if grid is None:
                    grid = episodes_numpy(numpy, episode, len(group.ids), rows)
                with self.writer.lock:
                    if self._fast(numpy, group, rl, grid, (rows, width, data)):
                        return
            grid = episodes_each(episode, len(group.ids), rows)
            times = times_each(timestamp, len(group.ids), rows)
            steps = None if env_step is None else env_steps(env_step, len(group.ids), rows)
            with self.writer.lock:
                self._slow(group, rl, grid, times, (rows, width, data), steps)
        except BaseException:
            self._forget(group)
            raise

    def _forget(self, group: Group) -> None:
        """Leave nothing of a first call that failed: its kind is not the series' yet."""
        with self.writer.lock:
            table = self.table
            fresh = [
                one
                for one in group.series
                if not one.past and int(table.next[one.slot]) == one.first
            ]
            if not fresh:
                return
            for one in fresh:
                self._env_series.pop(one.key, None)
            gone = {one.number for one in fresh}
            self._groups = {
                key: one for key, one in self._groups.items() if gone.isdisjoint(one.ids)
            }
            self._last = {
                key: one for key, one in self._last.items() if gone.isdisjoint(one[2].ids)
            }

    def _known_episodes(self, group: Group, episode: Any) -> Any:
        """An int64 an environment, as it is; None where it has to be looked at."""
        many = len(group.ids)
        if episode.__class__ not in ARRAYS or many == 1:
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
                not_negative(episodes)
            changed = numpy.flatnonzero(table.episode[slots] != episodes)
            for place in changed.tolist():
                self._enter(group.series[place], int(episodes[place]) if each else episodes)
            relative = table.relative[slots]
            group.relative = bool(relative[0]) if (relative == relative[0]).all() else None
            group.changes, group.episodes = table.changes, packed
            has = each or episodes >= 0
            group.episode_column = one_if_same(packed, len(group.ids)) if has else b""
        if group.relative is None:
            return False
        following = table.next[slots]
        steps = one_if_same(following.tobytes(), len(group.ids))
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
            template = Template(first_bytes(group, key), len(columns) + len(data), width)
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
            when, step_mode, episode_mode = Column(CONSTANT, columns[:8]), *modes(key)
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
        env = naming.environment(env_id)
        rl = numeric.step("rl_step", rl_step)
        named = {**naming.labels(labels), "env_id": env}
        try:
            _, found = self.base.find(metric, "EPISODE", named, evaluation, dtype)
            self.base.check(found, dtype, False)
            self._episode(found, env, value, rl, episode, timestamp, dtype)
        except BaseException:
            self.base.forget((metric,), "EPISODE", named, evaluation)
            raise

    def _episode(
        self,
        found: StepSeries,
        env: str,
        value: Any,
        rl: int,
        episode: Any,
        timestamp: Any,
        dtype: object,
    ) -> None:
        shape, width, data = numeric.convert(
            found.metric, value, found.kind, self.base.narrows(dtype)
        )
        if len(shape) > 1:
            raise KymogramValidationError(
                f"the value of {found.metric!r} has shape {shape}; log_rl_episode takes a number "
                "or one dimension"
            )
        rows = shape[0] if shape else 1
        when = times_each(timestamp, 1, rows)[0]
        if numeric.is_sequence(episode):
            given: Any = numeric.steps("episode", episode, rows)
        else:
            given = None if episode is None else rising("episode", episode, rows)
        if rows == 0:
            return
        with self.writer.lock:
            self.owned((env,))
            axis = self.base.axis(found, rows, given)
            axes = [(STEP, axis), (RL_STEP, constant(rl))]
            if given is not None:
                axes.append((EPISODE, axis))
            ids = [found.number]
            for _, payload, points in block(found.kind, rows, ids, when, axes, data, width):
                self.writer.append((found,), payload, points)
            self._stamp += 1
            last = found.last if given is not None else self.last(env)[1]
            self._touched[env] = (self._stamp, rl, last)
