"""The callback and the output format with real algorithms of Stable-Baselines3."""

from __future__ import annotations

from typing import Any

import pytest

import kymogram

from ..rig import Served

sb3 = pytest.importorskip("stable_baselines3", reason="make test-frameworks")
from stable_baselines3.common.callbacks import BaseCallback  # noqa: E402
from stable_baselines3.common.env_util import make_vec_env  # noqa: E402
from stable_baselines3.common.logger import KVWriter, Logger  # noqa: E402


class Memory(KVWriter):  # type: ignore[misc]
    """What the logger dumped: the oracle."""

    def __init__(self) -> None:
        self.rows: list[tuple[int, dict[str, Any]]] = []

    def write(self, key_values: Any, key_excluded: Any, step: int = 0) -> None:
        self.rows.append((step, dict(key_values)))

    def close(self) -> None:
        pass


class Episodes(BaseCallback):  # type: ignore[misc]
    """Every episode that Monitor reported: the oracle."""

    def __init__(self) -> None:
        super().__init__()
        self.returns: dict[int, list[float]] = {}

    def _on_step(self) -> bool:
        for number, info in enumerate(self.locals["infos"]):
            if "episode" in info:
                self.returns.setdefault(number, []).append(info["episode"]["r"])
        return True


def learn(algorithm: str, steps: int, callback: Any, **settings: Any) -> tuple[Memory, Episodes]:
    envs = make_vec_env("CartPole-v1", n_envs=2, seed=0)
    model = getattr(sb3, algorithm)("MlpPolicy", envs, seed=0, device="cpu", **settings)
    memory, episodes = Memory(), Episodes()
    model.set_logger(Logger(None, [memory]))
    model.learn(steps, callback=[callback, episodes], log_interval=1)
    return memory, episodes


@pytest.mark.parametrize(
    ("algorithm", "settings"),
    [
        ("PPO", {"n_steps": 64, "batch_size": 32, "n_epochs": 2}),
        ("DQN", {"learning_starts": 20, "buffer_size": 500, "train_freq": 8}),
    ],
)
def test_a_real_algorithm(served: Served, algorithm: str, settings: dict[str, Any]) -> None:
    from kymogram.stable_baselines3 import KymogramCallback

    callback = KymogramCallback(run_name="cart")
    memory, episodes = learn(algorithm, 600, callback, **settings)
    callback.close()
    run = served.only()
    assert run.status == "finished"
    names = {name for _, row in memory.rows for name in row}
    assert "rollout/ep_rew_mean" in names
    for name in names:
        logged = {step: row[name] for step, row in memory.rows if name in row}
        assert served.values(name, run) == pytest.approx(logged), name
    for number, returns in episodes.returns.items():
        labels = {"env_id": f"env{number}"}
        found = run.points("episode_return", scale="EPISODE", labels=labels)
        assert list(found["value"]) == returns
        steps = list(found["rl_step"])
        assert steps == sorted(steps)
    assert run.config["algorithm"] == algorithm
    assert run.config["gamma"] == 0.99
    assert sum(map(len, episodes.returns.values())) > 5


def test_the_next_life_counts_its_rollouts_on(served: Served) -> None:
    from kymogram.stable_baselines3 import KymogramCallback

    settings = {"n_steps": 64, "batch_size": 32, "n_epochs": 1}
    for _ in range(2):
        callback = KymogramCallback(run_name="cart", resume_strategy="allow")
        learn("PPO", 256, callback, **settings)
        callback.close()
        served.sync()
    found = served.only().points("episode_return", scale="EPISODE", labels={"env_id": "env0"})
    steps = list(found["rl_step"])
    assert steps == sorted(steps)
    assert max(steps) >= 2


def test_the_output_format_alone(served: Served) -> None:
    from kymogram.stable_baselines3 import KymogramOutputFormat

    with kymogram.init(run_name="r"):
        log = Logger(None, [KymogramOutputFormat()])
        log.record("a", 1.5)
        log.record("note", "hello")
        log.record("hidden", 2, exclude="kymogram")
        log.dump(7)
        log.close()
    run = served.only()
    assert [one.metric for one in run.series()] == ["a", "note"]
    assert served.values("a", run) == {7: 1.5}
    assert served.values("note", run) == {7: "hello"}


def test_another_learn_goes_on_behind_the_first(served: Served) -> None:
    from kymogram.stable_baselines3 import KymogramCallback

    envs = make_vec_env("CartPole-v1", n_envs=1, seed=0)
    model = sb3.PPO("MlpPolicy", envs, n_steps=64, batch_size=32, n_epochs=1, device="cpu")
    callback, memory = KymogramCallback(run_name="cart"), Memory()
    model.set_logger(Logger(None, [memory]))
    model.learn(128, callback=callback, log_interval=1)
    model.learn(128, callback=callback, log_interval=1)
    model.learn(128, callback=callback, log_interval=1, reset_num_timesteps=False)
    callback.close()
    dumped = [row["time/total_timesteps"] for _, row in memory.rows if "time/fps" in row]
    assert dumped == [64, 128, 64, 128, 192, 256]
    run = served.only()
    found = served.values("time/total_timesteps", run)
    assert found == dict(zip((64, 128, 192, 256, 320, 384), dumped))
    assert run.detail()["ledger"]["superseded"] == 0


def test_another_model_goes_on_behind_the_first(served: Served) -> None:
    from kymogram.stable_baselines3 import KymogramCallback

    envs = make_vec_env("CartPole-v1", n_envs=1, seed=0)
    first = KymogramCallback(run_name="seeds")
    for seed, callback in enumerate((first, KymogramCallback())):
        model = sb3.PPO("MlpPolicy", envs, n_steps=64, batch_size=32, seed=seed, device="cpu")
        model.learn(128, callback=callback, log_interval=1)
    first.close()
    run = served.only()
    found = served.values("time/total_timesteps", run)
    assert found == dict(zip((64, 128, 192, 256), (64, 128, 64, 128)))
    assert run.detail()["ledger"]["superseded"] == 0
