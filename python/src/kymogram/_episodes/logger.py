"""The RL calls of a writer.

An environment counts its steps within the episode. The counters of all series
lie side by side in one table, so a call for 64 environments moves 64 counters
in one operation and is one record. Where that cannot be (an environment that
comes twice in a call, series that count in different ways) `_slow` goes from
series to series.
"""

from __future__ import annotations

import sys
from operator import index
from time import time_ns

from .._exceptions import KymogramValidationError
from .._input import naming, numeric
from .._points.arrays import Template, contiguous, storable
from .._points.columns import (
    env_steps,
    episodes_each,
    episodes_numpy,
    episodes_plain,
    given_steps,
    grid_rows,
    not_negative,
    one_or_each,
    times_grid,
)
from .._points.current import current
from .._points.logger import alias_of
from .._points.tables import ARRAYS, PLAIN, learn
from .._say import voice
from .._spool import owners
from .._spool.records import (
    CONSTANT,
    EACH,
    ENV_STEP,
    EPISODE,
    EXPLICIT,
    FLOAT,
    LINEAR,
    PAYLOAD_LIMIT,
    RELATIVE,
    RISING,
    RL_STEP,
    STEP,
    WIDE,
    Column,
    block,
    block_start,
    constant,
    int64s,
    linear,
    numbers,
    pack_counted_episode,
    pack_given_episode,
    pack_i64,
    stretches,
)
from .group import EnvSeries, Family, Group, Table, dedupe, little

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any

    from .._points.logger import Logger
    from .._points.series import StepSeries
    from .._spool.records import Buffer

    Values = tuple[int, int, Buffer]  # rows, bytes of a number, the numbers
    Names = tuple[Any, str, dict[str, str], list[str]]  # alias, metric, labels, environments

_TEMPLATES = 64  # shapes of calls that are remembered
_ONES = 1024  # environments that are remembered of calls with one
_PAST = 16  # episodes of an environment that may be taken up again
_AXES = [(STEP, CONSTANT), (RL_STEP, CONSTANT)]
_GIVEN = block_start(FLOAT, WIDE, 1, 1, CONSTANT, [*_AXES, (EPISODE, CONSTANT)])
_COUNTED = block_start(FLOAT, WIDE, 1, 1, CONSTANT, _AXES)
_RELATIVE = block_start(FLOAT, WIDE, 1, 1, CONSTANT, [(STEP, RELATIVE), _AXES[1]])


class RLLogger:
    """The RL calls of one writer."""

    def __init__(self, base: Logger) -> None:
        self.base = base
        self.writer = base.writer
        self.table = Table()
        self._relative = int(not base.starts.complete)  # how series count that nobody knows
        self._families: dict[Any, Family] = {}  # by what calls say, and by metric and labels
        self._last: dict[str, Group] = {}  # of the last call, by metric
        self._episodes: dict[Any, tuple[StepSeries, str]] = {}  # of log_rl_episode
        self._ones: dict[Any, Group] = {}  # of one environment
        self._heads: dict[Any, bytes] = {}  # what blocks of one shape begin with
        self._touched: dict[str, tuple[int, int, int | None]] = {}  # by log_rl_episode
        self._owned: set[str] = set()
        self.shared: set[str] = set()  # environments that another process logs too
        self._stamp = 0

    # environments

    def last(self, env: str) -> tuple[int | None, int | None]:
        """The last (rl_step, episode) of an environment."""
        table = self.table
        best: tuple[int, int | None, int | None] = (
            0,
            *self.base.starts.environments.get(env, (None, None)),
        )
        with self.writer.lock:
            touched = self._touched.get(env)
            if touched is not None:
                best = touched
            for family in self._families.values():
                slot = family.slots.get(env)
                if slot is not None and table.stamp[slot] > best[0]:
                    episode = int(table.episode[slot])
                    last = None if episode < 0 else episode
                    best = int(table.stamp[slot]), int(table.rl_step[slot]), last
        return best[1], best[2]

    def _known(self, metric: Any, envs: Any, labels: Any, evaluation: object) -> Group | None:
        """The environments of a call; None where some are new."""
        if envs.__class__ is tuple and labels is None:
            return self._known_one(metric, envs, evaluation)
        plain = labels is None and envs.__class__ is list and metric.__class__ is str
        if plain:
            last = self._last.get(metric)
            if last is not None and envs == last.envs and evaluation is last.evaluation:
                return last
        try:
            family = self._families[alias_of(metric, None, labels, evaluation)]
            found = Group(self.table, family, envs) if envs else None
        except (KeyError, TypeError):
            return None
        if plain and found is not None:
            found.envs, found.evaluation = list(envs), evaluation
            self._last[metric] = found
        return found

    def _known_one(self, metric: Any, envs: tuple[Any], evaluation: object) -> Group | None:
        """One environment, of which a program may log many in turn."""
        key = metric, envs[0], bool(evaluation)
        try:
            found = self._ones.get(key)
            if found is None:
                family = self._families[alias_of(metric, None, None, evaluation)]
                found = Group(self.table, family, envs)
                if len(self._ones) >= _ONES:
                    self._ones.clear()
                self._ones[key] = found
        except (KeyError, TypeError):
            return None
        return found

    def _names(self, metric: object, envs: Any, labels: Any, evaluation: object) -> Names:
        """The names of a call, checked."""
        name, plain = naming.metric(metric), naming.labels(labels, evaluation)
        plain.pop("env_id", None)
        names = [naming.environment(one) for one in envs]
        if not names:
            raise KymogramValidationError("env_id is an empty list")
        return alias_of(metric, None, labels, evaluation), name, plain, names

    def _kind_of_new(self, new: Names, dtype: object) -> int:
        """The kind that the series of a call have, or will have; 0 where they differ."""
        _, metric, labels, names = new
        family = self._families.get((metric, tuple(labels.items())))
        known = {} if family is None else family.slots
        kinds = {self.table.series[known[name]].kind for name in names if name in known}
        if any(name not in known for name in names):
            kinds.add(numeric.kind_of(dtype) or self.base.kind)
        return kinds.pop() if len(kinds) == 1 else 0

    def _define(self, new: Names, envs: Sequence[Any], kind: int, base: int) -> Group:
        """The environments of a call of which some are new."""
        alias, metric, labels, names = new
        self.owned(names)
        key = metric, tuple(labels.items())
        family = self._families.get(key)
        if family is None:
            family = self._families[key] = Family(metric, labels)
        self._families[alias] = family
        fresh = dedupe(names, family.slots)
        if fresh:
            self._add(family, fresh, kind, base)
        for given, name in zip(envs, names):
            if given is None:
                family.slots[None] = family.slots[name]
            elif not isinstance(given, str):
                family.slots[index(given)] = family.slots[name]  # NumPy's integers are found, too
        return Group(self.table, family, names)

    def _add(self, family: Family, names: list[str], kind: int, base: int) -> None:
        starts, number, first = self.base.starts, self.base.number, len(self.table.series)
        found = [
            EnvSeries(number(), kind, family, env, slot, base)
            for slot, env in enumerate(names, first)
        ]
        default = 0 if starts.complete else None
        begins: list[int | None] = [default] * len(names)
        if starts.any:
            for place, one in enumerate(found):
                key = family.key(one.env)
                one.told = starts.tells(key)
                begins[place] = starts.of_episode(key, None) if one.told else default
        relatives = [int(one is None) for one in begins]
        self.table.add(found, [one or base for one in begins], relatives)
        family.slots.update(zip(names, range(first, first + len(names))))
        family.kinds.add(kind)
        family.mixed = family.mixed or relatives.count(self._relative) < len(relatives)

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

    def _enter(self, slot: int, episode: int) -> None:
        """The environment goes on in this episode."""
        table = self.table
        one = table.series[slot]
        if one.past is None:
            one.past = {}
        left = int(table.next[slot]), int(table.relative[slot])
        table.next[slot], table.relative[slot] = self._turn(
            one, one.past, int(table.episode[slot]), left, episode
        )
        table.episode[slot] = episode
        table.changes += 1

    def _turn(
        self,
        one: EnvSeries,
        past: dict[int, tuple[int, int]],
        old: int,
        left: tuple[int, int],
        episode: int,
    ) -> tuple[int, int]:
        """From an episode, left at this step, to another: where that goes on, and how."""
        past[old] = left
        if len(past) > _PAST:
            del past[next(iter(past))]
        known = past.pop(episode, None)
        if known is not None:
            return known
        if not one.told:
            return one.base, self._relative
        start = self._start(one, episode)
        relative = int(start is None)
        if relative != self._relative:
            one.family.mixed = True
        return start or one.base, relative

    def _start(self, one: EnvSeries, episode: int) -> int | None:
        """Where the server says that an episode goes on."""
        key = one.family.key(one.env)
        return self.base.starts.of_episode(key, None if episode < 0 else episode)

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
        envs = (env_id,) if not many else env_id if env_id.__class__ is list else list(env_id)
        if labels is not None and not hasattr(labels, "items"):
            labels = naming.labels(labels)
        group = self._known(metric, envs, labels, evaluation)
        if group is not None:
            kind, name, count = group.kind, group.family.metric, group.count
        else:
            new = self._names(metric, envs, labels, evaluation)
            kind, name, count = self._kind_of_new(new, dtype), new[1], len(new[3])
        if not kind:
            raise KymogramValidationError(
                f"some environments of {name!r} hold int64 and some float64"
            )
        if dtype is not None:
            numeric.fits(name, kind, dtype)
        narrow = self.base.narrows(dtype)
        plain = kind == FLOAT and value.__class__ in ARRAYS
        width = storable(value, narrow) if plain else 0
        if width:
            shape: numeric.Shape = value.shape
            data: Buffer = contiguous(value, width)
        else:
            learn(value)
            shape, width, data = numeric.convert(name, value, kind, narrow)
        rows = grid_rows(name, shape, count, many)
        if rows == 0:
            return
        numpy = self.table.numpy or self._with_numpy()
        if numpy is None:
            episodes = episodes_plain(episode, count)
        else:
            episodes = self._int64s(episode, count)
            if episodes is None:
                episodes = episodes_numpy(numpy, episode, count, rows)
        grid = episodes_each(episode, count, rows) if episodes is None else None
        when = times_grid(timestamp, count, rows)
        steps = None if env_step is None else env_steps(env_step, count, rows)
        if group is None and hasattr(episodes, "ndim"):
            not_negative(episodes)  # before anything is left of the call
        values = rows, width, data
        with self.writer.lock:
            if group is None:
                group = self._define(new, envs, kind, 1 if from_one else 0)
                if group.kind != kind:
                    raise KymogramValidationError(f"{name!r} holds another kind meanwhile")
            if rl < group.family.rl_step:
                self._rl_fell(group, rl)
            else:
                group.family.rl_step = rl
            if grid is not None or not self._fast(group, rl, episodes, when, steps, values):
                if grid is None:
                    grid = episodes_each(episode, count, rows)
                self._slow(group, rl, grid, when, steps, values)
            self._stamp += 1
            self.table.put(self.table.stamp, group.slots, self._stamp)
            self.table.put(self.table.rl_step, group.slots, rl)

    def _with_numpy(self) -> Any:
        """NumPy, from the first call on that finds it imported."""
        numpy = sys.modules.get("numpy")
        if numpy is not None:
            with self.writer.lock:
                self.table.use(numpy)
                self._last.clear()
                self._ones.clear()
        return numpy

    def _int64s(self, episode: Any, count: int) -> Any:
        """An int64 an environment, as it is; None where it has to be looked at."""
        if episode.__class__ not in ARRAYS or count == 1 or episode.shape != (count,):
            return None
        return episode if episode.dtype == self.table.int64 else None

    def _rl_fell(self, group: Group, rl: int) -> None:
        """Tell that rl_step decreased: kept, but seldom meant."""
        table = self.table
        before = max(table.gather(table.rl_step, group.slots).tolist())
        if rl >= before:
            return  # it is another environment's that is higher
        self.base.falls += 1
        metric = group.family.metric
        voice.warn(
            f"rl_step of {metric!r} went back from {before} to {rl}; it must not decrease. "
            "The points are kept",
            once=f"rl fall {metric}",
        )

    def _fast(
        self,
        group: Group,
        rl: int,
        episodes: Any,
        when: Column,
        given: Column | None,
        values: Values,
    ) -> bool:
        """All environments in one record; False when they count in different ways."""
        table, slots, rows = self.table, group.slots, values[0]
        if not group.distinct:
            return False
        if getattr(episodes, "ndim", 0) == 2:
            return self._changing(group, rl, episodes, when, given, values)
        each = episodes.__class__ is not int
        packed = little(episodes) if each else pack_i64(episodes)
        if group.changes != table.changes or packed != group.episodes:
            changed = table.changed(slots, episodes, packed)
            if changed and each and table.numpy is not None:
                not_negative(episodes)
            for place in changed:
                self._enter(group.places[place], int(episodes[place]) if each else episodes)
            group.relative = table.counts_relative(slots)
            group.changes, group.episodes = table.changes, packed
            if each:
                group.ended = one_or_each(packed, group.count)
            else:
                group.ended = constant(episodes) if episodes >= 0 else None
        if given is not None:
            self._follow(group, given, rows)
            step = given
        elif group.relative is None:
            return False
        else:
            mode = (LINEAR if rows > 1 else CONSTANT) | (RELATIVE if group.relative else 0)
            step = one_or_each(table.advance(slots, rows), group.count, mode)
        self._send(group, rl, when, step, group.ended, values)
        return True

    def _follow(self, group: Group, given: Column, rows: int) -> None:
        """Steps were given: the environments go on from the last."""
        table = self.table
        if given.mode == LINEAR:
            following: Any = int64s(given.data)[0] + rows
        elif table.numpy is not None:
            following = table.numpy.frombuffer(given.data, table.int64)[rows - 1 :: rows] + 1
        else:
            following = [one + 1 for one in int64s(given.data)[rows - 1 :: rows]]
        table.put(table.next, group.slots, following)
        table.put(table.relative, group.slots, 0)
        table.changes += 1
        if self._relative:
            group.family.mixed = True

    def _send(
        self,
        group: Group,
        rl: int,
        when: Column,
        step: Column,
        ended: Column | None,
        values: Values,
    ) -> None:
        """Write a call as one record, or as several where it is large."""
        rows, width, data = values
        key = rows, width, when.mode, step.mode, -1 if ended is None else ended.mode
        episode = b"" if ended is None else ended.data
        columns = when.data, step.data, pack_i64(rl), episode, step.data
        shape = *key, len(step.data)
        template = group.templates.get(shape)
        if template is None:
            if len(group.templates) >= _TEMPLATES:
                group.templates.clear()
            first = self._head(key, group) + numbers(little(group.ids))
            template = Template(first, sum(map(len, columns)) + len(data), width)
            group.templates[shape] = template
        writer = self.writer
        if template.length > PAYLOAD_LIMIT:
            axes = [(STEP, step), (RL_STEP, constant(rl)), (ENV_STEP, step)]
            if ended is not None:
                axes.insert(2, (EPISODE, ended))
            ids = group.ids.tolist()
            self._write(group, block(group.kind, rows, ids, when, axes, data, width))
            return
        segment = writer.segment
        if (
            group.segment is not segment
            and writer.hot
            and segment.defined.issuperset(group.ids.tolist())
        ):
            group.segment = segment
        if group.segment is segment:
            try:
                template.write(writer, segment, *columns, data)
                return
            except ValueError:
                pass
        payload = b"".join((template.first, *columns, data))
        writer.append(group.series(self.table), payload, rows * group.count)

    def _head(self, key: tuple[int, ...], group: Group) -> bytes:
        """What a block of this shape begins with, up to the numbers of its series."""
        whole = group.kind, group.count, *key
        found = self._heads.get(whole)
        if found is None:
            rows, width, when, step, ended = key
            axes = [(STEP, step), (RL_STEP, CONSTANT), (ENV_STEP, step)]
            if ended >= 0:
                axes.insert(2, (EPISODE, ended))
            found = block_start(group.kind, width, rows, group.count, when, axes)
            if len(self._heads) >= _TEMPLATES:
                self._heads.clear()
            self._heads[whole] = found
        return found

    def _write(self, group: Group, records: list[tuple[list[int], bytes, int]]) -> None:
        known = {one.number: one for one in group.series(self.table)}
        for ids, payload, points in records:
            self.writer.append([known[number] for number in ids], payload, points)

    def _changing(
        self,
        group: Group,
        rl: int,
        episodes: Any,
        when: Column,
        given: Column | None,
        values: Values,
    ) -> bool:
        """An episode a value: it may end within the rows."""
        table, slots, rows, numpy = self.table, group.slots, values[0], self.table.numpy
        # The stretches of equal episodes: one begins with every row, others where it changes.
        begins = numpy.empty(episodes.shape, dtype=bool)
        begins[:, 0] = True
        numpy.not_equal(episodes[:, 1:], episodes[:, :-1], out=begins[:, 1:])
        heads = begins.reshape(-1).nonzero()[0]
        firsts = episodes.reshape(-1)[heads]
        not_negative(firsts)
        if len(heads) == group.count:  # it ends nowhere
            return self._fast(group, rl, firsts, when, given, values)
        if group.family.mixed or given is not None:
            return False
        entered = firsts.tolist()
        places = heads // rows
        if self.base.starts.any:
            for place, episode in zip(places.tolist(), entered):
                one = table.series[group.places[place]]
                if one.told and int(self._start(one, episode) is None) != self._relative:
                    return False
        following = table.next[slots].tolist()
        now = table.episode[slots].tolist()
        since = [0] * group.count  # where the stretch began that an environment is in
        steps: list[int] = []  # of a stretch: its first
        for place, at, episode in zip(places.tolist(), (heads - places * rows).tolist(), entered):
            if episode != now[place]:
                one = table.series[group.places[place]]
                if one.past is None:
                    one.past = {}
                left = following[place] + at - since[place], self._relative
                following[place], _ = self._turn(one, one.past, now[place], left, episode)
                now[place], since[place] = episode, at
            steps.append(following[place])
        table.episode[slots] = now
        table.next[slots] = [one + rows - at for one, at in zip(following, since)]
        table.changes += 1
        lengths = numpy.empty(len(heads), dtype="<u4")
        lengths[:-1] = heads[1:] - heads[:-1]
        lengths[-1] = episodes.size - heads[-1]
        relative = RELATIVE if self._relative else 0
        first = numpy.array(steps, dtype="<i8")
        size = len(when.data) + len(values[2]) + 36 * len(heads) + 4 * group.count
        if size < PAYLOAD_LIMIT - 4096:
            step = stretches(first.tobytes(), lengths.tobytes(), RISING | relative)
            ended = stretches(firsts.tobytes(), lengths.tobytes())
        else:  # several records: a number a value
            every = numpy.repeat(first - (heads - places * rows), lengths).reshape(episodes.shape)
            every += numpy.arange(rows)
            step = Column(EXPLICIT | EACH | relative, memoryview(every).cast("B"))
            ended = Column(EXPLICIT | EACH, memoryview(episodes).cast("B"))
        self._send(group, rl, when, step, ended, values)
        return True

    def _slow(
        self,
        group: Group,
        rl: int,
        episodes: Sequence[Any],
        times: Column,
        given: Column | None,
        values: Values,
    ) -> None:
        """Series after series, each cut where its episode changes."""
        table, (rows, width, data) = self.table, values
        known = group.series(table)
        for place, one in enumerate(known):
            mine, slot = episodes[place], one.slot
            numbers = data[width * rows * place : width * rows * (place + 1)]
            when = times.series(place, rows)
            steps = None if given is None else given.series(place, rows)
            start = 0
            while start < rows:
                episode, stop = mine[start], start + 1
                while stop < rows and mine[stop] == episode:
                    stop += 1
                if table.episode[slot] != episode:
                    self._enter(slot, episode)
                if steps is None:
                    step = linear(int(table.next[slot]), bool(table.relative[slot]))
                    table.next[slot] += stop - start
                else:
                    step = steps.rows(start, stop)
                    last = int64s(step.data)[-1] + (stop - start - 1 if step.mode == LINEAR else 0)
                    table.next[slot], table.relative[slot] = last + 1, 0
                    table.changes += 1
                    if self._relative:
                        one.family.mixed = True
                axes = [(STEP, step), (RL_STEP, constant(rl))]
                if episode >= 0:
                    axes.append((EPISODE, constant(episode)))
                axes.append((ENV_STEP, step))
                part, ids = numbers[width * start : width * stop], [one.number]
                for _, payload, points in block(
                    one.kind, stop - start, ids, when.rows(start, stop), axes, part, width
                ):
                    self.writer.append((one,), payload, points)
                start = stop

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
        if (
            labels is None
            and dtype is None
            and timestamp is None
            and (value.__class__ in PLAIN or value.__class__ is int)
            and self._episode_again((metric, env_id, bool(evaluation)), value, rl_step, episode)
        ):
            return
        env = naming.environment(env_id)
        rl = numeric.step("rl_step", rl_step)
        named = {**naming.labels(labels), "env_id": env}
        try:
            _, found = self.base.find(metric, "EPISODE", named, evaluation, dtype)
            self.base.check(found, dtype, False)
            self._episode(found, env, value, rl, episode, timestamp, dtype)
            if labels is None and (env_id is None or env_id.__class__ is str):
                self._episodes[metric, env_id, bool(evaluation)] = found, env
        except BaseException:
            self.base.forget((metric,), "EPISODE", named, evaluation)
            raise

    def _episode_again(self, key: Any, value: Any, rl: Any, episode: Any) -> bool:
        """A number of a series that is known; False where the slow path has to look."""
        try:
            found, env = self._episodes[key]
        except (KeyError, TypeError):
            return False
        given = episode is not None
        plain = rl.__class__ is int and 0 <= rl <= numeric.STEP_MAX and found.kind == FLOAT
        if given:
            plain = plain and episode.__class__ is int and 0 <= episode <= numeric.STEP_MAX
        if value.__class__ is int:
            plain = plain and -numeric.EXACT <= value <= numeric.EXACT
        if not plain:
            return False
        writer = self.writer
        with writer.lock:
            if given:
                last, axes = episode, _GIVEN
                if not found.follow(episode, episode):
                    self.base.fell(found, episode)
                tail = pack_given_episode(found.number, time_ns(), episode, rl, episode, value)
            else:
                step, last = found.take(1), self.last(env)[1]
                axes = _COUNTED if found.absolute else _RELATIVE
                tail = pack_counted_episode(found.number, time_ns(), step, rl, value)
            payload = axes + tail
            writer.append((found,), payload, 1)
            self._stamp += 1
            self._touched[env] = self._stamp, rl, last
        return True

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
        when = times_grid(timestamp, 1, rows)
        given = given_steps(episode, rows, "episode")
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
