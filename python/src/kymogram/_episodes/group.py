"""The environments of a metric, those of a call, and the counters of their steps."""

from __future__ import annotations

import sys
from array import array

from .._points.columns import NO_EPISODE
from .._points.series import key_json
from .._spool.records import quoted, record, series
from .._spool.ring import Series

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from typing import Any

    from .._points.arrays import Template
    from .._points.series import Key
    from .._spool.records import Column
    from .._spool.segment import Segment

_MARK = "\0"  # no label has it
SCALE = "ENVIRONMENT_STEP"
_COLUMNS = {  # of the table: Python's letter and NumPy's
    "episode": ("q", "<i8"),
    "next": ("q", "<i8"),
    "relative": ("b", "i1"),
    "number": ("I", "<u4"),
    "stamp": ("q", "<i8"),
    "rl_step": ("q", "<i8"),
}


class Table:
    """Where every environment series stands, by its slot.

    `stamp` and `rl_step` are of its last call. The columns are NumPy's from the
    first call on that finds it imported, and Python's arrays until then.
    """

    def __init__(self) -> None:
        self.numpy: Any = None
        self.int64: Any = None
        self.changes = 0
        self.series: list[EnvSeries] = []
        self.episode: Any = array("q")
        self.next: Any = array("q")
        self.relative: Any = array("b")
        self.number: Any = array("I")
        self.stamp: Any = array("q")
        self.rl_step: Any = array("q")

    def use(self, numpy: Any) -> None:
        """Go over to NumPy."""
        for name, (_, kind) in _COLUMNS.items():
            setattr(self, name, numpy.array(getattr(self, name), dtype=kind))
        self.numpy, self.int64 = numpy, numpy.dtype("<i8")

    def add(self, found: list[EnvSeries], nexts: list[int], relatives: list[int]) -> None:
        """Slots for new series."""
        size, more = len(self.series), len(found)
        if size + more > len(self.next):
            self._grow(max(64, size, size + more - len(self.next)))
        where = slice(size, size + more)
        self.series += found
        new = {
            "episode": [NO_EPISODE] * more,
            "next": nexts,
            "relative": relatives,
            "number": [one.number for one in found],
        }
        for name, values in new.items():
            column = getattr(self, name)
            column[where] = values if self.numpy else array(column.typecode, values)

    def _grow(self, more: int) -> None:
        for name, (letter, kind) in _COLUMNS.items():
            old = getattr(self, name)
            if self.numpy is None:
                old.frombytes(bytes(more * array(letter).itemsize))
            else:
                longer = self.numpy.zeros(len(old) + more, dtype=kind)
                longer[: len(old)] = old
                setattr(self, name, longer)

    def gather(self, column: Any, slots: Any) -> Any:
        """A column's numbers of some slots."""
        if self.numpy is not None or slots.__class__ is slice:
            return column[slots]
        return array(column.typecode, map(column.__getitem__, slots))

    def put(self, column: Any, slots: Any, values: Any) -> None:
        """Set a column's numbers: to one, or to as many as there are slots."""
        if self.numpy is not None:
            column[slots] = values
            return
        some = range(slots.start, slots.stop) if slots.__class__ is slice else slots
        if values.__class__ is int:
            values = [values] * len(some)
        for slot, value in zip(some, values):
            column[slot] = value

    def changed(self, slots: Any, episodes: Any, packed: bytes) -> list[int]:
        """At which places the episode is another one; `packed` are its bytes."""
        known = self.gather(self.episode, slots)
        if known.tobytes() == packed:
            return []
        if self.numpy is not None:
            found: list[int] = self.numpy.flatnonzero(known != episodes).tolist()
            return found
        if episodes.__class__ is int:
            episodes = [episodes] * len(known)
        return [place for place, (old, new) in enumerate(zip(known, episodes)) if old != new]

    def counts_relative(self, slots: Any) -> bool | None:
        """Whether the steps are relative; None where some are."""
        found = self.gather(self.relative, slots).tobytes()
        return found[0] == 1 if found == found[:1] * len(found) else None

    def advance(self, slots: Any, rows: int) -> bytes:
        """Move the next steps on; where they stood."""
        following = self.gather(self.next, slots)
        data: bytes = little(following)
        if self.numpy is None:
            self.put(self.next, slots, [one + rows for one in following])
        elif slots.__class__ is slice:
            following += rows  # a view
        else:
            self.next[slots] = following + rows
        return data


def little(column: Any) -> bytes:
    """The bytes of a column in the order of the spool."""
    if column.__class__ is array and sys.byteorder == "big":
        column = column[:]
        column.byteswap()
    data: bytes = column.tobytes()
    return data


class Family:
    """The series of a metric and its labels, one an environment."""

    __slots__ = ("kinds", "labels", "metric", "mixed", "rl_step", "slots", "text")

    def __init__(self, metric: str, labels: dict[str, str]) -> None:
        self.metric = metric
        self.labels = labels
        self.slots: dict[Any, int] = {}  # by the environment's name, and as callers give it
        self.kinds: set[int] = set()
        self.mixed = False  # some series count in another way than the others
        self.rl_step = 0  # the highest one
        named = dict(sorted({**labels, "env_id": _MARK}.items()))
        before, after = key_json(metric, SCALE, named).split(quoted(_MARK).encode())
        self.text = before, after

    def key(self, env: str) -> Key:
        """What identifies the series of an environment."""
        return self.metric, SCALE, tuple(sorted({**self.labels, "env_id": env}.items()))


class EnvSeries(Series):
    """A series of environment steps."""

    __slots__ = ("base", "env", "family", "past", "slot", "told")

    def __init__(
        self, number: int, kind: int, family: Family, env: str, slot: int, base: int
    ) -> None:
        self.number = number
        self.kind = kind
        self.family = family
        self.env = env
        self.slot = slot
        self.base = base  # the first step of an episode: 0, or 1 by auto_start_from_one
        self.told = False  # by the server, where its episodes go on
        self.past: dict[int, tuple[int, int]] | None = None  # next step and kind, by episode

    @property
    def definition(self) -> bytes:  # type: ignore[override]
        """The record that defines it: made when a segment needs it, for there may be many."""
        before, after = self.family.text
        env = quoted(self.env).encode()
        return record(series(self.kind, self.number, b"".join((before, env, after))))


class Group:
    """The environments of a call."""

    __slots__ = (
        "changes",
        "count",
        "distinct",
        "ended",
        "envs",
        "episodes",
        "evaluation",
        "family",
        "ids",
        "kind",
        "places",
        "relative",
        "segment",
        "slots",
        "templates",
    )

    def __init__(self, table: Table, family: Family, envs: Sequence[Any]) -> None:
        """KeyError or TypeError where one of the environments is not known."""
        self.family = family
        self.count = many = len(envs)
        places: list[int]
        find = map(family.slots.__getitem__, envs)
        if many == 1 or table.numpy is None:
            places = list(find)
            self.slots: Any = places
        else:
            self.slots = table.numpy.fromiter(find, table.int64, many)
            places = self.slots.tolist()
        first = places[0]
        straight = places[-1] - first == many - 1 and places == [*range(first, first + many)]
        if straight:
            self.slots = slice(first, first + many)
        self.places = places
        self.distinct = straight or len(set(places)) == many
        self.ids: Any = table.gather(table.number, self.slots)
        # 0: some hold integers, some floats.
        kinds = family.kinds
        if len(kinds) > 1:
            kinds = {table.series[slot].kind for slot in places}
        self.kind = next(iter(kinds)) if len(kinds) == 1 else 0
        # What the last call of the same environments left.
        self.envs: list[Any] | None = None
        self.evaluation: object = None
        self.changes = -1
        self.episodes = b""
        self.ended: Column | None = None  # the same as a column
        self.relative: bool | None = False  # None: some are
        self.segment: Segment | None = None
        self.templates: dict[Any, Template] = {}

    def series(self, table: Table) -> list[EnvSeries]:
        """Its series, in the order of the call."""
        return [table.series[slot] for slot in self.places]


def dedupe(names: Iterable[str], known: dict[Any, int]) -> list[str]:
    """Names that are not known, each once."""
    return [name for name in dict.fromkeys(names) if name not in known]
