"""The process that opened a run says how it ended, not the workers that it started."""

from __future__ import annotations

import multiprocessing
import os
from typing import Any

import pytest

import kymogram

from .rig import Served

pytestmark = pytest.mark.skipif(not hasattr(os, "fork"), reason="this system has no fork")


def leave(how: str) -> None:
    """What a worker does."""
    kymogram.log("worker", 1.0)
    if how == "exit":
        os._exit(3)
    if how == "raise":
        raise ValueError("of the worker")


def states(served: Served) -> tuple[str, list[str], int]:
    run = served.only()
    writers = [one for one in run.detail()["writers"] if not one["sdk"].startswith("system/")]
    gone = [one["sdk"] for one in writers if one["state"] == "gone"]
    return run.status, gone, sum(one.count for one in run.series("^(main|worker)$"))


@pytest.mark.parametrize("how", ["exit", "return", "raise"])
def test_a_worker_that_is_gone(served: Served, how: str) -> None:
    with kymogram.init(run_name="r") as run:
        run.log("main", 1.0)
        child = multiprocessing.get_context("fork").Process(target=leave, args=(how,))
        child.start()
        child.join()
    status, gone, points = states(served)
    assert (status, points) == ("finished", 2)
    assert gone == (["worker/python/0.1.0"] if how == "exit" else [])


def test_a_pool(served: Served) -> None:
    context: Any = multiprocessing.get_context("fork")
    with kymogram.init(run_name="r") as run:
        run.log("main", 1.0)
        with context.Pool(3) as pool:  # its end terminates the workers
            pool.map(leave, ["return"] * 6, 1)
    status, gone, points = states(served)
    assert (status, points) == ("finished", 7)
    assert set(gone) <= {"worker/python/0.1.0"}


def test_the_opener_that_is_gone(served: Served) -> None:
    """A fork that opens the run itself and vanishes."""
    pid = os.fork()
    if pid == 0:
        kymogram.init(run_name="r").log("main", 1.0)
        os._exit(0)
    os.waitpid(pid, 0)
    status, gone, _ = states(served)
    assert (status, gone) == ("lost", ["python/0.1.0"])
