"""Seed 004 as dictionaries and lists: what a server has to hold after a program.

Nothing of the package is imported here. A step is a dictionary that says which
call was made with which plain numbers (tests/seed_programs.py makes them).
"""

from __future__ import annotations

import struct
from typing import Any

Key = tuple[str, str, tuple[tuple[str, str], ...]]  # metric, scale, labels


def stored(value: Any) -> Any:
    """A value that can be compared bit for bit; all NaNs are one."""
    if isinstance(value, float):
        return "nan" if value != value else struct.pack("<d", value)
    return value


class Model:
    """A run: its points by series, and where each process goes on."""

    def __init__(self) -> None:
        self.points: dict[Key, list[dict[str, Any]]] = {}
        self.next: dict[Any, int] = {}  # (key) or (key, episode) → the step of the next point
        self.env: dict[str, tuple[int, Any]] = {}
        self.floats = self.rl = self.attempt = 0  # of this life
        # Series that this process logged to, and those of them that it gave a step.
        self.touched: set[Key] = set()
        self.placed: set[Key] = set()

    def begin(self) -> None:
        """A new process opens the run: it goes on behind what the server has."""
        self.floats = self.rl = 0
        self.attempt += 1
        self.next, self.env = {}, {}
        self.touched, self.placed = set(), set()
        for key, points in self.points.items():
            for point in points:
                axes = point["axes"]
                episode = axes.get("episode") if key[1] == "ENVIRONMENT_STEP" else None
                place = (key, episode)
                self.next[place] = max(self.next.get(place, 0), axes["step"] + 1)
                if "rl_step" in axes:
                    self._widen(dict(key[2])["env_id"], axes)

    def _widen(self, env: str, axes: dict[str, int]) -> None:
        rl, episode = self.env.get(env, (0, None))
        both = [one for one in (episode, axes.get("episode")) if one is not None]
        self.env[env] = (max(rl, axes["rl_step"]), max(both) if both else None)

    def apply(self, step: dict[str, Any], window: tuple[int, int]) -> None:
        """Make the call."""
        getattr(self, "_" + step["call"])(step, window)

    def _put(
        self, key: Key, axes: dict[str, int], value: Any, time: Any, window: tuple[int, int]
    ) -> None:
        lo, hi = window if time is None else (time, time)
        point = {"axes": axes, "value": stored(value), "lo": lo, "hi": hi, "attempt": self.attempt}
        self.points.setdefault(key, []).append(point)

    def _log(self, step: dict[str, Any], window: tuple[int, int]) -> None:
        for metric, values in step["values"]:
            key = (metric, step["scale"] or "ML_STEP", _labels(step))
            place = (key, None)
            given, times = step["step"], step["time"]
            self.touched.add(key)
            if given is not None:
                self.placed.add(key)
            for at, value in enumerate(values):
                if isinstance(given, list):
                    number = given[at]
                elif given is not None:
                    number = given + at
                else:
                    number = self.next.get(place, 0)
                self.next[place] = number + 1
                time = times[at] if isinstance(times, list) else times
                self._put(key, {"step": number}, value, time, window)
                self.floats += 1

    def _episode(self, step: dict[str, Any], window: tuple[int, int]) -> None:
        env = step["env"]
        key = (step["metric"], "EPISODE", _labels(step, env))
        place = (key, None)
        given, times = step["episode"], step["time"]
        for at, value in enumerate(step["values"]):
            if isinstance(given, list):
                number = given[at]
            elif given is not None:
                number = given + at
            else:
                number = self.next.get(place, 0)
            self.next[place] = number + 1
            axes = {"step": number, "rl_step": step["rl_step"]}
            if given is not None:
                axes["episode"] = number
            time = times[at] if isinstance(times, list) else times
            self._put(key, axes, value, time, window)
            self.rl += 1
            before = self.env.get(env, (None, None))[1]
            self.env[env] = (step["rl_step"], before if given is None else number)

    def _environment_step(self, step: dict[str, Any], window: tuple[int, int]) -> None:
        base = 1 if step["from_one"] else 0
        for m, env in enumerate(step["envs"]):
            key = (step["metric"], "ENVIRONMENT_STEP", _labels(step, env))
            for t, value in enumerate(step["values"][m]):
                episode = _cell(step["episode"], m, t)
                place = (key, episode)
                number = self.next.get(place, base)
                if step["env_step"] is not None:
                    number = step["env_step"][m][t]
                self.next[place] = number + 1
                axes = {"step": number, "env_step": number, "rl_step": step["rl_step"]}
                if episode is not None:
                    axes["episode"] = episode
                self._put(key, axes, value, _cell(step["time"], m, t), window)
                self.rl += 1
                self.env[env] = (step["rl_step"], episode)

    def last_step(self, metric: str) -> int | None:
        """What get_last_step says of a plain series."""
        following = self.next.get(((metric, "ML_STEP", ()), None))
        return following - 1 if following else None

    def has_last_step(self, metric: str, *, answered: bool, reachable: bool) -> bool:
        """Whether the process can know a plain series' last step, or learn it.

        `answered`: the server said where the series stand when the run was opened.
        `reachable`: it can be asked now; then it must have what the process logged.
        """
        key: Key = (metric, "ML_STEP", ())
        if answered or key in self.placed:
            return True
        return reachable and key not in self.touched

    def curve(self, key: Key) -> dict[int, Any]:
        """A plain series as it is drawn: of two points at one step the later counts."""
        found: dict[int, Any] = {}
        for point in self.points[key]:
            found[point["axes"]["step"]] = point["value"]
        return found


def _labels(step: dict[str, Any], env: str | None = None) -> tuple[tuple[str, str], ...]:
    found = dict(step["labels"])
    if env is not None:
        found["env_id"] = env
    if step["evaluation"] and "evaluation" not in found:
        found["evaluation"] = "true"
    return tuple(sorted(found.items()))


def _cell(given: Any, m: int, t: int) -> Any:
    """One number for all, one an environment, or one a value."""
    if isinstance(given, list):
        given = given[m]
    return given[t] if isinstance(given, list) else given
