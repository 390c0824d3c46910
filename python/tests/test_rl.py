"""The RL calls against a plain model: a dict of counters by environment and episode."""

from __future__ import annotations

import random
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import kymogram
from kymogram._points.current import current
from kymogram._points.logger import Logger
from kymogram._points.series import Starts
from kymogram._points.tables import forget
from kymogram._spool.folders import make_root
from kymogram._spool.writer import Writer

from . import reader

ENVS = ["e0", "e1", "e2"]


def rows(spool: Path, metric: str) -> list[tuple[Any, ...]]:
    return [
        (p.labels["env_id"], p.axes.get("episode"), p.axes["rl_step"], p.axes["step"], p.value)
        for p in reader.all_points(spool)
        if p.metric == metric
    ]


def test_one_environment(run: kymogram.Run, spool: Path) -> None:
    kymogram.log_rl_environment_step("reward", 1.0, rl_step=0)
    kymogram.log_rl_environment_step("reward", [2, 3], rl_step=1)
    kymogram.log_rl_environment_step("reward", 4.0, 2, False, 1, "a")
    kymogram.log_rl_environment_step("reward", [5, 6, 7], rl_step=3, env_id="a", episode=[1, 2, 2])
    kymogram.log_rl_environment_step("reward", 8.0, rl_step=4, env_id="a", episode=1)
    assert rows(spool, "reward") == [
        ("default", None, 0, 0, 1),
        ("default", None, 1, 1, 2),
        ("default", None, 1, 2, 3),
        ("a", 1, 2, 0, 4),
        ("a", 1, 3, 1, 5),
        ("a", 2, 3, 0, 6),
        ("a", 2, 3, 1, 7),
        ("a", 1, 4, 2, 8),
    ]
    found = reader.all_points(spool)
    assert {p.scale for p in found} == {"ENVIRONMENT_STEP"}
    assert all(p.axes["env_step"] == p.axes["step"] and p.relative for p in found)
    assert kymogram.get_env_last_rl_step_and_episode("a") == (4, 1)
    assert kymogram.get_env_last_rl_step_and_episode() == (1, None)
    assert kymogram.get_env_last_rl_step_and_episode("unseen") == (None, None)


def test_another_set_of_environments_in_every_call(run: kymogram.Run, spool: Path) -> None:
    """As with masks, or an asynchronous pool: what is remembered of the sets is bounded."""
    draw = random.Random(1)
    envs = [f"e{n}" for n in range(16)]
    where: dict[str, tuple[int, int]] = {}
    expected: list[tuple[Any, ...]] = []
    counts = dict.fromkeys(envs, 0)
    for update in range(1000):
        some = draw.sample(envs, 8) if update % 3 else envs
        values = np.arange(len(some)) + float(update)
        metric = "reward" if update % 2 else "cost"
        kymogram.log_rl_environment_step(metric, values, update, env_id=some, episode=7)
        for env, value in zip(some, values):
            where[env] = update, 7
            if metric == "reward":
                expected.append((env, 7, update, counts[env], value))
                counts[env] += 1
    assert rows(spool, "reward") == expected
    assert {env: kymogram.get_env_last_rl_step_and_episode(env) for env in envs} == where
    assert current.logger is not None
    rl = current.logger().rl
    assert rl is not None
    assert len(rl._last) == 2  # a metric's last set


def test_evaluation_and_labels_are_other_series(run: kymogram.Run, spool: Path) -> None:
    for _ in range(2):
        kymogram.log_rl_environment_step("r", [1, 2, 3], rl_step=0, env_id=ENVS)
        kymogram.log_rl_environment_step("r", [4, 5, 6], 0, True, env_id=ENVS, labels={"p": "x"})
    found = [p for p in reader.all_points(spool) if p.labels["env_id"] == "e1"]
    plain = [p for p in found if "p" not in p.labels]
    other = [p for p in found if p.labels == {"env_id": "e1", "evaluation": "true", "p": "x"}]
    assert [(p.axes["step"], p.value) for p in plain] == [(0, 2), (1, 2)]
    assert [(p.axes["step"], p.value) for p in other] == [(0, 5), (1, 5)]


def test_episodes(run: kymogram.Run, spool: Path) -> None:
    kymogram.log_rl_episode("ret", 1.0, rl_step=0)
    kymogram.log_rl_episode("ret", 2.0, rl_step=0)
    kymogram.log_rl_episode("ret", 3.0, 1, False, 10, "default")
    kymogram.log_rl_episode("ret", [4.0, 5.0], rl_step=2)
    kymogram.log_rl_episode("ret", [6.0, 7.0], rl_step=3, episode=[20, 30], env_id="b")
    assert rows(spool, "ret") == [
        ("default", None, 0, 0, 1),
        ("default", None, 0, 1, 2),
        ("default", 10, 1, 10, 3),
        ("default", None, 2, 11, 4),
        ("default", None, 2, 12, 5),
        ("b", 20, 3, 20, 6),
        ("b", 30, 3, 30, 7),
    ]
    assert {p.scale for p in reader.all_points(spool)} == {"EPISODE"}
    assert kymogram.get_env_last_rl_step_and_episode("b") == (3, 30)


def test_large_call_is_cut(run: kymogram.Run, spool: Path) -> None:
    data = np.arange(16 * 9000, dtype="f8").reshape(16, 9000)
    envs = [f"env{i}" for i in range(16)]
    episodes = np.zeros((16, 9000), "i8")
    for _ in range(2):
        kymogram.log_rl_environment_step("r", data, rl_step=1, env_id=envs, episode=episodes)
    episodes[:, 8900:] = 1
    kymogram.log_rl_environment_step("r", data, rl_step=2, env_id=envs, episode=episodes)
    found = [p for p in reader.all_points(spool) if p.labels["env_id"] == "env7"]
    assert [p.value for p in found] == data[7].tolist() * 3
    expected = [*range(18_000), *range(18_000, 26_900), *range(100)]
    assert [p.axes["step"] for p in found] == expected


BAD: list[tuple[dict[str, Any], str]] = [
    ({"value": [1, 2], "env_id": ENVS}, r"shape \(2,\)"),
    ({"value": 1.0, "env_id": ENVS}, r"shape \(\)"),
    ({"value": np.zeros((3, 2, 2)), "env_id": ENVS}, "shape"),
    ({"value": [[1, 2], [1], [1, 2]], "env_id": ENVS}, "unequal lengths"),
    ({"value": [1, 2, 3], "env_id": []}, "empty list"),
    ({"value": [1, 2, 3], "env_id": ["a", "b c", "d"]}, "white space ' '"),
    ({"value": 1.0, "env_id": "a/b"}, "contains '/'"),
    ({"value": 1.0, "rl_step": -1}, "negative"),
    ({"value": 1.0, "rl_step": 1.5}, "integer"),
    ({"value": 1.0, "rl_step": None}, "integer"),
    ({"value": 1.0, "episode": -2}, "negative"),
    ({"value": [1, 2, 3], "env_id": ENVS, "episode": [1, 2]}, "episode has"),
    ({"value": [1, 2, 3], "env_id": ENVS, "episode": [1, 2, -3]}, "negative"),
    ({"value": [1, 2, 3], "env_id": ENVS, "timestamp": [1, 2]}, "timestamp has 2"),
    ({"value": "x"}, "not a number"),
    ({"value": 1.0, "labels": {"a=": "b"}}, "'='"),
]


@pytest.mark.parametrize(
    ("arguments", "message", "with_numpy"),
    [
        (*one, numpy)
        for one in BAD
        for numpy in (True, False)
        if numpy or not isinstance(one[0]["value"], np.ndarray)
    ],
)
def test_bad_arguments(
    run: kymogram.Run,
    spool: Path,
    monkeypatch: pytest.MonkeyPatch,
    arguments: dict[str, Any],
    message: str,
    with_numpy: bool,
) -> None:
    if not with_numpy:
        monkeypatch.delitem(sys.modules, "numpy")
    given = {"rl_step": 1, **arguments}
    value = given.pop("value")
    with pytest.raises(kymogram.KymogramValidationError, match=message):
        kymogram.log_rl_environment_step("reward", value, **given)
    assert reader.all_points(spool) == []


vector_calls = st.builds(
    lambda order, length, episodes, how: (order, length, episodes, how),
    st.lists(st.sampled_from(ENVS), min_size=1, max_size=3, unique=True),
    st.integers(1, 4),
    st.lists(st.integers(0, 2), min_size=12, max_size=12),
    st.sampled_from(["none", "one", "each", "all", "single"]),
)


@pytest.mark.parametrize("with_numpy", [True, False])
@pytest.mark.parametrize("complete", [True, False])
@settings(
    max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(script=st.lists(vector_calls, max_size=12))
def test_environment_steps_follow_the_model(
    tmp_path: Path, with_numpy: bool, complete: bool, script: list[Any]
) -> None:
    """Whatever is vectorised how, an environment counts within its episode."""
    numpy = sys.modules.pop("numpy")
    try:
        if with_numpy:
            sys.modules["numpy"] = numpy
        found, expected = _play(tmp_path / str(time.time_ns()), complete, script, with_numpy)
    finally:
        sys.modules["numpy"] = numpy
    assert found == expected


def _play(root: Path, complete: bool, script: list[Any], with_numpy: bool) -> tuple[Any, Any]:
    make_root(str(root))
    name = "33" * 16
    document = {"format": 1, "server": "x", "open": {"writer": name, "opened_ns": 1}}
    writer = Writer(str(root), name, document, forget=forget)
    logger = Logger(writer, Starts({"starts_complete": True} if complete else None))
    current.logger = lambda: logger
    counters: dict[tuple[str, int | None], int] = {}
    expected: dict[str, list[tuple[Any, ...]]] = {env: [] for env in ENVS}
    for rl, (order, length, numbers, how) in enumerate(script):
        if how == "single":
            order = order[:1]
        matrix = [[float(100 * rl + 10 * m + t) for t in range(length)] for m in range(len(order))]
        episodes: Any = None
        grid: list[list[int | None]] = [[None] * length for _ in order]
        if how == "one":
            episodes, grid = numbers[0], [[numbers[0]] * length for _ in order]
        elif how == "each":
            episodes = numbers[: len(order)]
            grid = [[one] * length for one in episodes]
        elif how in ("all", "single"):
            episodes = [sorted(numbers[4 * m : 4 * m + length]) for m in range(len(order))]
            grid = [list(row) for row in episodes]
        value: Any = matrix
        envs: Any = order
        if how == "single":
            value, envs, episodes = matrix[0], order[0], episodes[0]
        if with_numpy:
            value = np.array(value, "f4")
            episodes = np.array(episodes) if isinstance(episodes, list) else episodes
        kymogram.log_rl_environment_step("r", value, rl_step=rl, env_id=envs, episode=episodes)
        for m, env in enumerate(order):
            for t in range(length):
                step = counters.get((env, grid[m][t]), 0)
                counters[env, grid[m][t]] = step + 1
                expected[env].append((grid[m][t], rl, step, matrix[m][t]))
    current.logger = None
    writer.close()
    points = reader.all_points(root)
    assert all(p.relative != complete for p in points)
    assert all(p.axes["step"] == p.axes["env_step"] for p in points)
    found = {
        env: [
            (p.axes.get("episode"), p.axes["rl_step"], p.axes["step"], p.value)
            for p in points
            if p.labels["env_id"] == env
        ]
        for env in ENVS
    }
    return found, expected


def test_a_dtype_that_the_series_does_not_hold(
    spool: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """As in log(): float64 takes int64 and says so once, int64 takes no float64."""
    kymogram.init(run_name="r")
    log = kymogram.log_rl_environment_step
    log("n", 2**60, 0, episode=0, dtype="int64")
    with pytest.raises(kymogram.KymogramValidationError, match="'n' holds int64 since its first"):
        log("n", 1, 1, episode=0, dtype="float64")
    log("n", 2**60 + 1, 1, episode=0)
    log("x", 0.5, 0, episode=0)
    for step in (1, 2):
        log("x", 3, step, episode=0, dtype="int64")
    assert capsys.readouterr().err.count("'x' holds float64 since its first point") == 1
    assert [row[2:] for row in rows(spool, "n")] == [(0, 0, 2**60), (1, 1, 2**60 + 1)]
    assert [row[2:] for row in rows(spool, "x")] == [(0, 0, 0.5), (1, 1, 3.0), (2, 2, 3.0)]
