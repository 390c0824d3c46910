"""Stable-Baselines3: its logger's values, and every episode.

>>> from kymogram.stable_baselines3 import KymogramCallback
>>> model.learn(100_000, callback=KymogramCallback(project_name="cartpole"))

The callback is all that is needed; KymogramOutputFormat alone goes into
`stable_baselines3.common.logger.Logger(folder, [KymogramOutputFormat()])`.
"""

from __future__ import annotations

from typing import Any

import numpy
from stable_baselines3.common.callbacks import BaseCallback
from stable_baselines3.common.logger import KVWriter

from . import _api, _text
from ._adapters import Door
from ._rl import log_rl_episode

__all__ = ["KymogramCallback", "KymogramOutputFormat"]

_SETTINGS = (
    "gamma learning_rate n_steps n_envs batch_size n_epochs buffer_size learning_starts tau "
    "train_freq gradient_steps gae_lambda ent_coef vf_coef max_grad_norm clip_range seed "
    "exploration_fraction exploration_final_eps target_update_interval"
).split()


class KymogramOutputFormat(KVWriter):
    """Logs what `logger.record` collects at each dump, the time steps as its step.

    Texts go into text series; `logger.record(…, exclude="kymogram")` leaves one
    out. Takes the arguments of kymogram.init(); a run that is open is used.
    """

    def __init__(self, **arguments: Any) -> None:
        self._door = Door(arguments)
        self._before = 0  # the steps of earlier learn() calls that were counted anew

    def begin(self, step: int) -> None:
        """A learn() that counts its time steps from `step`; they continue after the last."""
        self._before = max(0, self._door.reached.get("step", 0) - step)

    def write(
        self, key_values: dict[str, Any], key_excluded: dict[str, Any], step: int = 0
    ) -> None:
        """Log one dump."""
        self._door.open()
        step = self._door.reached["step"] = step + self._before
        kept = {
            name: one
            for name, one in key_values.items()
            if "kymogram" not in (key_excluded.get(name) or ())
        }
        self._door.numbers(kept, step)
        for name, one in kept.items():
            if isinstance(one, str):
                _text.log_text(name, one, step=step)

    def close(self) -> None:
        """End the run, if it was opened here."""
        self._door.close()


class KymogramCallback(BaseCallback):
    """Adds the output format to the model's logger, logs settings and every episode.

    Episodes come from the Monitor that `make_vec_env` and the algorithms put
    around environments: `episode_return` and `episode_length`, one environment
    id each, the rollout's number as their RL step. Takes the arguments of
    kymogram.init(); a run that is open is used. The run ends with the process
    or by close(). Another learn() continues after the last step, also where
    its time steps begin at 0.
    """

    def __init__(self, verbose: int = 0, **arguments: Any) -> None:
        super().__init__(verbose)
        self._door = Door(arguments)
        self._format = KymogramOutputFormat()
        self._rollout = -1

    def _on_training_start(self) -> None:
        self._door.open()
        formats = self.model.logger.output_formats
        if not any(isinstance(one, KymogramOutputFormat) for one in formats):
            formats.append(self._format)
        self._format.begin(self.model.num_timesteps)
        self._door.config(self._configuration())
        for number in range(self.training_env.num_envs):
            last, _ = _api.get_env_last_rl_step_and_episode(f"env{number}")
            self._rollout = max(self._rollout, -1 if last is None else last)

    def _configuration(self) -> dict[str, Any]:
        model = self.model
        found: dict[str, Any] = {
            "algorithm": type(model).__name__,
            "policy": type(model.policy).__name__,
            "device": str(model.device),
        }
        for name in _SETTINGS:
            one = getattr(model, name, None)
            if isinstance(one, (bool, int, float, str)):
                found[name] = one
        return found

    def _on_rollout_start(self) -> None:
        self._rollout += 1

    def _on_step(self) -> bool:
        for number, info in enumerate(self.locals.get("infos") or ()):
            episode = info.get("episode")
            if episode is not None:
                self._episode(f"env{number}", episode)
        return True

    def _episode(self, env: str, episode: dict[str, Any]) -> None:
        step = max(self._rollout, 0)
        log_rl_episode("episode_return", float(numpy.asarray(episode["r"])), step, env_id=env)
        log_rl_episode("episode_length", float(numpy.asarray(episode["l"])), step, env_id=env)

    def close(self) -> None:
        """End the run, if this callback opened it."""
        self._door.close()
