"""Log the runs of the kymograph's tests into KYMOGRAM_SERVER: load.py rl | wide | layers | resumed | live.

rl: 4,096 environments × 64 episodes, three groups of maps, with videos of two episodes.
wide: 9,000 environments × 3 episodes.
layers: 48 layers × 2,000 steps with a spike, NaN, Inf, a gap and hostile names beside.
resumed: 12 ranks with a restart.
live: 24 environments; logs an episode of each for every line that it reads.
Prints the run's id.
"""

import math
import random
import sys
import time

import kymogram

MAPS = ("cave", "desert", "forest")


def reward(env, episode, gauss):
    skill = 0.3 + 0.7 * ((env * 7919) % 97) / 97
    return 20 * skill * (1 - math.exp(-episode / (10 + env % 13))) - 2 + gauss(0, 0.7)


def rl(envs=4096, episodes=64):
    run = kymogram.init(project_name="kymo", run_name=f"rl-{envs}", rendering_fps=30)
    gauss = random.Random(4).gauss
    for episode in range(episodes):
        for env in range(envs):
            value = reward(env, episode, gauss)
            labels = {"map": MAPS[env % 3]}
            kymogram.log_rl_episode(
                "return", value, rl_step=episode, episode=episode, env_id=f"env-{env:04d}", labels=labels
            )
    for episode in (3, 7):
        video(episode)
    print(run.id, flush=True)
    kymogram.close()


def wide(envs=9000):
    run = kymogram.init(project_name="kymo", run_name="wide")
    for episode in range(3):
        for env in range(envs):
            kymogram.log_rl_episode(
                "return", env * 7919 % 9001 + episode, rl_step=episode, episode=episode, env_id=f"env-{env}"
            )
    print(run.id, flush=True)
    kymogram.close()


def video(episode):
    import numpy

    for step in range(60):
        frame = numpy.full((64, 96, 3), 4 * step, dtype="uint8")
        kymogram.log_rendering(frame, rl_step=episode, episode=episode, env_id="env-0000")


def layers(count=48, steps=2000):
    run = kymogram.init(project_name="kymo", run_name="layers")
    gauss = random.Random(5).gauss
    for layer in range(count):
        values = [2.5 * math.exp(-3 * s / steps) * (1 + layer / count) * math.exp(gauss(0, 0.15)) for s in range(steps)]
        if layer == 17:
            values[1234] = 1000.0
        if layer == 20:
            values[400:420] = [math.nan] * 20
        if layer == 21:
            values[900] = math.inf
        if layer == 30:
            kymogram.log(f"layers/{layer}/grad_norm", values[:700])
            kymogram.log(f"layers/{layer}/grad_norm", values[1100:], step=1100)
            continue
        kymogram.log(f"layers/{layer}/grad_norm", values)
    for env in range(4):
        kymogram.log("nan", [math.nan] * 9, labels={"env": str(env)})
        kymogram.log("infinite", [math.inf, -math.inf, math.inf] * 3, labels={"env": str(env)})
        kymogram.log("huge", [1e308, -1e308] * 4, labels={"env": str(env)})
    names = ["<svg><script>alert(1)</script>", "__proto__", "constructor", "a\u200bb", "x" * 200]
    for i, name in enumerate(names * 3):
        kymogram.log("hostile", [math.sin(i + s / 5) for s in range(60)], labels={"who": f"{name}{i // 5}"})
    print(run.id, flush=True)
    kymogram.close()


def resumed(ranks=12):
    """A restart after step 99 that goes on at step 50: its points win where both have some."""
    for attempt, steps in enumerate((range(100), range(50, 160))):
        run = kymogram.init(project_name="kymo", run_name="resumed", resume_strategy="allow")
        for rank in range(ranks):
            values = [math.sin(rank + s / 9) + 10 * attempt for s in steps]
            kymogram.log("loss", values, step=steps[0], labels={"rank": str(rank)})
        kymogram.close()
    print(run.id, flush=True)


def live(envs=24):
    run = kymogram.init(project_name="kymo", run_name=f"live-{int(time.time())}")
    gauss = random.Random(6).gauss
    for episode, _ in enumerate(sys.stdin):
        for env in range(envs):
            value = reward(env, episode, gauss)
            kymogram.log_rl_episode("return", value, rl_step=episode, episode=episode, env_id=f"env-{env:02d}")
        print(run.id, flush=True)
    kymogram.close()


if __name__ == "__main__":
    {"rl": rl, "wide": wide, "layers": layers, "resumed": resumed, "live": live}[sys.argv[1]]()
