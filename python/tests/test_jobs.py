"""The index of writers by run and by job, and the kept count of the spool's bytes."""

from __future__ import annotations

import contextlib
import json
import multiprocessing
import os
import shutil
import sys
import time
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

import pytest

import kymogram
from kymogram._spool import folders, jobs
from kymogram._spool.owners import Owners


def opened(number: int, run: str) -> dict[str, Any]:
    return {
        "writer": f"{number:032x}",
        "workspace": "w",
        "project": "p",
        "run_name": run,
        "orchestration_id": "job-" + run,
        "opened_ns": number,
    }


def over(root: Path, number: int, run: str) -> str:
    """A writer whose process is gone."""
    found = opened(number, run)
    jobs.add(str(root), found)
    path = root / "writers" / found["writer"]
    path.mkdir(parents=True)
    (path / "lock").touch()
    (path / "open.json").write_text(json.dumps({"open": found}))
    return str(found["writer"])


def names(root: Path) -> set[str]:
    return {path.name for path in root.glob("jobs/*/*")}


def test_names_are_those_of_go() -> None:
    """The same is in internal/spool/ended_test.go."""
    assert jobs.folder("w", "p", "ä run") == "4691e0a7"
    found = {"writer": "abcd" + 28 * "0", "opened_ns": 1_700_000_000_000_000_000}
    assert jobs._name(found) == "17979cfe362a0000-abcd" + 28 * "0"


@pytest.mark.parametrize("left", ["no index", "half of one", "no folder", "odd"])
def test_ended_writers_are_found_after_kills(tmp_path: Path, left: str) -> None:
    first, second = over(tmp_path, 1, "r"), over(tmp_path, 2, "other")
    ask = opened(3, "r")
    assert jobs.ended([str(tmp_path)], ask) == [first]
    if left == "no index":
        shutil.rmtree(tmp_path / "jobs")
    elif left == "half of one":
        (tmp_path / "jobs" / "whole").unlink()
        jobs.remove(str(tmp_path), opened(1, "r"))
    elif left == "no folder":
        jobs.add(str(tmp_path), opened(9, "r"))
    else:
        jobs._touch(next(iter(jobs._lists(str(tmp_path), ask))), "odd")
    assert jobs.ended([str(tmp_path / "none"), str(tmp_path)], ask) == [first]
    assert jobs.ended([str(tmp_path)], opened(3, "other")) == [second]


def come_and_go(path: str, name: str) -> None:
    for _ in range(3_000):
        jobs._touch(path, name)
        os.remove(os.path.join(path, name))
        with contextlib.suppress(OSError):  # another is in it, or removed it
            os.rmdir(path)


def test_a_folder_that_another_removes_is_made_again(tmp_path: Path) -> None:
    """A file in its place is an error."""
    path = tmp_path / "jobs"
    spawn = multiprocessing.get_context("spawn")
    others = [spawn.Process(target=come_and_go, args=(str(path), f"{i}")) for i in range(4)]
    for other in others:
        other.start()
    for other in others:
        other.join()
    assert [other.exitcode for other in others] == [0, 0, 0, 0]
    shutil.rmtree(path, ignore_errors=True)
    path.touch()
    with pytest.raises(FileExistsError):
        jobs._touch(str(path), "w")


def test_a_job_of_thousands_is_bounded(tmp_path: Path) -> None:
    writers = [over(tmp_path, number, "r") for number in range(1, 1100)]
    for _ in range(2):
        assert jobs.ended([str(tmp_path)], opened(0, "r")) == writers[:-65:-1]
    assert len(names(tmp_path)) == 512


def test_init_names_the_ended_of_its_own_spool(tmp_path: Path) -> None:
    """Also of one that `disk` names; and each init names itself to the next."""
    disk = tmp_path / "disk"
    for _ in range(2):
        kymogram.init(run_name="r", disk=str(disk), init_mode="offline")
        kymogram.close(0)
    documents = [json.loads(path.read_text())["open"] for path in disk.glob("writers/*/open.json")]
    first, second = sorted(documents, key=lambda one: one["opened_ns"])
    assert "ended" not in first
    assert second["ended"] == [first["writer"]]


_opens: list[str] = []
_watched = ""


def _audit(event: str, arguments: tuple[Any, ...]) -> None:
    if _watched and event in ("open", "os.listdir", "os.scandir"):
        name = str(arguments[0])
        if name.startswith(_watched):
            _opens.append(name)


def test_init_costs_the_same_beside_thousands(tmp_path: Path) -> None:
    """Counted: what init opens and lists in a spool of 10 and of 1,000 writers of others."""
    global _watched
    sys.addaudithook(_audit)
    counts = []
    for size in (10, 1_000):
        disk = tmp_path / f"of{size}"
        for number in range(size):
            over(disk, number, f"other{number}")
        shutil.rmtree(disk / "jobs")  # programs before the index made them
        for turn in range(2):
            _opens.clear()
            _watched = str(disk) if turn else ""
            kymogram.init(
                run_name=f"r{turn}",
                disk=str(disk),
                init_mode="offline",
                orchestration_id=f"j{turn}",
            )
            _watched = ""
            kymogram.close(0)
        counts.append(len(_opens))
    assert 0 < counts[1] == counts[0]


def test_usage_is_counted(tmp_path: Path) -> None:
    """The same as TestUsageIsCounted in Go."""
    root, kept = str(tmp_path), tmp_path / "used"
    (tmp_path / "writers" / "a").mkdir(parents=True)
    (tmp_path / "writers" / "a" / "0.seg").write_bytes(bytes(500_000))

    def keep(used: int, age_s: float = 0) -> None:
        kept.write_text(f"{used} 0\n")
        at = time.time() - age_s
        os.utime(kept, (at, at))

    usage, cap = folders.Usage(root), 1 << 30
    assert usage.room(cap, 1000) == cap - 500_000
    assert kept.read_text().split()[0] == "500000"
    keep(7)
    assert usage.room(cap, 1000) == cap - 7
    usage.added = 900
    assert usage.room(cap, 1000) == cap - 907
    keep(7, age_s=30)
    assert usage.room(cap, 1000) == cap - 7
    keep(499_999)
    assert usage.room(501_000, 1000) == 1000
    keep(499_999)
    assert usage.room(500_999, 1000) == 999
    keep(7, age_s=120)
    assert usage.room(cap, 1000) == cap - 500_000
    kept.write_text("odd")
    assert usage.room(cap, 1000) == cap - 500_000


def hold(root: str, envs: list[str], said: Connection) -> None:
    """A process that logs environments until it is told to end."""
    owners = Owners(root, "run")
    said.send(owners.claim(envs))
    said.recv()
    os._exit(0)


@pytest.mark.skipif(sys.platform != "linux", reason="locks tell who has them on Linux")
def test_two_processes_see_whose_environments_are_the_same(tmp_path: Path) -> None:
    context: Any = multiprocessing.get_context("fork")
    mine = Owners(str(tmp_path), "run")
    assert mine.claim(["a", "b", "c"]) == {}
    children = []
    for envs, wanted in ((["b", "x"], {"b"}), (["y", "z"], set()), (["z", "a"], {"a", "z"})):
        ours, theirs = multiprocessing.Pipe()
        child = context.Process(target=hold, args=(str(tmp_path), envs, theirs))
        child.start()
        children.append((child, ours))
        assert set(ours.recv()) == wanted
    pids = [child.pid for child, _ in children]
    assert mine.claim(["x", "y", "q"]) == {"x": pids[0], "y": pids[1]}
    assert mine.claim(["z"])["z"] in pids[1:]
    again = Owners(str(tmp_path), "run")  # of this process, which is no other
    assert again.claim(["c"]) == {}
    again.release()
    another = Owners(str(tmp_path), "another run")
    assert another.claim(["x"]) == {}
    another.release()
    for child, ours in children:
        ours.send("end")
        child.join()
    assert mine.claim([f"e{i}" for i in range(10)] + ["new"]) == {}
    late = Owners(str(tmp_path), "run")
    assert late.claim(["x", "y"]) == {}  # theirs are gone
    late.release()
    mine.release()
    assert [path for path in tmp_path.rglob("*-*") if path.is_file()] == []


@pytest.mark.skipif(sys.platform != "linux", reason="locks tell who has them on Linux")
def test_environments_of_a_forked_child_are_its_own(tmp_path: Path) -> None:
    """The child has no lock of its parent's; both see the other."""
    owners = Owners(str(tmp_path), "run")
    assert owners.claim(["a"]) == {}
    ours, theirs = multiprocessing.Pipe()
    pid = os.fork()
    if pid == 0:
        theirs.send(owners.claim(["a", "b"]))
        theirs.recv()
        os._exit(0)
    assert ours.recv() == {"a": os.getpid()}
    assert owners.claim(["b"]) == {"b": pid}
    ours.send("end")
    os.waitpid(pid, 0)
