"""The environments of a vectorised call, and the counters of their steps."""

from __future__ import annotations

import sys
from array import array

from .._points.columns import NO_EPISODE
from .._points.series import StepSeries
from .._spool.records import (
    CONSTANT,
    EACH,
    ENV_STEP,
    EPISODE,
    LINEAR,
    RELATIVE,
    RL_STEP,
    STEP,
    block_head,
)

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from .._points.arrays import Template
    from .._points.series import Key
    from .._spool.segment import Segment

    # Rows, bytes of a number, bytes of the columns of steps and of episodes, relative steps.
    CallShape = tuple[int, int, int, int, bool]


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
        self.templates: dict[CallShape, Template] = {}
        self.stamp = 0
        self.rl_step = 0


def one_if_same(column: bytes, count: int) -> bytes:
    """One number where all of a column are equal."""
    return column[:8] if column == column[:8] * count else column


def modes(key: CallShape) -> tuple[int, int]:
    """The modes of the columns of steps and episodes in a vectorised record."""
    rows, _, steps, episodes, relative = key
    step = LINEAR if rows > 1 else CONSTANT
    step |= (EACH if steps > 8 else 0) | (RELATIVE if relative else 0)
    return step, CONSTANT | (EACH if episodes > 8 else 0)


def first_bytes(group: Group, key: CallShape) -> bytes:
    """The first bytes of a vectorised record."""
    rows, width, _, episodes, _ = key
    step, episode = modes(key)
    axes = [(STEP, step), (RL_STEP, CONSTANT), (ENV_STEP, step)]
    if episodes:
        axes.insert(2, (EPISODE, episode))
    return block_head(group.kind, width, rows, group.ids, CONSTANT, axes)
