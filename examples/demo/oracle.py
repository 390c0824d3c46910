"""Write down every point that a training logged, for the tests to compare with.

It wraps the logging functions of a module: what a call was given is written
after the call returned, one JSON object a point, with the steps worked out here
and not by the package under test.
"""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Callable, Iterator
from types import ModuleType
from typing import Any

import numpy as np

Point = dict[str, Any]


def watch(module: ModuleType, path: str, run: str) -> None:
    """Replace log, log_rl_episode and log_rl_environment_step of module by recording ones."""
    # Line buffered, so that a killed process leaves whole lines.
    file = open(path, "a", buffering=1, encoding="utf-8")  # noqa: SIM115

    def recording(call: Callable[..., Any], points: Callable[..., Iterator[Point]]) -> Callable[..., Any]:
        def wrapped(*args: Any, **kwargs: Any) -> Any:
            answer = call(*args, **kwargs)
            for point in points(*args, **kwargs):
                file.write(json.dumps({"run": run, **point}) + "\n")
            return answer

        return wrapped

    flat: dict[tuple[str, str, int], int] = defaultdict(int)

    def environment_points(name: str, value: Any, *, rl_step: int, env_id: list[str], episode: Any) -> Iterator[Point]:
        values, episodes = np.broadcast_arrays(np.asarray(value, dtype=float), np.asarray(episode))
        for env, row, numbers in zip(
            env_id, values.reshape(len(env_id), -1), episodes.reshape(len(env_id), -1), strict=True
        ):
            for v, e in zip(row.tolist(), numbers.tolist(), strict=True):
                step = flat[name, env, e]
                flat[name, env, e] += 1
                axes = {"step": step, "env_step": step, "rl_step": rl_step, "episode": e}
                yield _point(name, "ENVIRONMENT_STEP", {"env_id": env}, axes, v)

    module.log = recording(module.log, _log_points)  # type: ignore[attr-defined]
    module.log_rl_episode = recording(module.log_rl_episode, _episode_points)  # type: ignore[attr-defined]
    module.log_rl_environment_step = recording(module.log_rl_environment_step, environment_points)  # type: ignore[attr-defined]


def _point(metric: str, scale: str, labels: dict[str, str], axes: dict[str, int], value: float) -> Point:
    # JSON has no NaN and infinity: the API's words for them.
    words = {"nan": "NaN", "inf": "Infinity", "-inf": "-Infinity"}
    v: float | str = words.get(str(float(value)), float(value))
    return {"metric": metric, "scale": scale, "labels": labels, "axes": axes, "value": v}


def _log_points(metrics: dict[str, float], *, step: int, evaluation: bool = False) -> Iterator[Point]:
    labels = {"evaluation": "true"} if evaluation else {}
    for name, value in metrics.items():
        yield _point(name, "ML_STEP", labels, {"step": step}, value)


def _episode_points(name: str, value: float, *, rl_step: int, episode: int, env_id: str) -> Iterator[Point]:
    axes = {"step": episode, "episode": episode, "rl_step": rl_step}
    yield _point(name, "EPISODE", {"env_id": env_id}, axes, value)
