"""Plays a program of tests/seed_programs.py: `python seed_player.py PROGRAM.json`.

One line of JSON on stdout for every call that returned: its place, when it
began and ended, what it answered or raised.
"""

from __future__ import annotations

import gc
import json
import os
import signal
import sys
import threading
import time
import warnings
from array import array
from collections import ChainMap, OrderedDict, deque
from decimal import Decimal
from fractions import Fraction
from math import inf, nan
from types import MappingProxyType
from typing import Any

import numpy as np

import kymogram
from kymogram._delivery import agent
from kymogram._spool import writer as _writer


class Float:
    def __init__(self, value: float) -> None:
        self.value = value

    def __float__(self) -> float:
        return self.value


class Index(int):
    """An integer that is no plain int."""


class Tensor:
    """What torch shows of a tensor."""

    def __init__(self, data: Any) -> None:
        self.data = np.asarray(data)
        self.shape = self.data.shape

    def detach(self) -> Tensor:
        return self

    def cpu(self) -> Tensor:
        return self

    def numpy(self) -> Any:
        return self.data


class Jax:
    """What knows its array, and nothing else."""

    def __init__(self, data: Any) -> None:
        self.data = np.asarray(data)

    def __array__(self, dtype: Any = None, copy: Any = None) -> Any:
        return np.asarray(self.data, dtype=dtype)


class Sub(np.ndarray):
    """An array of a type of its own."""


def readonly(data: Any) -> Any:
    data.flags.writeable = False
    return data


def masked(data: Any, every: int) -> Any:
    """Without every second, third, … number."""
    return np.ma.array(data, mask=np.arange(data.size).reshape(data.shape) % every == 0)


NAMES: dict[str, Any] = {
    "kymogram": kymogram,
    "np": np,
    "inf": inf,
    "nan": nan,
    "array": array,
    "deque": deque,
    "Decimal": Decimal,
    "Fraction": Fraction,
    "OrderedDict": OrderedDict,
    "ChainMap": ChainMap,
    "MappingProxyType": MappingProxyType,
    "Float": Float,
    "Index": Index,
    "Tensor": Tensor,
    "Jax": Jax,
    "Sub": Sub,
    "readonly": readonly,
    "masked": masked,
}
for _name in os.environ.get("PROGRAM_EXTRA", "").split():
    NAMES[_name] = __import__(_name)


def tell(place: list[int], **more: Any) -> None:
    os.write(1, (json.dumps({"at": place, **more}) + "\n").encode())


def call(place: list[int], line: str) -> None:
    names = dict(NAMES)
    lo = time.time_ns()
    try:
        exec(compile(line, f"step {place}", "exec"), names)
    except Exception as error:
        tell(place, error=type(error).__name__, mro=[c.__name__ for c in type(error).__mro__],
             text=str(error))  # fmt: skip
        return
    tell(place, lo=lo, hi=time.time_ns(), answer=names.get("answer"))


def play(step: dict[str, Any], place: list[int]) -> None:
    if "threads" in step:
        pool = [
            threading.Thread(target=play_all, args=(lines, [*place, number]))
            for number, lines in enumerate(step["threads"])
        ]
        for thread in pool:
            thread.start()
        for thread in pool:
            thread.join()
        tell(place)
    elif "fork" in step:
        pid = os.fork()
        if pid == 0:
            play_all(step["fork"], [*place, 0])
            if step["end"] == "kill":
                os.kill(os.getpid(), signal.SIGKILL)
            if step["end"] == "close":
                kymogram.close(0)
            os._exit(0)
        os.waitpid(pid, 0)
        tell(place)
    elif "again" in step:
        kymogram.close(step["timeout"])
        kymogram.init(**step["again"])
        tell(place)
    elif "ask" in step:
        tell(place)
        sys.stdin.readline()
    else:
        call(place, step["line"])


def play_all(steps: list[dict[str, Any]], place: list[int]) -> None:
    for number, step in enumerate(steps):
        play(step, [*place, number])


def prepare(setup: dict[str, Any]) -> None:
    """Small segments, and the other ways of writing."""
    if not setup["agent"]:
        agent.binary = lambda: None
    if setup["first_size"]:
        defaults: dict[str, Any] = _writer.Writer.__init__.__kwdefaults__ or {}
        defaults["first_size"] = setup["first_size"]
        _writer.LAST_SIZE = setup["last_size"]
        _writer._LARGE_CALLS = 1
    if not setup["mapped"]:
        vars(_writer)["mappable"] = lambda folder: False
    if not setup["gil"]:
        _writer.HAS_GIL = False
    if setup["switch"]:
        sys.setswitchinterval(setup["switch"])
    if setup["gc"]:
        gc.set_threshold(3)


def main() -> None:
    warnings.simplefilter("ignore")
    with open(sys.argv[1], encoding="utf-8") as file:
        life = json.load(file)
    prepare(life["setup"])
    run = kymogram.init(**life["init"])
    tell([-1], answered=run.answer is not None)
    if life["alarm"]:  # its default action ends the process, wherever that is
        signal.setitimer(signal.ITIMER_REAL, life["alarm"])
    play_all(life["steps"], [])
    signal.setitimer(signal.ITIMER_REAL, 0)
    if life["setup"]["agent"]:
        kymogram.flush(20)
    found = kymogram.get_metrics()
    counters = {name: getattr(found, name) for name in dir(found) if name[0] != "_"}
    tell([-2], counters={k: v for k, v in counters.items() if isinstance(v, int)})
    end = life["end"]
    if end == "kill":
        os.kill(os.getpid(), signal.SIGKILL)
    if end == "exit":
        os._exit(0)
    if end == "close":
        kymogram.close(life["close_timeout"])


if __name__ == "__main__":
    main()
