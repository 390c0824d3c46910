"""A series and its step counter, and where the run's series stand.

Steps of hot calls come from itertools.count: a next() is one step of the
interpreter. A caller that took a step looks again whether its entry still
stands, so a series that changes its way of counting never gives a step twice.
"""

from __future__ import annotations

from itertools import count

from .._exceptions import KymogramValidationError
from .._input.numeric import STEP_MAX
from .._spool.records import HAS_STEP, STEP_IS_RELATIVE, quoted, record, series
from .._spool.ring import Series
from .tables import AUTO, GROUPS, GROUPS_STEPPED, STEPPED

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

NEXT, TICK, LAST = range(3)  # how a series counts its steps


class StepSeries(Series):
    """A series with its step counter."""

    __slots__ = (
        "absolute",
        "distributed",
        "first",
        "keys",
        "labels",
        "last",
        "metric",
        "mode",
        "next",
        "scale",
        "tick",
    )

    def __init__(
        self,
        number: int,
        kind: int,
        name: tuple[str, str, dict[str, str]],
        start: int | None,
    ) -> None:
        super().__init__(number, kind, record(series(kind, number, key_json(*name))))
        self.metric, self.scale, self.labels = name
        self.absolute = start is not None
        self.next = self.first = start or 0
        self.last = -1
        self.mode = NEXT
        self.tick: Callable[[], int] | None = None
        self.keys: set[Any] = set()
        self.distributed: bool | None = None

    @property
    def follows_absolute(self) -> bool:
        """Whether the step that take() gives is an absolute one."""
        return self.absolute or self.mode == LAST

    @property
    def flags(self) -> int:
        """The flags of a point whose step the series counts."""
        return HAS_STEP if self.absolute else HAS_STEP | STEP_IS_RELATIVE

    @property
    def untouched(self) -> bool:
        """Whether no point of it was logged."""
        return self.mode == NEXT and self.next == self.first

    def take(self, rows: int) -> int:
        """The next step, and rows - 1 behind it."""
        if self.mode == TICK:
            assert self.tick is not None
            if rows == 1:
                return self.tick()
            self.retire()
            self.next = self.tick()
        elif self.mode == LAST:
            self.retire()
            self.next = self.last + 1
            self.absolute = True
        self.mode = NEXT
        first = self.next
        if first + rows - 1 > STEP_MAX:
            raise KymogramValidationError(f"the next step of {self.metric!r} is above 2^62")
        self.next += rows
        return first

    def follow(self, first: int, last: int) -> bool:
        """Steps were given: the series goes on from the last. Whether they rise."""
        # A restart may go back to its checkpoint: only steps of this process count.
        known = None if self.untouched else self.last_step()
        rises = known is None or first > known
        if self.mode == TICK:
            self.retire()
        self.mode = LAST
        self.last = last
        return rises

    def start_ticking(self) -> Callable[[], int]:
        """Count by itertools, for calls without a lock."""
        if self.mode != TICK or self.tick is None:
            self.tick = count(self.next).__next__
            self.mode = TICK
        return self.tick

    def retire(self) -> None:
        """Take the series out of the tables."""
        for key in self.keys:
            AUTO.pop(key, None)
            STEPPED.pop(key, None)
        GROUPS.clear()
        GROUPS_STEPPED.clear()

    def last_step(self) -> int | None:
        """The last step that was logged or is known."""
        if self.mode == LAST:
            return self.last
        following = self.next
        if self.mode == TICK and self.tick is not None:
            # The count itself must not move, and its pickling is gone in 3.14.
            following = int(repr(self.tick.__self__)[6:-1])  # type: ignore[attr-defined]
        return following - 1 if following else None


def key_json(metric: str, scale: str, labels: dict[str, str]) -> bytes:
    """What identifies a series, as JSON. Made by hand: it is most of what a new series costs."""
    pairs = ",".join([f"{quoted(name)}:{quoted(value)}" for name, value in labels.items()])
    return f'{{"metric":{quoted(metric)},"scale":{quoted(scale)},"labels":{{{pairs}}}}}'.encode()


Key = tuple[str, str, tuple[tuple[str, str], ...]]


class Starts:
    """Where the run's series stand, as the server told init()."""

    def __init__(self, answer: dict[str, Any] | None = None) -> None:
        answer = answer or {}
        self.complete = bool(answer.get("starts_complete"))
        self.known = bool(answer)
        self.behind = False  # earlier processes' points were still in the spool
        self._next: dict[Key, int] = {}
        self._episodes: dict[Key, dict[int, int]] = {}
        self.environments: dict[str, tuple[int, int | None]] = {
            one["env"]: (one["last_rl_step"], one.get("last_episode"))
            for one in answer.get("envs") or ()
        }
        for one in answer.get("starts") or ():
            key = (one["metric"], one["scale"], tuple(sorted((one.get("labels") or {}).items())))
            if one.get("episode") is None:
                self._next[key] = one["next"]
            else:
                self._episodes.setdefault(key, {})[one["episode"]] = one["next"]

    @property
    def any(self) -> bool:
        """Whether the server told of any series."""
        return bool(self._next or self._episodes)

    def tells(self, key: Key) -> bool:
        """Whether the server told of this one."""
        return key in self._next or key in self._episodes

    def of(self, key: Key) -> int | None:
        """The next step of a series; None when only the server knows."""
        found = self._next.get(key)
        return 0 if found is None and self.complete else found

    def of_episode(self, key: Key, episode: int | None) -> int | None:
        """The next environment step of a series within an episode."""
        episodes = self._episodes.get(key, {})
        if episode is None:
            return self._next.get(key) if episodes else self.of(key)
        found = episodes.get(episode)
        if found is None and self.complete and all(episode > other for other in episodes):
            return 0  # the server lists the latest episodes: a later one is new
        return found
