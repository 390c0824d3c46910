"""Every documented form of every call that logs, for Kymogram and for Metrana, whose names they share.

`forms(module)` gives a call by its form; i counts the calls. Forms in NOT_METRANA are documented by Kymogram alone.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from types import ModuleType

Call = Callable[[int], object]

NAMES = [f"m{i}" for i in range(10)]
NOW_MS = 1_790_000_000_000
# Metrana has no texts, requires the episode, and takes neither a list nor a number where these do.
NOT_METRANA = {
    "log_text",
    "64 environments, no episode",
    "64 environments, env_step",
    "log_rl_episode, 100",
    "log_rl_episode, 100 with episodes",
    "64 × 128, env_step",
}
ARRAYS = {
    kind + width for kind in ("64 × 128", "vector of 1,000") for width in ("", ", float64")
}  # measured in rollouts, too
OLDEST = ["scalar", "mapping of 10", "64 environments", *sorted(ARRAYS)]  # of Metrana 0.5.2, too


def oldest(module: ModuleType) -> dict[str, Call]:
    """The calls that Metrana 0.5.2 has."""
    found = _log(module) | _environments(module) | _grids(module)
    return {form: found[form] for form in OLDEST}


def forms(module: ModuleType, kymogram: bool) -> dict[str, Call]:
    """The calls by the name of their form."""
    found = _log(module) | _environments(module) | _grids(module) | _episodes(module) | _attributes(module)
    found |= _documents(module)
    return {form: call for form, call in found.items() if kymogram or form not in NOT_METRANA}


def _log(module: ModuleType) -> dict[str, Call]:
    import numpy as np

    log, shared = module.log, module.log_distributed
    row = dict.fromkeys(NAMES, 0.5)
    rows = {f"a{i}": np.full(100, 0.5, "f4") for i in range(10)}
    vector = np.full(1000, 0.5, "f4")
    wide, many, ints = vector.astype("f8"), vector.tolist(), np.arange(1000)
    steps = np.arange(1000) * 2
    times = np.arange(1000) + NOW_MS
    return {
        "scalar": lambda i: log("loss", 0.5),
        "scalar with step": lambda i: log("at", 0.5, step=i),
        "scalar with step and timestamp": lambda i: log("when", 0.5, step=i, timestamp=NOW_MS + i),
        "scalar, evaluation": lambda i: log("loss_e", 0.5, evaluation=True),
        "scalar with labels": lambda i: log("loss_l", 0.5, labels={"layer": "3"}),
        "scalar with scale": lambda i: log("loss_s", 0.5, scale="EPOCH"),
        "scalar of NumPy": lambda i: log("loss_n", vector[7]),
        "scalar, int64": lambda i: log("count", i, dtype="int64"),
        "mapping of 10": lambda i: log(row),
        "mapping of 10 with step": lambda i: log({f"s{name}": 0.5 for name in NAMES}, step=i),
        "mapping of 10 with timestamp": lambda i: log({f"t{name}": 0.5 for name in NAMES}, timestamp=NOW_MS + i),
        "mapping of 10 arrays of 100": lambda i: log(rows),
        "vector of 1,000": lambda i: log("vector", vector),
        "vector of 1,000, float64": lambda i: log("wide_vector", wide),
        "vector of 1,000, int64": lambda i: log("int_vector", ints, dtype="int64"),
        "vector of 1,000 as a list": lambda i: log("list", many),
        "vector of 1,000 with step": lambda i: log("vector_at", vector, step=1000 * i),
        "vector of 1,000 with a step array": lambda i: log("steps", vector, step=steps + 2000 * i),
        "vector of 1,000 with a step list": lambda i: log(
            "step_list", vector, step=list(range(i * 1000, i * 1000 + 1000))
        ),
        "vector of 1,000 with one timestamp": lambda i: log("time", vector, timestamp=NOW_MS),
        "vector of 1,000 with timestamps": lambda i: log("times", vector, timestamp=times),
        "vector of 1,000 with steps and timestamps": lambda i: log(
            "both", vector, step=steps + 2000 * i, timestamp=times
        ),
        "log_distributed": lambda i: shared("d_loss", 0.5, step=i),
        "log_distributed, mapping of 10": lambda i: shared({f"d{name}": 0.5 for name in NAMES}, step=i),
        "log_distributed, vector of 1,000": lambda i: shared("d_vector", vector, step=1000 * i),
    }


def _environments(module: ModuleType) -> dict[str, Call]:
    import numpy as np

    reward = module.log_rl_environment_step
    envs, pool = [f"env{i}" for i in range(64)], [f"env{i}" for i in range(256)]
    rewards, episodes = np.full(64, 0.5, "f4"), np.zeros(64, "i8")
    row, plain, times = np.full(128, 0.5, "f4"), [0.5] * 64, np.full(64, NOW_MS)
    draw = random.Random(1)
    some = [draw.sample(pool, 64) for _ in range(1000)]
    return {
        "1 environment": lambda i: reward("one", 0.5, 1, env_id="env0", episode=0),
        "1 environment, row of 128": lambda i: reward("row", row, 1, env_id="env0", episode=0),
        "64 environments": lambda i: reward("reward", rewards, 1, env_id=envs, episode=episodes),
        "64 environments, one episode": lambda i: reward("lockstep", rewards, 1, env_id=envs, episode=i // 100),
        "64 environments, no episode": lambda i: reward("continuing", rewards, 1, env_id=envs),
        "64 environments as a list": lambda i: reward("list", plain, 1, env_id=envs, episode=[0] * 64),
        "64 environments with one timestamp": lambda i: reward(
            "time", rewards, 1, env_id=envs, episode=episodes, timestamp=NOW_MS
        ),
        "64 environments with timestamps": lambda i: reward(
            "times", rewards, 1, env_id=envs, episode=episodes, timestamp=times
        ),
        "64 environments, env_step": lambda i: reward(
            "given", rewards, 1, env_id=envs, episode=episodes, env_step=episodes + i
        ),
        "64 of 256 environments": lambda i: reward("some", rewards, 1, env_id=some[i % 1000], episode=episodes),
    }


def _grids(module: ModuleType) -> dict[str, Call]:
    import numpy as np

    reward = module.log_rl_environment_step
    envs, episodes = [f"env{i}" for i in range(64)], np.zeros(64, "i8")
    block = np.full((64, 128), 0.5, "f4")
    wide = block.astype("f8")
    ends = (np.arange(128) >= np.random.default_rng(1).integers(1, 128, (64, 1))).astype("i8")
    times = NOW_MS + np.arange(64 * 128).reshape(64, 128)
    steps = np.zeros((64, 128), "i8") + np.arange(128)
    call = lambda name, **given: lambda i: reward(name, block, 1, env_id=envs, **({"episode": episodes} | given))  # noqa: E731
    return {
        "64 × 128": lambda i: reward("block", block, 1, env_id=envs, episode=episodes),
        "64 × 128, float64": lambda i: reward("wide", wide, 1, env_id=envs, episode=episodes),
        "64 × 128, transposed": lambda i: reward("turned", wide.T.reshape(128, 64).T, 1, env_id=envs, episode=episodes),
        "64 × 128, 2-D episode": lambda i: reward("ends", block, 1, env_id=envs, episode=ends + i),
        "64 × 128, 2-D episode that stays": call("stays", episode=np.zeros((64, 128), "i8")),
        "64 × 128 with one timestamp": call("time", timestamp=NOW_MS),
        "64 × 128 with 64 timestamps": call("env_times", timestamp=times[:, 0]),
        "64 × 128 with 2-D timestamps": call("times", timestamp=times),
        "64 × 128, 2-D episode and timestamps": lambda i: reward(
            "both", block, 1, env_id=envs, episode=ends + i, timestamp=times
        ),
        "64 × 128, env_step": lambda i: reward(
            "given", block, 1, env_id=envs, episode=episodes, env_step=steps + 128 * i
        ),
    }


def _episodes(module: ModuleType) -> dict[str, Call]:
    import numpy as np

    episode, values = module.log_rl_episode, np.full(100, 0.5)
    numbers = np.arange(100)
    return {
        "log_rl_episode": lambda i: episode("return", 0.5, 1, episode=i, env_id="env3"),
        "log_rl_episode, counted": lambda i: episode("counted", 0.5, 1, env_id="env3"),
        "log_rl_episode with timestamp": lambda i: episode("when", 0.5, 1, episode=i, env_id="env3", timestamp=NOW_MS),
        "log_rl_episode, 100": lambda i: episode("many", values, 1, env_id="env3"),
        "log_rl_episode, 100 with episodes": lambda i: episode(
            "each", values, 1, episode=numbers + 100 * i, env_id="env3"
        ),
    }


def _attributes(module: ModuleType) -> dict[str, Call]:
    config = {f"key{i}": i for i in range(10)}
    nested = {"optimizer": {"name": "adam", "lr": 3e-4}, "batch_size": 256}
    return {
        "log_config of 10": lambda i: module.log_config(config),
        "log_config, nested": lambda i: module.log_config(nested),
        "log_attributes": lambda i: module.log_attributes("state/epoch", i),
        "log_attributes of 10": lambda i: module.log_attributes("state", config),
        "log_env_attributes": lambda i: module.log_env_attributes("env0", {"seed": i}),
        "log_env_attributes, episode": lambda i: module.log_env_attributes("env0", {"seed": i}, episode=i),
        "set_tags": lambda i: module.set_tags(["a", "b"]),
        "add_tags": lambda i: module.add_tags(["c"]),
        "remove_tags": lambda i: module.remove_tags(["c"]),
        "set_description": lambda i: module.set_description("first try"),
    }


def _documents(module: ModuleType) -> dict[str, Call]:
    import numpy as np

    data = np.random.default_rng(1).normal(size=(64, 3))
    counts, edges = np.histogram(data, 64)
    points, made = data.T.tolist(), getattr(module, "Histogram", None) or module.types.Histogram
    return {
        "log_histogram": lambda i: module.log_histogram("hist", made(edges, counts=counts), step=i),
        "log_scatter": lambda i: module.log_scatter("scatter", points[0], points[1], step=i),
        "log_scatter3d": lambda i: module.log_scatter3d("scatter3d", *points, step=i),
        "log_text": lambda i: module.log_text("sample", "Once upon a time", step=i),
    }
