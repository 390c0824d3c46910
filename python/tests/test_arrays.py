"""Arrays of every dtype: what is read back is what was logged, in 4 bytes where that is exact."""

from __future__ import annotations

import threading
from pathlib import Path
from typing import Any

import pytest

import kymogram
from kymogram._exceptions import KymogramValidationError
from kymogram._points import tables
from kymogram._spool import writer as _writer
from kymogram._spool.segment import Segment

from . import reader

np: Any = pytest.importorskip("numpy")


@pytest.fixture(autouse=True)
def run(spool: Path) -> Any:
    kymogram.init(run_name="r", log_level="OFF")
    yield
    kymogram.close(0)


def blocks(spool: Path) -> list[dict[str, Any]]:
    found = [r for folder in reader.writers(spool) for r in reader.records(folder)]
    return [record.fields for record in found if record.type == 3]


def logged(spool: Path, metric: str) -> list[reader.Point]:
    return [point for point in reader.all_points(spool) if point.metric == metric]


DTYPES = [
    *(("<f4", 4), (">f4", 4), ("<f2", 4), ("?", 4), ("i1", 4), ("u1", 4), ("<i2", 4), ("<u2", 4)),
    *(("<f8", 8), (">f8", 8), ("<i4", 8), ("<u4", 8), ("<i8", 8), ("<f16", 8)),
]


@pytest.mark.parametrize(("dtype", "width"), DTYPES)
def test_exact_whatever_the_dtype(spool: Path, dtype: str, width: int) -> None:
    rng = np.random.default_rng(1)
    data = (rng.normal(size=37) * 100).astype(dtype)
    if data.dtype.kind == "f":
        data[:5] = [np.nan, np.inf, -np.inf, -0.0, np.finfo(data.dtype).tiny]
    for _ in range(3):  # the first call of a series and the next ones take different ways
        kymogram.log("x", data)
        kymogram.log("x", data[::-3])
    wanted = [float(value) for value in [*data, *data[::-3]] * 3]
    found = logged(spool, "x")
    assert len(found) == len(wanted)
    for place, (point, value) in enumerate(zip(found, wanted, strict=True)):
        assert point.same(value), place
        assert np.signbit(point.value) == np.signbit(value)
        assert point.axes == {"step": place}
    assert {one["width"] for one in blocks(spool)} == {width}


@pytest.mark.parametrize("dtype", ["i1", "<i4", "<u2", "<i8", "<u8"])
def test_int64_stays_exact(spool: Path, dtype: str) -> None:
    info = np.iinfo(dtype)
    data = np.array([info.min, min(int(info.max), 2**63 - 1), 1], dtype)
    for _ in range(2):
        kymogram.log("n", data, dtype="int64")
    assert [p.value for p in logged(spool, "n")] == [int(value) for value in data] * 2
    assert {one["width"] for one in blocks(spool)} == {
        4 if data.itemsize < 4 or dtype == "<i4" else 8
    }


@pytest.mark.parametrize("dtype", ["float32", "float16", np.float32])
def test_dtype_float32_rounds_arrays(spool: Path, dtype: Any) -> None:
    data = np.array([0.1, 1e300, -1e300, 2.0, np.nan, 1e-300])
    with np.errstate(all="raise"):
        kymogram.log("x", data, dtype=dtype)
        kymogram.log("x", data, dtype=dtype)
        kymogram.log("y", data)
    wanted = [float(np.float32(0.1)), np.inf, -np.inf, 2.0, np.nan, 0.0]
    assert all(p.same(v) for p, v in zip(logged(spool, "x"), wanted * 2, strict=True))
    assert all(p.same(v) for p, v in zip(logged(spool, "y"), data.tolist(), strict=True))


def test_default_dtype_float32_rounds_arrays(spool: Path) -> None:
    """As in Metrana, from the first call on and by template."""
    kymogram.close(0)
    kymogram.init(run_name="r", log_level="OFF", default_dtype="float32")
    data = np.array([[0.1, 1e300, np.nan, 0.7], [1e-300, -1e300, 2.0, 1 / 3]])
    with np.errstate(all="ignore"):
        wanted = [float(v) for v in data.ravel().astype("f4")]
    with np.errstate(all="raise"):
        for call in range(4):
            kymogram.log("x", data[0])
            kymogram.log("x", data[:, ::-2][1])
            kymogram.log("x", [0.1])  # lists and numbers are as they were given
            kymogram.log_rl_environment_step("r", data, call, env_id=["a", "b"], episode=0)
            kymogram.log_rl_environment_step("t", data.T, call, env_id=[*"abcd"], episode=0)
    x = [*wanted[:4], wanted[7], wanted[5], 0.1] * 4
    assert all(p.same(v) for p, v in zip(logged(spool, "x"), x, strict=True))
    for name, rows in (("r", wanted), ("t", [wanted[i] for i in (0, 4, 1, 5, 2, 6, 3, 7)])):
        found = [point.value for point in logged(spool, name)]
        assert len(found) == 32
        assert sorted(map(str, found)) == sorted(map(str, rows * 4))
    assert {one["width"] for one in blocks(spool) if one["rows"] > 1} == {4}


def test_rows_of_different_widths(spool: Path) -> None:
    rows = [np.array([0.1, 2.0]), np.array([0.5, 0.25], "f4")]
    for _ in range(2):
        kymogram.log_rl_environment_step("r", rows, 0, env_id=["a", "b"], episode=0)
    assert [p.value for p in logged(spool, "r")] == [0.1, 2.0, 0.5, 0.25] * 2


@pytest.mark.parametrize("dtype", ["f4", "f8", "f2", "i8"])
@pytest.mark.parametrize("rows", [1, 3, 700])
def test_environments(spool: Path, dtype: str, rows: int) -> None:
    """Steps, episodes and values of a vectorised call, through changes of episode."""
    envs = [f"e{i}" for i in range(5)]
    rng = np.random.default_rng(2)
    wanted: dict[str, list[tuple[int, int, int, float]]] = {env: [] for env in envs}
    nexts = {env: {} for env in envs}  # type: dict[str, dict[int, int]]
    for update in range(12):
        data = (rng.normal(size=(5, rows)) * 50).astype(dtype)
        episodes = np.full(5, update // 6) + (np.arange(5) == 2) * (update // 4)
        for place, env in enumerate(envs):
            episode = int(episodes[place])
            for value in data[place]:
                step = nexts[env].get(episode, 0)
                nexts[env][episode] = step + 1
                wanted[env].append((update, episode, step, float(value)))
        given = data if rows > 1 else data[:, 0]
        kymogram.log_rl_environment_step("r", given, update, env_id=envs, episode=episodes)
        data[:] = 0  # the caller's array is his own again
    for env in envs:
        mine = [p for p in logged(spool, "r") if p.labels["env_id"] == env]
        found = [(p.axes["rl_step"], p.axes["episode"], p.axes["step"], p.value) for p in mine]
        assert found == wanted[env]
        assert all(p.axes["env_step"] == p.axes["step"] for p in mine)


def test_one_environment_moves_alone(spool: Path) -> None:
    """What all share is not taken for shared when one of them went on elsewhere."""
    envs = ["a", "b", "c"]
    for _ in range(3):
        kymogram.log_rl_environment_step("r", np.zeros(3, "f4"), 0, env_id=envs, episode=0)
    kymogram.log_rl_environment_step("r", np.zeros(1, "f4"), 0, env_id=["b"], episode=0)
    kymogram.log_rl_environment_step("r", np.zeros(3, "f4"), 0, env_id=envs, episode=0)
    last = {p.labels["env_id"]: p.axes["step"] for p in logged(spool, "r")}
    assert last == {"a": 3, "b": 4, "c": 3}


def test_a_list_of_one_environment_takes_a_number(spool: Path) -> None:
    kymogram.log_rl_environment_step("r", 1.5, 0, env_id=["a"])
    assert [p.value for p in logged(spool, "r")] == [1.5]


def test_steps_of_arrays(spool: Path) -> None:
    data = np.arange(4, dtype="f4")
    kymogram.log("x", data)
    kymogram.log("x", data)
    kymogram.log("x", data, step=100)
    kymogram.log("x", data)
    kymogram.log("x", data, step=[7, 8, 9, 200])
    kymogram.log("x", 1.0)
    kymogram.log("x", data)
    found = [p.axes["step"] for p in logged(spool, "x")]
    assert found == [*range(8), *range(100, 108), 7, 8, 9, 200, *range(201, 206)]


STEPS = {
    "one by one": range(5, 9),
    "one by one, then not": [5, 6, 7, 9],
    "with gaps": range(5, 13, 2),
    "of which one falls": [5, 7, 6, 8],
    "twice the same": [5, 6, 6, 8],
    "at the top": range((1 << 62) - 3, (1 << 62) + 1),
}


@pytest.mark.parametrize("steps", STEPS.values(), ids=STEPS)
def test_an_array_of_steps_or_times_is_as_its_list(spool: Path, steps: Any) -> None:
    apart = np.zeros((4, 2), "i8")  # a column of it does not lie in one piece
    apart[:, 0] = steps
    times = [1_790_000_000_000 + one % 100 for one in steps]
    for name, given in ("list", list(steps)), ("array", np.array(steps)), ("apart", apart[:, 0]):
        when = times if name == "list" else np.array(times)
        for _ in range(2):  # the second call of a series takes another way
            kymogram.log(name, np.arange(4.0), step=given, timestamp=when)
        found = [(p.axes["step"], p.time_ns, p.value) for p in logged(spool, name)]
        assert found == [(s, t * 1_000_000, i) for i, (s, t) in enumerate(zip(steps, times))] * 2


@pytest.mark.parametrize("bad", [[-1, 0, 1, 2], [0, 1, 2, (1 << 62) + 1]])
def test_an_array_of_steps_out_of_range(spool: Path, bad: list[int]) -> None:
    for _ in range(2):
        kymogram.log("v", np.arange(4.0))
        with pytest.raises(KymogramValidationError, match="negative|above"):
            kymogram.log("v", np.arange(4.0), step=np.array(bad))


def test_arrays_over_many_segments_and_threads(spool: Path) -> None:
    """Whole records, no step twice, whatever rotates and whoever changes the array meanwhile."""
    size, calls, threads = 2500, 30, 4
    shared = np.zeros(size, "f4")

    def work(name: str) -> None:
        for i in range(calls):
            kymogram.log(name, np.full(size, i, "f4"))
            kymogram.log("all", shared)
            shared[:] = i

    workers = [threading.Thread(target=work, args=(f"t{n}",)) for n in range(threads)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    folder = reader.writers(spool)[0]
    assert len(list(folder.glob("*.seg"))) > 2
    found = reader.points(reader.records(folder))
    for n in range(threads):
        mine = [p for p in found if p.metric == f"t{n}"]
        assert [p.axes["step"] for p in mine] == list(range(size * calls))
        assert [p.value for p in mine[::size]] == list(range(calls))
    steps = [p.axes["step"] for p in found if p.metric == "all"]
    assert sorted(steps) == list(range(size * calls * threads))
    assert kymogram.get_metrics().float_points_added == 2 * size * calls * threads


@pytest.mark.parametrize("size", [4096, 100_000, 1 << 20, (1 << 20) + 4096])
@pytest.mark.parametrize("ahead", [False, True])
def test_a_new_segment_is_zeros_of_its_size(tmp_path: Path, size: int, ahead: bool) -> None:
    segment = Segment(str(tmp_path), 0, size, True, ahead)
    segment.publish(bytes(16), 1, 1)
    assert (tmp_path / "00000000.seg").read_bytes()[64:] == bytes(size - 64)
    segment.write(b"x" * (size - 64))
    with pytest.raises(ValueError, match="out of range"):
        segment.write(b"x")
    segment.close()
    assert (tmp_path / "00000000.seg").stat().st_size == size


def test_what_is_no_array(spool: Path) -> None:
    with pytest.raises(KymogramValidationError, match="not a number"):
        kymogram.log("x", {1.0, 2.0})
    hidden = np.ma.array([1.0, 2.0, 3.0], mask=[0, 1, 0])
    kymogram.log("x", hidden)
    found = logged(spool, "x")
    assert [p.same(v) for p, v in zip(found, [1.0, float("nan"), 3.0], strict=True)] == [True] * 3
    with pytest.raises(KymogramValidationError, match="masked"):
        kymogram.log("n", np.ma.array([1, 2], mask=[0, 1]), dtype="int64")


@pytest.mark.skipif(not _writer.HAS_GIL, reason="free-threaded Python keeps no shapes")
def test_many_shapes_are_not_remembered_for_ever(spool: Path) -> None:
    for n in range(1, 300):
        kymogram.log("x", np.zeros(n, "f4"))
    assert len(tables.VECTORS["x"].templates) <= 64
    assert len(logged(spool, "x")) == 299 * 300 // 2


def test_bad_arguments_of_rl_calls_are_named(spool: Path) -> None:
    with pytest.raises(KymogramValidationError, match="2\\^62"):
        kymogram.log_rl_environment_step("q", 1.0, 10**30)
    for call in (kymogram.log_rl_episode, kymogram.log_rl_environment_step):
        for labels in ("x", 5, object()):
            with pytest.raises(KymogramValidationError):
                call("q", 1.0, 0, labels=labels)  # type: ignore[arg-type]
    kymogram.log_rl_environment_step("q", 1.0, 0, labels=[])  # type: ignore[arg-type]
    kymogram.log_rl_environment_step("q", 1.0, 0, labels=[("a", "b")])  # type: ignore[arg-type]
    assert [p.labels.get("a") for p in logged(spool, "q")] == [None, "b"]
