"""Configurations of any size and of whatever a program holds: nothing of them ends a training."""

from __future__ import annotations

import argparse
import dataclasses
import enum
import random
import subprocess
import sys
import types
from collections import OrderedDict, UserDict, UserList, namedtuple
from pathlib import Path
from typing import Any

import numpy
import pytest

import kymogram
from kymogram._input import attributes

from . import reader
from .test_run import RUN, StandIn, document, server

__all__ = ["server"]


def plain(value: Any) -> Any:
    return value["value"]


def spooled(spool: Path, place: int = -1) -> list[dict[str, Any]]:
    return reader.updates(reader.records(reader.writers(spool)[place]))


def logged(spool: Path, given: Any) -> dict[str, Any]:
    """What log_config makes of a value: path below config/ → value."""
    kymogram.init(run_name="r", log_level="WARNING")
    kymogram.log_config(given)
    found = {one["path"]: one.get("value") for one in spooled(spool)}
    assert all(path.startswith("config/") for path in found)
    return {path.removeprefix("config/"): value and value["value"] for path, value in found.items()}


# size


def table(rows: int) -> dict[str, Any]:
    return {"rows": [{"n": i, "name": f"é{i}", "x": i / 7} for i in range(rows)]}


def naive(rows: int) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for i in range(rows):
        found |= {f"config/rows/{i}/n": i, f"config/rows/{i}/name": f"é{i}"}
        found[f"config/rows/{i}/x"] = i / 7
    return found


def test_a_large_config_follows_the_open(server: StandIn, spool: Path) -> None:
    run = kymogram.init(
        server=server.address, run_name="r", config=table(4000), tags=["t"], description="d"
    )
    kymogram.log_config({"after": 1})
    assert run.id == RUN
    initial = server.requests[0][2]["initial"]
    assert {"set_tags", "set_description"} <= {one["op"] for one in initial}
    first = {one["path"]: plain(one["value"]) for one in initial if "value" in one}
    later = spooled(spool)
    assert later.pop()["path"] == "config/after"
    assert all(one["initial"] is True and one["op"] == "set_attribute" for one in later)
    rest = {one["path"]: plain(one["value"]) for one in later}
    first.pop("git/commit_sha", None)
    assert 100 < len(first) <= 1000
    assert not first.keys() & rest.keys()
    assert list(first | rest) == list(naive(4000))
    assert first | rest == naive(4000)
    metrics = kymogram.get_metrics()
    assert metrics.attribute_updates_added == len(rest) + 1


def test_long_texts_follow_the_open(server: StandIn, spool: Path) -> None:
    config = {f"text{i}": "x" * 60_000 for i in range(5)}
    kymogram.init(server=server.address, run_name="r", config=config)
    assert len(str(server.requests[0][2])) < 130_000
    assert len(spooled(spool)) == 4


def test_only_the_process_that_creates_the_run_says_it(server: StandIn, spool: Path) -> None:
    server.answer["created"] = False
    kymogram.init(server=server.address, run_name="r", config=table(4000))
    assert spooled(spool) == []


def test_a_child_does_not_say_it_again(spool: Path) -> None:
    import multiprocessing

    kymogram.init(run_name="r", config=table(4000), log_level="OFF")
    child = multiprocessing.get_context("fork").Process(target=kymogram.log, args=("a", 1.0))
    child.start()
    child.join()
    assert child.exitcode == 0
    assert sorted(len(spooled(spool, place)) > 1000 for place in (0, 1)) == [False, True]
    assert "initial" in document(spool)["open"] or len(reader.writers(spool)) == 2


@pytest.mark.parametrize("mode", ["offline", "online"])
def test_a_large_config_arrives_whole(served: Any, mode: str) -> None:
    address = served.address if mode == "online" else None
    kymogram.init(server=address, run_name="r", config=table(7000), log_level="OFF")
    kymogram.log_config({"rows": {"6999": {"n": -1}}})
    kymogram.close(0)
    want = naive(7000) | {"config/rows/6999/n": -1}
    found = served.only().attributes()
    found.pop("git/commit_sha", None)
    assert found == want


def test_large_configs_of_offline_ranks(served: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """The first value of a path wins, another one is kept by rank: also behind the open."""
    monkeypatch.setenv("SLURM_JOB_ID", "7")
    for rank in range(3):
        monkeypatch.setenv("RANK", str(rank))
        config = table(1500) | {"z": {"seed": rank, "same": 1}, f"z{rank}": rank}
        kymogram.init(run_name="r", init_mode="offline", config=config, log_level="OFF")
        kymogram.close(0)
    found = served.only().attributes()
    found.pop("git/commit_sha", None)
    first = found["config/z/seed"]
    want = naive(1500) | {"config/z/seed": first, "config/z/same": 1}
    for rank in range(3):
        want[f"config/z{rank}"] = rank
        if rank != first:
            want[f"ranks/{rank}/config/z/seed"] = rank
    assert found == want


def test_more_values_than_are_kept(
    spool: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(attributes, "VALUES", 100)
    monkeypatch.setattr(attributes, "_PLAIN", 100)
    found = logged(spool, {f"k{i:04}": i for i in range(130)})
    assert found.pop("kymogram_left_out") == 30
    assert found == {f"k{i:04}": i for i in range(100)}
    assert "config has 130 values, the first 100 are kept" in capsys.readouterr().err


def test_a_value_that_is_many_times_in_itself(
    spool: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(attributes, "VALUES", 1000)
    bomb: Any = [1]
    for _ in range(60):
        bomb = [bomb] * 10
    assert logged(spool, {"bomb": bomb})["kymogram_left_out"] == 10_000
    assert "at least 11,000 values" in capsys.readouterr().err


# kinds


class Color(enum.Enum):
    RED = 1
    ODD = (1, 2)


class Word(str, enum.Enum):
    STEPS = "steps"


class Level(enum.IntEnum):
    LOW = 3


@dataclasses.dataclass
class Inner:
    lr: float = 0.5


@dataclasses.dataclass(slots=True)
class Outer:
    inner: Inner
    name: str = "x"


class Missing(UserDict):  # type: ignore[type-arg]
    """As OmegaConf's mapping: a missing value raises when it is read."""

    def items(self) -> Any:
        raise KeyError("missing")

    def __getitem__(self, key: str) -> Any:
        if key == "lost":
            raise ValueError("Missing mandatory value")
        return super().__getitem__(key)


class Silent:
    def __str__(self) -> str:
        raise RuntimeError("no")


class Pretender:
    """Has every attribute."""

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return lambda *_: Pretender()

    def __str__(self) -> str:
        return "pretender"


Pair = namedtuple("Pair", "left right")

KINDS: list[tuple[str, Any, dict[str, Any]]] = [
    ("enum", Color.RED, {"v": 1}),
    ("odd enum", Color.ODD, {"v": "ODD"}),
    ("text enum", Word.STEPS, {"v": "steps"}),
    ("int enum", Level.LOW, {"v": 3}),
    ("path", Path("/a/b"), {"v": "/a/b"}),
    ("dataclass", Outer(Inner()), {"v/inner/lr": 0.5, "v/name": "x"}),
    ("class", Inner, {"v": str(Inner)}),
    ("namespace", argparse.Namespace(a=1), {"v/a": 1}),
    ("simple", types.SimpleNamespace(a=[True]), {"v/a/0": True}),
    ("ordered", OrderedDict(b=1, a=2), {"v/a": 2, "v/b": 1}),
    ("tuple", Pair(1, "r"), {"v/left": 1, "v/right": "r"}),
    ("sequence", UserList([1, 2]), {"v/0": 1, "v/1": 2}),
    (
        "missing",
        Missing(a=1, lost=2),
        {"v/a": 1, "v/lost": "(ValueError: Missing mandatory value)"},
    ),
    ("numpy", numpy.float32(0.5), {"v": 0.5}),
    ("numpy int", numpy.int64(7), {"v": 7}),
    ("numpy bool", numpy.bool_(True), {"v": True}),
    ("numpy text", numpy.str_("t"), {"v": "t"}),
    ("numpy nan", numpy.float16("nan"), {"v": "NaN"}),
    ("array", numpy.arange(2), {"v/0": 0, "v/1": 1}),
    ("no dimensions", numpy.array(5), {"v": 5}),
    ("data", numpy.zeros(100_000), {"v": "[0. 0. 0. ... 0. 0. 0.]"}),
    ("range", range(3), {"v": "range(0, 3)"}),
    ("bytes", b"a\xff", {"v": "b'a\\xff'"}),
    ("infinity", float("-inf"), {"v": "-Infinity"}),
    ("surrogate", "a\ud800", {"v": "a?"}),
    ("none", None, {"v": None}),
    ("empty", {"a": {}, "b": []}, {}),
    ("silent", Silent(), {"v": "(Silent: RuntimeError)"}),
    ("pretender", Pretender(), {"v": "pretender"}),
    ("function", len, {"v": "<built-in function len>"}),
    ("set", {"b", "a\n"}, {"v": ["a\ufffd", "b"]}),
    ("complex", 1 + 2j, {"v": "(1+2j)"}),
]


@pytest.mark.parametrize(("given", "want"), [k[1:] for k in KINDS], ids=[k[0] for k in KINDS])
def test_kinds(spool: Path, given: Any, want: dict[str, Any]) -> None:
    assert logged(spool, {"v": given}) == want


def test_keys(spool: Path, capsys: pytest.CaptureFixture[str]) -> None:
    found = logged(
        spool,
        {
            "tench, Tinca tinca": 0,
            ("a", 1): 1,
            7: 2,
            None: 3,
            "a.b/c": 4,
            "größe": 5,
            "tab\tand\x00": 6,
            "half\ud800": 7,
            "a=b": 8,
            "p" * 600: 9,
            "p" * 601: 10,
        },
    )
    long = [path for path in found if path.startswith("ppp")]
    assert sorted(found.pop(path) for path in long) == [9, 10]
    assert all(len(path) == 512 - len("config/") for path in long)
    assert found == {
        "tench%2C%20Tinca%20tinca": 0,
        "%28'a'%2C%201%29": 1,
        "7": 2,
        "None": 3,
        "a.b/c": 4,
        "größe": 5,
        "tab%09and%00": 6,
        "half%ED%A0%80": 7,
        "a%3Db": 8,
    }
    told = [line for line in capsys.readouterr().err.splitlines() if "what a path cannot" in line]
    assert len(told) == 1


def test_paths_that_come_twice(spool: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert logged(spool, {"a": {"b": 2}, "a/b": 1, "c": 3}) == {"a/b": 1, "c": 3}
    assert "1 paths more than once" in capsys.readouterr().err


def test_circles_and_depth(spool: Path) -> None:
    circle: dict[str, Any] = {"n": 1}
    circle["again"] = {"deep": [circle]}
    deep: Any = "bottom"
    for _ in range(200):
        deep = {"d": deep}
    found = logged(spool, {"circle": circle, "deep": deep})
    assert found.pop("circle/n") == 1
    assert found.pop("circle/again/deep/0") == "(the same as config/circle)"
    ((path, text),) = found.items()
    assert path.startswith("deep/d/d")
    assert text.startswith("{'d': {")


@pytest.mark.parametrize("size", [65_536, 65_537, 1 << 20, 50 << 20])
def test_long_texts(spool: Path, capsys: pytest.CaptureFixture[str], size: int) -> None:
    text = logged(spool, {"v": "é" * (size // 2) + "x" * (size % 2), "w": 1})["v"]
    if size <= 65_536:
        assert text == "é" * (size // 2)
        return
    kept, _, cut = text.partition("…")
    assert kept == "é" * len(kept)
    assert len(text.encode()) <= 65_536
    assert cut == f" (cut: {size:,} bytes)"
    assert f"the text of 'config/v' has {size:,} bytes" in capsys.readouterr().err


def test_large_sets_and_bytes(spool: Path, capsys: pytest.CaptureFixture[str]) -> None:
    found = logged(spool, {"set": {f"{i:06}" for i in range(20_000)}, "bytes": b"\xff" * (1 << 20)})
    assert found["set"] == [f"{i:06}" for i in range(65_536 // 6)]
    assert len(found["bytes"]) <= 65_536
    assert "has 20,000 members: the first 10,922 are kept" in capsys.readouterr().err


def test_secrets_are_told(spool: Path, capsys: pytest.CaptureFixture[str]) -> None:
    found = logged(spool, {"auth": {"key": "ghp_" + "a" * 36}, "tokens": 5, "short": "sk-learn"})
    assert found["auth/key"] == "ghp_" + "a" * 36
    (line,) = (line for line in capsys.readouterr().err.splitlines() if "looks like" in line)
    assert "'config/auth/key' looks like a secret; it is sent as it was given" in line


def test_every_kind_is_taken_by_the_server(served: Any) -> None:
    """One bad value would cost its whole record."""
    config = {name: value for name, value, _ in KINDS}
    config |= {"key, odd": 1, "long" * 200: 2, "text": "x" * 100_000, "s": {"x" * 70_000, "y"}}
    kymogram.init(run_name="r", config=config, log_level="OFF")
    kymogram.log_config({"again": config})
    info = kymogram.close(0)
    assert info is not None
    found = served.only().attributes()
    first = {path for path in found if path.startswith("config/") and "/again/" not in path}
    again = {path for path in found if path.startswith("config/again/")}
    assert len(first) >= 35
    assert len(again) == len(first)
    assert list((served.spool / "rejected").glob("*")) == []


# plain mappings, which are written without a look at every value

PLAIN = [0, -7, 2**53, -(2**53), 0.1, -0.0, 1e300, 5e-324, True, False, "", "adam", 'a"b\\c\n\x7f']
ODD = [
    2**53 + 1,
    float("inf"),
    float("nan"),
    "é",
    "\ud800",
    "sk-" + "x" * 20,
    None,
    [1, 2],
    (1,),
    {1},
]


def naive_paths(prefix: str, given: dict[str, Any]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for key, one in given.items():
        path = f"{prefix}/{key}"
        found |= naive_paths(path, one) if isinstance(one, dict) else {path: one}
    return found


TYPES = {bool: "bool", int: "int64", float: "float64", str: "string"}


@pytest.mark.parametrize("seed", range(20))
def test_plain_mappings(spool: Path, seed: int) -> None:
    draw = random.Random(seed)

    def mapping(depth: int) -> dict[str, Any]:
        found: dict[str, Any] = {}
        for i in range(draw.randrange(12)):
            deeper = depth < 11 and draw.random() < 0.3
            found[f"k{i}.{draw.randrange(9)}"] = (
                mapping(depth + 1) if deeper else draw.choice(PLAIN)
            )
        return found

    kymogram.init(run_name="r", log_level="OFF", init_mode="offline")
    for prefix in ("config", "state", "z:1/b"):
        given = mapping(0)
        for _ in range(2):
            before = len(spooled(spool))
            counted = kymogram.get_metrics().attribute_updates_added
            if prefix == "config":
                kymogram.log_config(given)
            else:
                kymogram.log_attributes(prefix, given)
            new = spooled(spool)[before:]
            want = naive_paths(prefix, given)
            assert {one["path"]: repr(plain(one["value"])) for one in new} == {
                path: repr(value) for path, value in want.items()
            }
            assert {one["path"]: one["value"]["type"] for one in new} == {
                path: TYPES[type(value)] for path, value in want.items()
            }
            assert len(new) == len(want)
            assert all(one["op"] == "set_attribute" and one["time_ns"] > 1e18 for one in new)
            assert kymogram.get_metrics().attribute_updates_added == counted + len(want)


@pytest.mark.parametrize("odd", ODD, ids=repr)
def test_one_odd_value_among_plain_ones(spool: Path, odd: Any) -> None:
    alone = logged(spool, UserDict({"odd": odd}))
    kymogram.close(0)
    among = logged(spool, {"a": 1, "odd": odd, "b": {"c": 2.5}})
    assert repr(among) == repr({"a": 1, "b/c": 2.5, **alone}) or among.items() >= alone.items()
    assert {path: among[path] for path in ("a", "b/c")} == {"a": 1, "b/c": 2.5}
    assert len(among) == len(alone) + 2


@pytest.mark.parametrize(
    "given",
    [
        {"a/b": 1, "a": {"b": 2}},
        {"a": {"b": 2}, "a/b": 1},
        {1: 1, "1": 2},
        {"x": {1: 1, "1": 2}},
        {"sys/x": 1, "y": {"": 2}},
        {"n": 10**400, "m": 2},
        {"n": (1 << 53) - 1, "m": 1 << 53, "k": (1 << 53) + 1},
        {"n": 1e300, "m": 1 << 70},
    ],
    ids=repr,
)
def test_a_dict_is_logged_as_any_other_mapping(
    spool: Path, given: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    """A UserDict takes the long way, twice: what is remembered of a first call changes nothing."""
    want = logged(spool, UserDict(given))
    kymogram.close(0)
    assert logged(spool, given) == want
    kymogram.log_config(given)
    assert len(spooled(spool)) == 2 * len(want)


def test_a_dict_of_itself(spool: Path) -> None:
    deep: dict[str, Any] = {"a": 1}
    deep["b"] = deep
    found = logged(spool, deep)
    assert found["a"] == 1
    assert "the same as" in found["b"]


def test_what_log_config_returned_for_survives_a_kill(spool: Path) -> None:
    """Ten values a call, until SIGKILL comes: every call that returned is there."""
    code = """
import os, signal, sys, threading, kymogram
kymogram.init(run_name="r", init_mode="offline", log_level="OFF")
threading.Timer(0.3, os.kill, (os.getpid(), signal.SIGKILL)).start()
i = 0
while True:
    kymogram.log_config({f"k{j}": i for j in range(10)})
    os.write(1, b"%d\\n" % i)
    i += 1
"""
    done = subprocess.run([sys.executable, "-c", code], stdout=subprocess.PIPE, check=False)
    returned = int(done.stdout.split()[-1]) + 1
    assert returned > 100
    found = [one["value"]["value"] for one in spooled(spool)]
    assert found[: 10 * returned] == [i for i in range(returned) for _ in range(10)]


def test_many_prefixes_are_not_remembered(spool: Path) -> None:
    kymogram.init(run_name="r", log_level="OFF", init_mode="offline")
    for i in range(1000):
        kymogram.log_attributes(f"p{i}", {f"k{j}": j for j in range(20)})
    assert sum(len(names) for _, names, _ in attributes._shapes) <= 64 * 20
    deep: dict[str, Any] = {f"k{i}": {f"k{j}": j for j in range(100)} for i in range(100)}
    kymogram.log_config(deep)
    assert len(spooled(spool)) == 20_000 + 10_000
    text = {f"k{i:03}": "x" * 15 for i in range(1000)}
    for _ in range(3):
        kymogram.log_attributes("a" * 400, text)
    records = [r for r in reader.records(reader.writers(spool)[-1]) if r.type == 4]
    assert all(len(r.payload) < 250_000 for r in records)
    assert len(spooled(spool)) == 33_000
