"""Train a policy-gradient agent on CartPole with eight environments and log it to Kymogram.

Advantage actor-critic in NumPy on gymnasium's CartPole-v1. It logs on three axes:

* the update (``log``): losses, entropy, gradient norm, the mean return so far;
* the episode (``log_rl_episode``): return and length, for each environment;
* the step within an episode (``log_rl_environment_step``): pole angle and reward.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections import deque
from dataclasses import dataclass

import gymnasium
import numpy as np
import numpy.typing as npt

import kymogram
import oracle

Array = npt.NDArray[np.float64]
Actions = npt.NDArray[np.int64]

ENVIRONMENTS = 8
ROLLOUT = 64
HIDDEN = 48
DISCOUNT = 0.99
TRACE = 0.95
ENTROPY_BONUS = 0.01
MAX_NORM = 0.5
# Returns of a good agent come near 100: the value head learns them in units of 50.
REWARD_SCALE = 0.02


class Agent:
    """One hidden layer of tanh, shared by a policy head and a value head; Adam."""

    def __init__(self, rng: np.random.Generator, lr: float) -> None:
        self.rng, self.lr, self.updates = rng, lr, 0
        self.p = {
            "w": rng.normal(0, 0.7, (4, HIDDEN)),
            "b": np.zeros(HIDDEN),
            "policy": rng.normal(0, 0.01, (HIDDEN, 2)),
            "value": rng.normal(0, 0.1, (HIDDEN, 1)),
        }
        self.m = {k: np.zeros_like(v) for k, v in self.p.items()}
        self.v = {k: np.zeros_like(v) for k, v in self.p.items()}

    def forward(self, states: Array) -> tuple[Array, Array, Array]:
        """Hidden layer, probabilities of the actions, value."""
        hidden = np.tanh(states @ self.p["w"] + self.p["b"])
        logits = hidden @ self.p["policy"]
        e = np.exp(logits - logits.max(axis=-1, keepdims=True))
        return hidden, e / e.sum(axis=-1, keepdims=True), (hidden @ self.p["value"])[..., 0]

    def act(self, states: Array) -> tuple[Actions, Array]:
        _, p, value = self.forward(states)
        return (self.rng.random(len(p)) < p[:, 1]).astype(np.int64), value

    def learn(
        self, states: Array, actions: npt.NDArray[np.int64], advantages: Array, returns: Array
    ) -> dict[str, float]:
        n = len(states)
        hidden, p, value = self.forward(states)
        log_p = np.log(p + 1e-12)
        entropy = -(p * log_p).sum(axis=1)
        chosen = np.eye(2)[actions]
        d_logits = (p - chosen) * advantages[:, None]
        d_logits += ENTROPY_BONUS * p * (log_p + entropy[:, None])
        d_logits /= n
        d_value = (value - returns)[:, None] / n
        d_hidden = (d_logits @ self.p["policy"].T + d_value @ self.p["value"].T) * (1 - hidden**2)
        gradients = {
            "w": states.T @ d_hidden,
            "b": d_hidden.sum(axis=0),
            "policy": hidden.T @ d_logits,
            "value": hidden.T @ d_value,
        }
        norm = float(np.sqrt(sum((g**2).sum() for g in gradients.values())))
        self.descend(gradients, min(1.0, MAX_NORM / (norm + 1e-8)))
        return {
            "policy/loss": float(-(log_p[np.arange(n), actions] * advantages).mean()),
            "policy/entropy": float(entropy.mean()),
            "value/loss": float(((value - returns) ** 2).mean() / 2),
            "policy/grad_norm": norm,
        }

    def descend(self, gradients: dict[str, Array], scale: float) -> None:
        self.updates += 1
        for k, g in gradients.items():
            g = g * scale
            self.m[k] += 0.1 * (g - self.m[k])
            self.v[k] += 0.001 * (g**2 - self.v[k])
            m, v = self.m[k] / (1 - 0.9**self.updates), self.v[k] / (1 - 0.999**self.updates)
            self.p[k] -= self.lr * m / (np.sqrt(v) + 1e-8)


@dataclass
class Rollout:
    """What ROLLOUT steps of all environments gave; arrays are environments × steps."""

    states: Array
    actions: Actions
    rewards: Array
    values: Array
    ended: npt.NDArray[np.bool_]
    episodes: npt.NDArray[np.int64]
    angles: Array
    finished: list[tuple[int, int, float, int]]  # environment, episode, return, length


class Arena:
    """Eight environments side by side, and the episode that each is in."""

    def __init__(self, seed: int) -> None:
        # An environment that ended begins its next episode in the same step: no step of a rollout is idle.
        same_step = {"autoreset_mode": gymnasium.vector.AutoresetMode.SAME_STEP}
        self.envs = gymnasium.make_vec(
            "CartPole-v1", num_envs=ENVIRONMENTS, vectorization_mode="sync", vector_kwargs=same_step
        )
        self.states = self.envs.reset(seed=seed)[0].astype(float)
        self.episode = np.zeros(ENVIRONMENTS, dtype=np.int64)
        self.total = np.zeros(ENVIRONMENTS)
        self.length = np.zeros(ENVIRONMENTS, dtype=np.int64)

    def play(self, agent: Agent) -> Rollout:
        shape = (ENVIRONMENTS, ROLLOUT)
        r = Rollout(
            states=np.zeros((*shape, 4)),
            actions=np.zeros(shape, dtype=np.int64),
            rewards=np.zeros(shape),
            values=np.zeros(shape),
            ended=np.zeros(shape, dtype=np.bool_),
            episodes=np.zeros(shape, dtype=np.int64),
            angles=np.zeros(shape),
            finished=[],
        )
        for t in range(ROLLOUT):
            r.states[:, t], r.episodes[:, t], r.angles[:, t] = self.states, self.episode, self.states[:, 2]
            r.actions[:, t], r.values[:, t] = agent.act(self.states)
            states, rewards, terminated, truncated, _ = self.envs.step(r.actions[:, t])
            r.rewards[:, t], r.ended[:, t] = rewards, terminated | truncated
            self.states = states.astype(float)
            self.total += rewards
            self.length += 1
            for env in np.flatnonzero(r.ended[:, t]):
                r.finished.append((int(env), int(self.episode[env]), float(self.total[env]), int(self.length[env])))
                self.total[env] = self.length[env] = 0
                self.episode[env] += 1
        return r


def advantages(r: Rollout, last_value: Array) -> Array:
    """Generalised advantage estimation over one rollout."""
    out = np.zeros_like(r.rewards)
    following, trace = last_value, np.zeros(ENVIRONMENTS)
    for t in reversed(range(ROLLOUT)):
        alive = 1.0 - r.ended[:, t]
        error = REWARD_SCALE * r.rewards[:, t] + DISCOUNT * following * alive - r.values[:, t]
        trace = error + DISCOUNT * TRACE * alive * trace
        out[:, t], following = trace, r.values[:, t]
    return out


def train(args: argparse.Namespace) -> None:
    agent = Agent(np.random.default_rng(args.seed), args.lr)
    arena = Arena(args.seed)
    names = [f"env{i}" for i in range(ENVIRONMENTS)]
    recent: deque[float] = deque(maxlen=50)
    for update in range(args.updates):
        r = arena.play(agent)
        gain = advantages(r, agent.forward(arena.states)[2])
        flat = (gain - gain.mean()) / (gain.std() + 1e-8)
        losses = agent.learn(
            r.states.reshape(-1, 4), r.actions.reshape(-1), flat.reshape(-1), (gain + r.values).reshape(-1)
        )
        recent.extend(total for _, _, total, _ in r.finished)
        if recent:
            losses["return/mean"] = float(np.mean(recent))
        kymogram.log(losses, step=update)
        for env, episode, total, length in r.finished:
            kymogram.log_rl_episode("episode/return", total, rl_step=update, episode=episode, env_id=names[env])
            kymogram.log_rl_episode("episode/length", length, rl_step=update, episode=episode, env_id=names[env])
        kymogram.log_rl_environment_step("step/pole_angle", r.angles, rl_step=update, episode=r.episodes, env_id=names)
        if args.pace:
            time.sleep(1 / args.pace)


def main() -> int:
    parser = argparse.ArgumentParser(description="Train an actor-critic on CartPole and log it.")
    parser.add_argument("--lr", type=float, default=0.003)
    parser.add_argument("--seed", type=int, default=2)
    parser.add_argument("--updates", type=int, default=400)
    parser.add_argument("--pace", type=float, default=0, help="at most so many updates a second, to watch it")
    parser.add_argument("--server", help="default: $KYMOGRAM_SERVER, else http://127.0.0.1:7070")
    parser.add_argument("--project", default="cartpole")
    parser.add_argument("--suffix", default="", help="ends the run's name, for a second training of the same kind")
    parser.add_argument("--oracle", help="write every point that was logged to this file, as JSON lines")
    args = parser.parse_args()

    name = f"a2c-seed{args.seed}{args.suffix}"
    kymogram.init(
        workspace_name="demo",
        project_name=args.project,
        run_name=name,
        server=args.server,
        tags=["cartpole", "rl"],
        description="Advantage actor-critic on CartPole-v1, eight environments side by side.",
        config={"lr": args.lr, "seed": args.seed, "updates": args.updates, "environments": ENVIRONMENTS,
                "rollout": ROLLOUT, "discount": DISCOUNT, "entropy_bonus": ENTROPY_BONUS},
    )  # fmt: skip
    if args.oracle:
        oracle.watch(kymogram, args.oracle, f"demo/{args.project}/{name}")
    train(args)
    kymogram.close()
    return 0


if __name__ == "__main__":
    sys.exit(main())
