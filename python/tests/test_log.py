"""What log() writes, read back by the tests' own reader."""

from __future__ import annotations

import math
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import kymogram
from kymogram import _say
from kymogram._points import tables
from kymogram._points.current import current
from kymogram._points.logger import Logger
from kymogram._points.series import Starts
from kymogram._spool import writer as _writer
from kymogram._spool.folders import make_root
from kymogram._spool.writer import Writer

from . import reader


def logged(spool: Path, metric: str | None = None) -> list[reader.Point]:
    found = reader.all_points(spool)
    return [p for p in found if metric is None or p.metric == metric]


def steps(found: list[reader.Point]) -> list[int]:
    return [p.axes["step"] for p in found]


def test_scalars_in_order(run: kymogram.Run, spool: Path) -> None:
    before = time.time_ns()
    values = [0.5, -1.0, math.inf, -math.inf, math.nan, 1e-320, 3.0]
    for value in values:
        kymogram.log("loss", value)
    found = logged(spool)
    assert [p.same(v) for p, v in zip(found, values)] == [True] * len(values)
    assert steps(found) == list(range(7))
    assert all(p.relative and p.scale == "ML_STEP" and p.labels == {} for p in found)
    assert all(before <= p.time_ns <= time.time_ns() for p in found)


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (True, 1.0),
        (3, 3.0),
        (np.float32(0.1), float(np.float32(0.1))),
        (np.float64(0.1), 0.1),
        (np.float16(2), 2.0),
        (np.int64(-4), -4.0),
        (np.uint8(200), 200.0),
        (np.bool_(True), 1.0),
        (np.array(2.5), 2.5),
    ],
)
def test_kinds_of_scalars(run: kymogram.Run, spool: Path, value: Any, expected: float) -> None:
    for _ in range(3):  # the second and third take other paths than the first
        kymogram.log("x", value)
        kymogram.log("y", value, step=4)
        kymogram.log({"a": value, "b": value})
    for metric in "xyab":
        assert [p.value for p in logged(spool, metric)] == [expected] * 3, metric
    assert steps(logged(spool, "x")) == [0, 1, 2]
    assert steps(logged(spool, "a")) == [0, 1, 2]


class Tensor:
    """What torch shows of a tensor."""

    def __init__(self, data: Any, dtype: str = "f4") -> None:
        self.data = np.asarray(data, dtype=dtype)
        self.asked: list[str] = []

    def detach(self) -> Tensor:
        return self

    def cpu(self) -> Tensor:
        self.asked.append("cpu")
        return self

    def numpy(self) -> np.ndarray[Any, Any]:
        return self.data


class Bfloat(Tensor):
    def numpy(self) -> np.ndarray[Any, Any]:
        raise TypeError("Got unsupported ScalarType BFloat16")

    def double(self) -> Tensor:
        return Tensor(self.data, "f8")


class Jax:
    def __init__(self, data: Any) -> None:
        self.data = data

    def __array__(self, dtype: Any = None, copy: Any = None) -> np.ndarray[Any, Any]:
        return np.asarray(self.data, dtype=dtype)


@pytest.mark.parametrize(
    "value",
    [
        [1, 2.5, 3],
        (1.0, 2.5, 3.0),
        np.array([1, 2.5, 3], "f4"),
        np.array([1, 2.5, 3], ">f8"),
        np.array([0, 1, 2.5, 3])[1:],
        np.array([1, 9, 2.5, 9, 3, 9])[::2],
        Tensor([1, 2.5, 3]),
        Bfloat([1, 2.5, 3]),
        Jax([1, 2.5, 3]),
        [np.float32(1), Tensor(2.5), 3],
    ],
)
def test_vectors(run: kymogram.Run, spool: Path, value: Any) -> None:
    kymogram.log("v", value)
    kymogram.log("v", 9.0)
    kymogram.log("v", value)
    found = logged(spool)
    assert [p.value for p in found] == [1, 2.5, 3, 9, 1, 2.5, 3]
    assert steps(found) == list(range(7))


def test_empty_vector_is_no_point(run: kymogram.Run, spool: Path) -> None:
    kymogram.log("v", [])
    kymogram.log("v", np.zeros(0))
    kymogram.log({})
    assert logged(spool) == []
    assert kymogram.get_metrics().float_points_added == 0


def test_steps(run: kymogram.Run, spool: Path) -> None:
    kymogram.log("a", 1.0)
    kymogram.log("a", 1.0, step=10)
    kymogram.log("a", 1.0)
    kymogram.log("a", [1, 2, 3])
    kymogram.log("a", [1, 2], step=100)
    kymogram.log("a", [1, 2, 3], step=[7, 5, 5])
    kymogram.log("a", 1.0)
    kymogram.log("a", 1.0, step=np.int64(50))
    kymogram.log("a", 1.0, step=51.0)
    kymogram.log("a", [1.0], step=np.array([60]))
    kymogram.log({"a": 1.0, "b": 1.0})
    kymogram.log({"a": 1.0, "b": 1.0}, step=3)
    kymogram.log({"a": 1.0, "b": 1.0})
    found = logged(spool, "a")
    assert steps(found) == [0, 10, 11, 12, 13, 14, 100, 101, 7, 5, 5, 6, 50, 51, 60, 61, 3, 4]
    assert [p.relative for p in found] == [True] + [False] * 17
    assert steps(logged(spool, "b")) == [0, 3, 4]
    assert [p.relative for p in logged(spool, "b")] == [True, False, False]
    assert kymogram.get_last_step("a") == 4


def test_last_step(run: kymogram.Run) -> None:
    run.logger().starts = Starts({"starts_complete": True})
    assert kymogram.get_last_step("loss") is None
    for _ in range(5):
        kymogram.log("loss", 1.0)
    assert kymogram.get_last_step("loss") == 4
    kymogram.log("loss", 1.0)
    assert kymogram.get_last_step("loss") == 5
    kymogram.log("loss", 1.0, labels={"a": "b"}, step=9)
    assert kymogram.get_last_step("loss", labels={"a": "b"}) == 9
    assert kymogram.get_last_step("loss") == 5


def test_timestamps(run: kymogram.Run, spool: Path) -> None:
    kymogram.log("t", 1.0, timestamp=1_700_000_000_000)
    kymogram.log("t", [1, 2], timestamp=1_700_000_000_000.5)
    kymogram.log("t", [1, 2], timestamp=[1, 2])
    kymogram.log({"t": 1.0, "u": 2.0}, timestamp=5)
    assert [p.time_ns for p in logged(spool, "t")] == [
        1_700_000_000_000_000_000,
        1_700_000_000_000_500_000,
        1_700_000_000_000_500_000,
        1_000_000,
        2_000_000,
        5_000_000,
    ]
    assert steps(logged(spool, "t")) == list(range(6))


def test_identity(run: kymogram.Run, spool: Path) -> None:
    for _ in range(2):
        kymogram.log("r", 1.0)
        kymogram.log("r", 2.0, evaluation=True)
        kymogram.log("r", 3.0, labels={"b": "2", "a": "1"})
        kymogram.log("r", 4.0, labels={"a": "1", "b": "2"}, scale="EPISODE")
        kymogram.log("r", 5.0, labels={"evaluation": "no"}, evaluation=True)
        kymogram.log("r", 6.0, scale=kymogram.StandardMetricScale.ENVIRONMENT_STEP)
        kymogram.log({"r": 7.0, "q": 7.0}, labels={"m": "x"})
    found: dict[float, list[reader.Point]] = {}
    for point in logged(spool, "r"):
        assert isinstance(point.value, float)
        found.setdefault(point.value, []).append(point)
    assert {value: (ps[0].scale, ps[0].labels) for value, ps in found.items()} == {
        1.0: ("ML_STEP", {}),
        2.0: ("ML_STEP", {"evaluation": "true"}),
        3.0: ("ML_STEP", {"a": "1", "b": "2"}),
        4.0: ("EPISODE", {"a": "1", "b": "2"}),
        5.0: ("ML_STEP", {"evaluation": "no"}),
        6.0: ("ENVIRONMENT_STEP", {}),
        7.0: ("ML_STEP", {"m": "x"}),
    }
    assert all(steps(ps) == [0, 1] for ps in found.values())


def test_int64_is_exact(run: kymogram.Run, spool: Path) -> None:
    big = 2**63 - 1
    kymogram.log("n", big, dtype="int64")
    kymogram.log("n", [big - 1, -(2**63)], dtype="int64")
    kymogram.log("n", 7)
    kymogram.log("n", np.array([big, 5], "u8"), dtype=np.int64)
    kymogram.log("n", 5.0)
    kymogram.log({"n": 6, "m": 0.5})
    found = logged(spool, "n")
    assert [p.value for p in found] == [big, big - 1, -(2**63), 7, big, 5, 5, 6]
    assert {p.kind for p in found} == {2}
    with pytest.raises(kymogram.KymogramValidationError, match="not an integer"):
        kymogram.log("n", 0.5)
    with pytest.raises(kymogram.KymogramValidationError, match="outside its range"):
        kymogram.log("n", 2**63)
    for dtype in ("float64", "float32"):
        with pytest.raises(kymogram.KymogramValidationError, match="int64 since its first"):
            kymogram.log("n", 1.0, dtype=dtype)
    with pytest.raises(kymogram.KymogramValidationError, match="complex128.*not known"):
        kymogram.log("n", 1.0, dtype="complex128")


def test_inexact_int_warns_once(spool: Path, capsys: pytest.CaptureFixture[str]) -> None:
    kymogram.init(run_name="r")
    for _ in range(3):
        kymogram.log("inexact", 2**53 + 1)
        kymogram.log("inexact", [2**60 + 1, 1])
        kymogram.log("inexact", np.array([2**60 + 1]))
    assert capsys.readouterr().err.count('dtype="int64"') == 1


def test_distributed(run: kymogram.Run, spool: Path) -> None:
    kymogram.log_distributed("loss", 0.5, step=3)
    kymogram.log_distributed({"loss": 0.25, "acc": 0.5}, step=4)
    assert steps(logged(spool, "loss")) == [3, 4]
    with pytest.raises(kymogram.KymogramValidationError, match="needs step"):
        kymogram.log_distributed("loss", 0.5)
    with pytest.raises(kymogram.KymogramValidationError, match="owned by one writer or shared"):
        kymogram.log("loss", 0.5)


def test_large_calls_are_cut(run: kymogram.Run, spool: Path) -> None:
    data = np.arange(150_000, dtype="f8")
    kymogram.log("big", data, step=5)
    kymogram.log("list", data[:140_000], step=(data[:140_000] * 2).astype("i8"))
    found = logged(spool, "big")
    assert [p.value for p in found] == data.tolist()
    assert steps(found) == list(range(5, 150_005))
    assert steps(logged(spool, "list")) == list(range(0, 280_000, 2))
    folder = reader.writers(spool)[0]
    assert max(len(r.payload) for r in reader.records(folder)) <= 1 << 20


def test_wide_mappings(run: kymogram.Run, spool: Path) -> None:
    row = {f"layer/{i}": float(i) for i in range(5000)}
    for _ in range(3):
        kymogram.log(row)
    found = logged(spool)
    assert Counter(p.metric for p in found) == Counter(dict.fromkeys(row, 3))
    assert all(p.value == row[p.metric] for p in found)


def test_mapping_of_arrays(run: kymogram.Run, spool: Path) -> None:
    kymogram.log({"a": [1, 2, 3], "b": 5.0, "c": np.array([7, 8, 9])}, step=10)
    assert [(p.metric, p.axes["step"], p.value) for p in logged(spool)] == [
        ("a", 10, 1),
        ("a", 11, 2),
        ("a", 12, 3),
        ("c", 10, 7),
        ("c", 11, 8),
        ("c", 12, 9),
        ("b", 10, 5),
    ]


def test_nothing_is_written_before_all_is_checked(run: kymogram.Run, spool: Path) -> None:
    wrong: Any = "text"
    with pytest.raises(kymogram.KymogramValidationError):
        kymogram.log({"a": 1.0, "b": wrong})
    with pytest.raises(kymogram.KymogramValidationError):
        kymogram.log({"a": [1, 2], "b": [1, 2, 3]}, step=[1, 2])
    with pytest.raises(kymogram.KymogramValidationError):
        kymogram.log("a", [1, 2], timestamp=[1])
    assert logged(spool) == []


def test_rotation_restates_and_counts(tmp_path: Path) -> None:
    """Many small segments: sequences, definitions and steps go on."""
    root = tmp_path / "own"
    make_root(str(root))
    writer = Writer(str(root), "11" * 16, _document("11" * 16), first_size=4096, cap=1 << 20)
    writer._size = 2048
    log = Logger(writer, Starts())
    for i in range(3000):
        log.log(f"m{i % 7}", float(i), None, None, None, False, None, None)
        if i % 5 == 0:
            log.log({"x": 1.0, "y": float(i)}, None, None, None, None, False, None, None)
        if i % 50 == 0:
            writer.tick()
    total = writer.sequence()
    counts = writer.counts()
    writer.close()
    tables.forget()
    folder = reader.writers(root)[0]
    records = reader.records(folder)
    assert len(list(folder.glob("*.seg"))) > 3
    assert [r.seq for r in records] == list(range(1, total + 1))
    found = reader.points(records)
    assert counts.floats == len(found) == 3000 + 1200
    for k in range(7):
        mine = [p for p in found if p.metric == f"m{k}"]
        assert steps(mine) == list(range(len(mine)))
        assert [p.value for p in mine] == [float(i) for i in range(3000) if i % 7 == k]
    assert steps([p for p in found if p.metric == "x"]) == list(range(600))


def _document(writer: str) -> dict[str, Any]:
    return {"format": 1, "server": "http://x", "open": {"writer": writer, "opened_ns": 1}}


def test_threads(run: kymogram.Run, spool: Path) -> None:
    """Threads share series, change how they count, and rotate: no step twice, no point lost."""
    threads, calls = 6, 4_000
    errors: list[BaseException] = []

    def work(me: int) -> None:
        try:
            for i in range(calls):
                kymogram.log("shared", float(i))
                kymogram.log(f"own{me}", float(i))
                if i % 3 == 0:
                    kymogram.log({"shared": 1.0, "other": 2.0})
                if i % 100 == me:
                    kymogram.log("shared", [1.0, 2.0, 3.0])
        except BaseException as error:
            errors.append(error)

    pool = [threading.Thread(target=work, args=(me,)) for me in range(threads)]
    for thread in pool:
        thread.start()
    for thread in pool:
        thread.join()
    assert errors == []
    found = logged(spool)
    shared = [p for p in found if p.metric == "shared"]
    expected = threads * (calls - (-calls // 3)) + 3 * threads * (calls // 100)
    assert len(shared) == expected
    assert len(set(steps(shared))) == expected
    for me in range(threads):
        assert steps([p for p in found if p.metric == f"own{me}"]) == list(range(calls))


def test_without_gil_everything_takes_the_lock(
    run: kymogram.Run, spool: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(_writer, "HAS_GIL", False)
    for i in range(100):
        kymogram.log("a", float(i))
        kymogram.log({"b": 1.0, "c": 2.0})
        kymogram.log("d", 1.0, step=i)
    assert not tables.AUTO
    assert not tables.STEPPED
    assert not tables.GROUPS
    assert steps(logged(spool, "a")) == steps(logged(spool, "c")) == list(range(100))


def test_starts_from_the_server() -> None:
    starts = Starts(
        {
            "starts_complete": True,
            "starts": [
                {"metric": "loss", "scale": "ML_STEP", "next": 7},
                {"metric": "r", "scale": "ENVIRONMENT_STEP", "episode": 3, "next": 5},
            ],
            "envs": [{"env": "e", "last_rl_step": 4, "last_episode": 3}],
        }
    )
    key = ("r", "ENVIRONMENT_STEP", ())
    assert starts.of(("loss", "ML_STEP", ())) == 7
    assert starts.of(("new", "ML_STEP", ())) == 0
    assert [starts.of_episode(key, e) for e in (2, 3, 4)] == [None, 5, 0]
    assert Starts().of(("loss", "ML_STEP", ())) is None


calls = st.one_of(
    st.tuples(st.just("one"), st.sampled_from("ab"), st.none() | st.integers(0, 50)),
    st.tuples(st.just("many"), st.sampled_from("ab"), st.none() | st.integers(0, 50)),
    st.tuples(st.just("map"), st.just("ab"), st.none() | st.integers(0, 50)),
)


@settings(
    max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(st.lists(calls, max_size=40))
def test_steps_follow_the_model(tmp_path: Path, script: list[tuple[str, str, int | None]]) -> None:
    """Any mix of calls counts as the plain model does: next = last + 1."""
    root = tmp_path / str(time.time_ns())
    make_root(str(root))
    name = "22" * 16
    writer = Writer(str(root), name, _document(name), forget=tables.forget)
    logger = Logger(writer, Starts())
    tables.forget()
    current.logger = lambda: logger
    following = {"a": 0, "b": 0}
    expected: dict[str, list[int]] = {"a": [], "b": []}
    for how, names, step in script:
        rows = 3 if how == "many" else 1
        if how == "map":
            kymogram.log(dict.fromkeys(names, 1.0), step=step)
        else:
            kymogram.log(names, [1.0] * 3 if how == "many" else 1.0, step=step)
        for metric in names:
            first = following[metric] if step is None else step
            expected[metric] += range(first, first + rows)
            following[metric] = first + rows
    current.logger = None
    writer.close()
    found = reader.all_points(root)
    for metric, wanted in expected.items():
        assert steps([p for p in found if p.metric == metric]) == wanted


def test_integers_for_a_series_of_floats(
    run: kymogram.Run, spool: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """They are converted, as the series' kind is settled; that is told, and only that."""
    _say.set_level("WARNING")
    kymogram.log("x", 0.5)
    for value in (1, 2**53 + 1):
        kymogram.log("x", value, dtype="int64")
    assert [p.value for p in logged(spool)] == [0.5, 1.0, float(2**53)]
    (told,) = (line for line in capsys.readouterr().err.splitlines() if "'x'" in line)
    assert "holds float64 since its first point" in told


class Traced:
    """As a tensor within a jitted function, on a meta device, or of a library without copies."""

    shape = (2,)

    def __init__(self, *methods: str) -> None:
        for name in methods:
            setattr(self, name, self.refuse)

    def refuse(self, *_: object) -> None:
        raise NotImplementedError("there is no data")

    def __array__(self, *_: object) -> None:
        self.refuse()

    def __iter__(self) -> Iterator[float]:
        raise TypeError("a traced tensor is no iterable")


@pytest.mark.parametrize("methods", [(), ("numpy",), ("detach", "cpu"), ("tolist",)])
def test_tensors_without_data(run: kymogram.Run, spool: Path, methods: tuple[str, ...]) -> None:
    """One kind of error, whatever the library raises, and nothing half-logged."""
    traced = Traced(*methods)
    calls: list[Callable[[], None]] = [
        lambda: kymogram.log("x", traced),
        lambda: kymogram.log({"y": 1.0, "x": traced}),
        lambda: kymogram.log("x", [1.0, 2.0], step=traced),
        lambda: kymogram.log("x", [1.0, 2.0], timestamp=traced),
        lambda: kymogram.log_rl_environment_step("r", traced, 0, env_id=["a", "b"]),
        lambda: kymogram.log_rl_environment_step("r", [[1, 2]], 0, env_id=["a"], env_step=traced),
        lambda: kymogram.log_rl_environment_step("r", [1, 2], 0, episode=traced),
        lambda: kymogram.log_rl_episode("e", [1.0, 2.0], 0, episode=traced),
    ]
    for call in calls:
        with pytest.raises(kymogram.KymogramValidationError):
            call()
    assert reader.all_points(spool) == []
