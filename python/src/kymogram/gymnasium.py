"""A wrapper for gymnasium's vector environments: every episode and step, by environment.

>>> from kymogram.gymnasium import LogEpisodes
>>> envs = LogEpisodes(gymnasium.make_vec("CartPole-v1", num_envs=8))
>>> for update in range(100):
...     envs.rl_step = update
...     ...  # envs.step(actions) as always
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy
from gymnasium.vector import AutoresetMode, VectorEnv, VectorWrapper

from . import _api
from ._exceptions import KymogramValidationError
from ._rl import log_rl_environment_step, log_rl_episode

__all__ = ["LogEpisodes"]


class LogEpisodes(VectorWrapper):
    """Logs `episode_return` and `episode_length` of every episode, and `reward` of every step.

    A run must be open. Set `rl_step` to the number of the update before its
    steps; without that it is the last one that the run had, or 0. `env_ids`
    names the environments (env0, env1, … by default); one environment belongs
    to one process. Episodes are numbered from the run's last. With
    `steps=False` only episodes are logged. All three reset modes are known; a
    step that only resets an environment is not logged.
    """

    def __init__(
        self, env: VectorEnv, env_ids: Sequence[str] | None = None, *, steps: bool = True
    ) -> None:
        super().__init__(env)
        ids = [f"env{n}" for n in range(self.num_envs)] if env_ids is None else list(env_ids)
        if len(set(ids)) != self.num_envs or len(ids) != self.num_envs:
            raise KymogramValidationError(
                f"env_ids are {self.num_envs} different names, one an environment; got {ids}"
            )
        self.env_ids = ids
        last = [_api.get_env_last_rl_step_and_episode(one) for one in ids]
        self.rl_step = max((step for step, _ in last if step is not None), default=0)
        self._next = numpy.array([0 if one is None else one + 1 for _, one in last], dtype="i8")
        self._steps = steps
        self._mode = self.metadata.get("autoreset_mode", AutoresetMode.NEXT_STEP)
        self._returns = numpy.zeros(self.num_envs)
        self._lengths = numpy.zeros(self.num_envs, dtype="i8")
        self._ended = numpy.zeros(self.num_envs, dtype=bool)

    def reset(
        self, *, seed: Any = None, options: dict[str, Any] | None = None
    ) -> tuple[Any, dict[str, Any]]:
        """Reset; an unfinished episode that is reset away keeps its steps and has no return."""
        mask = (options or {}).get("reset_mask")
        found: tuple[Any, dict[str, Any]] = self.env.reset(seed=seed, options=options)
        chosen = numpy.ones(self.num_envs, dtype=bool) if mask is None else numpy.asarray(mask)
        begun = chosen & (self._lengths > 0)
        self._next[begun] += 1
        self._returns[chosen], self._lengths[chosen], self._ended[chosen] = 0, 0, False
        return found

    def step(self, actions: Any) -> tuple[Any, Any, Any, Any, dict[str, Any]]:
        """Step; log what was a step."""
        found: tuple[Any, Any, Any, Any, dict[str, Any]] = self.env.step(actions)
        rewards = numpy.asarray(found[1], dtype="f8")
        done = numpy.asarray(found[2]) | numpy.asarray(found[3])
        real = ~self._ended
        if self._steps and real.any():
            log_rl_environment_step(
                "reward",
                rewards[real],
                self.rl_step,
                env_id=[one for one, is_real in zip(self.env_ids, real) if is_real],
                episode=self._next[real],
            )
        self._returns[real] += rewards[real]
        self._lengths[real] += 1
        ended = done & real
        for number in numpy.flatnonzero(ended):
            self._episode(int(number))
        waits = self._mode != AutoresetMode.SAME_STEP
        # A NEXT_STEP environment resets itself in the step after its end.
        self._ended = ended | (self._ended & done) if waits else numpy.zeros_like(ended)
        return found

    def _episode(self, number: int) -> None:
        env, episode = self.env_ids[number], int(self._next[number])
        returned, length = float(self._returns[number]), int(self._lengths[number])
        log_rl_episode("episode_return", returned, self.rl_step, episode=episode, env_id=env)
        log_rl_episode("episode_length", length, self.rl_step, episode=episode, env_id=env)
        self._next[number] += 1
        self._returns[number], self._lengths[number] = 0, 0
