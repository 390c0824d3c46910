"""Random calls in every form, against the plain program of seed_model.py.

What the spool holds is read by reader.py. Neither shares a line with the package, so a fast
way of a call has to leave what a loop over single values would.
"""

from __future__ import annotations

import random
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import kymogram
from kymogram._points.current import current
from kymogram._points.logger import Logger
from kymogram._points.series import Starts
from kymogram._points.tables import forget
from kymogram._spool.folders import make_root
from kymogram._spool.writer import Writer

from . import reader
from .seed_model import Model, stored

np: Any = pytest.importorskip("numpy")

ENVS = [f"e{n}" for n in range(7)]
NOW_MS = 1_790_000_000_000
DTYPES = ["f8", "f4", "f2", ">f4", "i8", "u1", "<i4", "?", "u8"]


@pytest.fixture(autouse=True)
def strict() -> Iterator[None]:
    with np.errstate(all="raise"):
        yield


@pytest.fixture
def logger(tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[Logger]:
    root = tmp_path / "spool"
    make_root(str(root))
    name = "33" * 16
    document = {"format": 1, "server": "x", "open": {"writer": name, "opened_ns": 1}}
    writer = Writer(str(root), name, document, first_size=64 << 10, forget=forget)
    complete = getattr(request, "param", False)
    logger = Logger(writer, Starts({"starts_complete": True} if complete else None))
    current.logger = lambda: logger
    yield logger
    current.logger = None
    writer.close()


class Draw:
    """Random arguments of a call, each as what is given and as plain numbers."""

    def __init__(self, seed: int, arrays: bool) -> None:
        self.rng = random.Random(seed)
        self.arrays = arrays
        self.base: dict[str, bool] = {}

    def pick(self, *some: Any) -> Any:
        return self.rng.choice(some)

    def _as(self, plain: Any, dtypes: list[str]) -> Any:
        """Plain numbers in one of the forms that a caller has."""
        if not self.arrays or self.rng.random() < 0.2:
            return tuple(plain) if self.rng.random() < 0.2 else plain
        found = np.array(plain, dtype=self.pick(*dtypes))
        return self.laid_out(found)

    def laid_out(self, found: Any) -> Any:
        """The same numbers, not always in order."""
        how = self.rng.random()
        if how < 0.2:
            wide = np.zeros((*found.shape[:-1], 2 * found.shape[-1]), dtype=found.dtype)
            wide[..., ::2] = found
            return wide[..., ::2]
        if how < 0.35:
            return np.asfortranarray(found)
        if how < 0.45:
            return found[..., ::-1].copy()[..., ::-1]
        return found

    def values(self, *shape: int, ints: bool = False) -> tuple[Any, Any]:
        count = int(np.prod(shape))
        if ints:
            plain: Any = [self.rng.randrange(-(2**63), 2**63) for _ in range(count)]
            found = np.array(plain, dtype="i8").reshape(shape)
        else:
            plain = [self.rng.gauss(0, 100) for _ in range(count)]
            for special in (float("nan"), float("inf"), -0.0, 1e300, 5e-324):
                if self.rng.random() < 0.1:
                    plain[self.rng.randrange(count)] = special
            found = np.array(plain).reshape(shape)
            if self.arrays:
                kind = self.pick(*DTYPES)
                with np.errstate(all="ignore"):
                    small = found if "f" in kind else np.nan_to_num(found % 100)
                    found = small.astype(kind)
        exact = found.tolist() if ints else found.astype("f8").tolist()
        return (self.laid_out(found) if self.arrays else found.tolist()), exact

    def steps(self, rows: int) -> tuple[Any, Any]:
        how = self.rng.random()
        first = self.rng.randrange(1000)
        if how < 0.3:
            return None, None
        if how < 0.5:
            return first, first
        plain = [first + self.rng.randrange(-1, 4) * n for n in range(rows)]
        plain = [abs(one) for one in plain]
        return self._as(plain, ["i8", "i4", "u8", "f8", ">i8", "u2"]), plain

    def ms(self) -> tuple[Any, int]:
        if self.rng.random() < 0.5:
            whole = NOW_MS + self.rng.randrange(10**6)
            return whole, whole * 10**6
        part = self.rng.randrange(64)  # of 64: floats hold it, and so do whole nanoseconds
        return NOW_MS + part / 64, NOW_MS * 10**6 + part * 10**6 // 64

    def times(self, *shape: int) -> tuple[Any, Any]:
        found = [self.ms() for _ in range(int(np.prod(shape)))]
        if self.rng.random() < 0.3:
            found = [found[0]] * len(found)  # all equal
        elif len(shape) == 2 and self.rng.random() < 0.5:
            found = found[: shape[1]] * shape[0]  # the same for every environment
        plain = np.array([ns for _, ns in found], dtype="i8").reshape(shape).tolist()
        given = [one for one, _ in found]
        if any(isinstance(one, float) for one in given):
            whole = np.array(given, "f8").reshape(shape).tolist()
            return self._as(whole, ["f8", ">f8"]), plain
        return self._as(np.array(given, "i8").reshape(shape).tolist(), ["i8", "u8"]), plain

    def time(self, *shapes: tuple[int, ...]) -> tuple[Any, Any]:
        how = self.pick(None, "one", *shapes)
        if how is None:
            return None, None
        return self.ms() if how == "one" else self.times(*how)

    def identity(self) -> dict[str, Any]:
        return {
            "labels": self.pick({}, {}, {"layer": "3"}),
            "evaluation": self.pick(False, False, True),
        }

    # calls

    def log(self) -> dict[str, Any]:
        ints = self.rng.random() < 0.2
        rows = self.pick(1, 2, 5, 40)
        given, plain = self.values(rows, ints=ints)
        if rows == 1 and self.rng.random() < 0.5:
            given = given[0]
        step, steps = self.steps(rows)
        when, times = self.time((rows,))
        scale = self.pick(None, None, "EPOCH")
        metric = ("int" if ints else "plain") + str(self.rng.randrange(3))
        identity = self.identity()
        kymogram.log(
            metric, given, scale, step, timestamp=when, **identity, dtype="int64" if ints else None
        )
        return {
            "call": "log",
            "values": [(metric, plain)],
            "step": steps,
            "time": times,
            "scale": scale,
            **identity,
        }

    def mapping(self) -> dict[str, Any]:
        rows = self.pick(1, 3)
        found = {f"plain{n}": self.values(rows) for n in range(self.pick(1, 3))}
        step, steps = self.steps(rows)
        when, times = self.time((rows,))
        identity = self.identity()
        kymogram.log(
            {name: given for name, (given, _) in found.items()},
            step=step,
            timestamp=when,
            **identity,
        )
        values = [(name, plain) for name, (_, plain) in found.items()]
        return {
            "call": "log",
            "values": values,
            "step": steps,
            "time": times,
            "scale": None,
            **identity,
        }

    def episode(self) -> dict[str, Any]:
        rows = self.pick(1, 1, 4)
        given, plain = self.values(rows)
        if rows == 1 and self.rng.random() < 0.8:
            given = self.pick(given[0], plain[0])
        number, numbers = self.steps(rows)
        when, times = self.time((rows,))
        env, rl, identity = self.rng.choice(ENVS), self.rng.randrange(9), self.identity()
        kymogram.log_rl_episode(
            "ret", given, rl, episode=number, env_id=env, timestamp=when, **identity
        )
        return {
            "call": "episode",
            "metric": "ret",
            "values": plain,
            "rl_step": rl,
            "episode": numbers,
            "env": env,
            "time": times,
            **identity,
        }

    def episodes(self, many: int, rows: int) -> tuple[Any, Any]:
        how = self.pick(None, "one", "each", "grid", "grid")
        if how is None:
            return None, None
        if how == "one":
            number = self.rng.randrange(4)
            return number, number
        if how == "each":
            plain: Any = [self.rng.randrange(4) for _ in range(many)]
        else:
            rising = self.rng.random() < 0.7
            plain = [[self.rng.randrange(6) for _ in range(rows)] for _ in range(many)]
            plain = [sorted(row) if rising else row for row in plain]
        return self._as(plain, ["i8", "i4", "u1", ">i8", "f8"]), plain

    def environments(self) -> dict[str, Any]:
        ints = self.rng.random() < 0.1
        many, rows = self.pick(1, 2, 5, 7), self.pick(1, 2, 6)
        flat = rows == 1 and self.rng.random() < 0.7
        envs = self.rng.sample(ENVS, many) if self.rng.random() < 0.6 else ENVS[:many]
        if self.rng.random() < 0.05:
            envs = [envs[0]] * many  # one that comes twice
        given, plain = self.values(*((many,) if flat else (many, rows)), ints=ints)
        plain = [[one] for one in plain] if flat else plain
        episode, grid = self.episodes(many, rows)
        when, times = self.time((many,), (many, rows))
        if isinstance(times, list) and many == 1 == len(times) and not isinstance(times[0], list):
            times = times * many
        env_step, steps = None, None
        if self.rng.random() < 0.15:
            first = self.rng.randrange(50)
            if self.rng.random() < 0.5:
                env_step, steps = first, [list(range(first, first + rows))] * many
            else:
                steps = [[first + 2 * m + 3 * t for t in range(rows)] for m in range(many)]
                env_step = self._as(steps, ["i8", "i4", "u8", "f8"])
        metric = ("count" if ints else "reward") + str(self.rng.randrange(2))
        from_one = self.base.setdefault(metric, self.rng.random() < 0.3)
        rl, identity = self.rng.randrange(9), self.identity()
        kymogram.log_rl_environment_step(
            metric,
            given,
            rl,
            env_id=envs,
            episode=episode,
            timestamp=when,
            env_step=env_step,
            auto_start_from_one=from_one,
            dtype="int64" if ints else None,
            **identity,
        )
        return {
            "call": "environment_step",
            "metric": metric,
            "values": plain,
            "rl_step": rl,
            "envs": envs,
            "episode": grid,
            "time": times,
            "env_step": steps,
            "from_one": from_one,
            **identity,
        }

    def environment(self) -> dict[str, Any]:
        """One environment, not in a list: a number or its row."""
        rows, env = self.pick(1, 3), self.pick(None, *ENVS)
        given, plain = self.values(rows)
        if rows == 1 and self.rng.random() < 0.5:
            given = given[0]
        episode, grid = self.pick((None, None), (2, 2), self.episodes(1, rows))
        if isinstance(grid, list) and isinstance(grid[0], list):
            episode, grid = self._as(grid[0], ["i8", "i4"]), grid
        when, times = self.time((rows,))
        rl = self.rng.randrange(9)
        kymogram.log_rl_environment_step(
            "alone", given, rl, episode=episode, env_id=env, timestamp=when
        )
        return {
            "call": "environment_step",
            "metric": "alone",
            "values": [plain],
            "rl_step": rl,
            "envs": [env or "default"],
            "episode": grid,
            "time": [times] if isinstance(times, list) else times,
            "env_step": None,
            "from_one": False,
            "labels": {},
            "evaluation": False,
        }


@pytest.mark.parametrize("logger", [False, True], indirect=True, ids=["offline", "known"])
@pytest.mark.parametrize("arrays", [True, False], ids=["numpy", "lists"])
@pytest.mark.parametrize("seed", range(12))
def test_a_call_leaves_what_a_loop_would(
    logger: Logger, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, arrays: bool, seed: int
) -> None:
    draw, model = Draw(seed, arrays), Model()
    if not arrays:
        monkeypatch.delitem(sys.modules, "numpy")
    calls = [draw.log, draw.mapping, draw.episode, draw.environment, *[draw.environments] * 3]
    for _ in range(200):
        call = draw.rng.choice(calls)
        before = time.time_ns()
        step = call()
        model.apply(step, (before, time.time_ns()))
    _compare(model, tmp_path / "spool")
    assert logger.rl is not None
    assert {env: logger.rl.last(env) for env in model.env} == model.env
    counts = logger.writer.counts()
    assert (counts.floats, counts.rl) == (model.floats, model.rl)


def _compare(model: Model, root: Path) -> None:
    found: dict[Any, list[reader.Point]] = {}
    for point in reader.all_points(root):
        key = (point.metric, point.scale, tuple(sorted(point.labels.items())))
        found.setdefault(key, []).append(point)
    assert found.keys() == model.points.keys()
    for key, points in found.items():
        expected = model.points[key]
        assert len(points) == len(expected), key
        for point, wanted in zip(points, expected, strict=True):
            assert point.axes == wanted["axes"], key
            assert stored(point.value) == wanted["value"], key
            assert wanted["lo"] <= point.time_ns <= wanted["hi"], key


BAD_TIMES: list[Any] = [
    [NOW_MS, float("nan"), NOW_MS],
    [NOW_MS, NOW_MS, -1],
    [NOW_MS, 2**62, NOW_MS],
    [NOW_MS, float("inf"), 1.0],
]
BAD_STEPS: list[Any] = [[1, -2, 3], [1, 2, 1.5], [2**62 + 1, 2**63, 1], [1.0, float("nan"), 2.0]]


def _renamed(given: dict[str, Any], step: str) -> dict[str, Any]:
    return {step if name == "step" else name: one for name, one in given.items()}


FORMS = {
    "vector": lambda given: kymogram.log("x", np.ones(3), **given),
    "list": lambda given: kymogram.log("x", [1.0, 2.0, 3.0], **given),
    "mapping": lambda given: kymogram.log({"x": np.ones(3), "y": [1, 2, 3]}, **given),
    "episode": lambda given: kymogram.log_rl_episode(
        "x",
        np.ones(3),
        1,
        **{{"step": "episode"}.get(name, name): one for name, one in given.items()},
    ),
    "row": lambda given: kymogram.log_rl_environment_step(
        "x",
        np.ones(3),
        1,
        **_renamed(given, "env_step"),
    ),
    "environments": lambda given: kymogram.log_rl_environment_step(
        "x",
        np.ones(3),
        1,
        env_id=ENVS[:3],
        **_renamed(given, "env_step"),
    ),
}


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("known", [False, True])
@pytest.mark.parametrize("as_array", [False, True])
@pytest.mark.parametrize(
    ("what", "given"),
    [*(("timestamp", one) for one in BAD_TIMES), *(("step", one) for one in BAD_STEPS)],
)
def test_an_error_names_the_element_and_leaves_nothing(
    logger: Logger, tmp_path: Path, form: str, known: bool, as_array: bool, what: str, given: Any
) -> None:
    call: Any = FORMS[form]
    if known:
        for _ in range(3):
            call({})
    written = len(reader.all_points(tmp_path / "spool"))
    bad = np.array(given) if as_array else given
    with pytest.raises(kymogram.KymogramValidationError, match=r"\((row \d, )?element \d\)"):
        call({what: bad})
    assert len(reader.all_points(tmp_path / "spool")) == written
    call({})  # and nothing is spoiled


def test_seconds_in_an_array_are_noticed(
    logger: Logger, capsys: pytest.CaptureFixture[str]
) -> None:
    kymogram.log("x", np.ones(3), timestamp=np.array([NOW_MS, time.time(), NOW_MS]))
    assert "give seconds times 1000" in capsys.readouterr().err


def test_numpy_that_is_imported_later(
    logger: Logger, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as without:
        without.delitem(sys.modules, "numpy")
        for _ in range(2):
            kymogram.log_rl_environment_step("r", [1.0, 2.0], 1, env_id=["b", "a"], episode=[3, 4])
    kymogram.log_rl_environment_step("r", np.ones(2), 2, env_id=["b", "a"], episode=[3, 5])
    found = [p for p in reader.all_points(tmp_path / "spool") if p.labels["env_id"] == "a"]
    assert [(p.axes["episode"], p.axes["step"]) for p in found] == [(4, 0), (4, 1), (5, 0)]


@pytest.mark.parametrize("arrays", [True, False])
def test_memory_does_not_grow_with_calls(
    logger: Logger, monkeypatch: pytest.MonkeyPatch, arrays: bool
) -> None:
    """Other environments, other times, failed calls, objects that are made anew."""
    import tracemalloc

    class Number:
        def __init__(self, value: int) -> None:
            self.value = value

        def __index__(self) -> int:
            return self.value

    rng = random.Random(1)
    bad: Any = "x"
    if not arrays:
        monkeypatch.delitem(sys.modules, "numpy")

    def calls(some: int) -> None:
        for n in range(some):
            envs: list[Any] = rng.sample(ENVS, 3)
            value = np.ones(3) if arrays else [1.0] * 3
            kymogram.log_rl_environment_step("r", value, n, env_id=envs, episode=n)
            numbers: Any = [Number(1), Number(2), Number(3)]
            kymogram.log_rl_environment_step("n", value, n, env_id=numbers, episode=[n, 1, 2])
            kymogram.log_rl_environment_step("one", 1.0, n, env_id=rng.choice(ENVS), episode=n)
            kymogram.log_rl_episode("e", 1.0, n, env_id=rng.choice(ENVS))
            kymogram.log("v", value, timestamp=[NOW_MS + n] * 3)
            with pytest.raises(kymogram.KymogramValidationError):
                kymogram.log_rl_environment_step("new", bad, n, env_id=[f"new{n}"])

    calls(400)
    tracemalloc.start()
    calls(100)
    before = tracemalloc.take_snapshot()
    calls(600)
    after = tracemalloc.take_snapshot()
    tracemalloc.stop()
    grown = sum(one.size_diff for one in after.compare_to(before, "filename"))
    assert grown < 60_000, after.compare_to(before, "lineno")[:10]
