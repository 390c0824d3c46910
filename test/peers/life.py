"""One life of a logger that ends as it is told: python life.py LOGGER FOLDER SERVER ENDING COUNT.

FOLDER is the logger's, its parent is for what life and proof tell each other. It logs COUNT points, value i at step
i, and prints `logged N`, the number of calls that returned. No ending calls close() unless it says so.
"""

from __future__ import annotations

import json
import os
import signal
import sys
import time
from collections.abc import Callable

import logger as loggers
from loop import memory


class Loop:
    """The loop of a training: `run(n)` logs n points more and survives what the logger raises."""

    def __init__(self, log: loggers.Logger, folder: str) -> None:
        self.log = log
        self.folder = folder
        self.beside = os.path.dirname(folder)
        self.next = 0
        self.errors = 0
        self.taken: list[int] = []
        self.before = memory()["own"]

    def run(self, count: int, gap_s: float = 0) -> None:
        now = time.perf_counter_ns
        for i in range(self.next, self.next + count):
            start = now()
            try:
                self.log.scalar(i)
            except Exception:  # a logger that raises into the loop is counted, not followed
                self.errors += 1
            self.taken.append(now() - start)
            if gap_s:
                time.sleep(gap_s)
        self.next += count

    def run_blocks(self, count: int) -> None:
        """Log count points in blocks of 1,000."""
        for i in range(self.next, self.next + count, 1000):
            start = time.perf_counter_ns()
            self.log.block(i)
            self.taken.append(time.perf_counter_ns() - start)
        self.next += count

    def tell(self) -> None:
        """Say what was logged, before whatever comes."""
        found = {
            "grown": memory()["own"] - self.before,
            "errors": self.errors,
            "us": sorted(t // 1000 for t in self.taken),
        }
        with open(os.path.join(self.beside, "life.json"), "w") as file:
            json.dump(found, file)
        print(f"logged {self.next}", flush=True)


def wait_for(path: str) -> None:
    while not os.path.exists(path):
        time.sleep(0.01)


def killed(loop: Loop, count: int) -> None:
    loop.run(count)
    loop.tell()
    os.kill(os.getpid(), signal.SIGKILL)


def killed_late(loop: Loop, count: int) -> None:
    loop.run(count)
    loop.tell()
    time.sleep(2)
    os.kill(os.getpid(), signal.SIGKILL)


def killed_with_all(loop: Loop, count: int) -> None:
    loop.run(count)
    loop.tell()
    os.killpg(0, signal.SIGKILL)


def os_exit(loop: Loop, count: int) -> None:
    loop.run(count)
    loop.tell()
    os._exit(0)


def plain_return(loop: Loop, count: int) -> None:
    loop.run(count)
    loop.tell()


def raises(loop: Loop, count: int) -> None:
    loop.run(count)
    loop.tell()
    raise RuntimeError("the training broke, as it was meant to")


def terminated(loop: Loop, count: int) -> None:
    loop.run(count)
    loop.tell()
    os.kill(os.getpid(), signal.SIGTERM)
    time.sleep(5)


def forks(loop: Loop, count: int) -> None:
    """A third in the parent, a third in the child, a third in the parent again."""
    part = count // 3
    loop.run(part)
    child = os.fork()
    if child == 0:
        loop.run(part)
        os._exit(0)
    deadline = time.monotonic() + 20
    while os.waitpid(child, os.WNOHANG) == (0, 0):
        if time.monotonic() > deadline:  # the child hangs in its logger
            os.kill(child, signal.SIGKILL)
        time.sleep(0.01)
    loop.next += part
    loop.run(count - 2 * part)
    loop.tell()
    loop.log.close()


def disk_full(loop: Loop, count: int) -> None:
    """A tenth, then the disk is filled and five tenths follow, then it is freed and the rest follows."""
    loop.run(count // 10)
    time.sleep(2)
    filler = os.path.join(loop.folder, "filler")
    with open(filler, "wb", buffering=0) as file:
        try:
            while True:
                file.write(bytes(4096))
        except OSError:
            pass
    loop.run(count // 2, 0.001)
    os.unlink(filler)
    time.sleep(3)
    loop.run(count - loop.next, 0.001)
    loop.tell()
    loop.log.close()


def capped(loop: Loop, count: int) -> None:
    """On a full disk that stays full, until what waits in memory is dropped; then the disk is freed."""
    filler = os.path.join(loop.folder, "filler")
    with open(filler, "wb", buffering=0) as file:
        try:
            while True:
                file.write(bytes(4096))
        except OSError:
            pass
    loop.run_blocks(count)
    os.unlink(filler)
    print(f"dropped {loop.log.dropped()}", flush=True)
    loop.tell()
    loop.log.close()


def closes(loop: Loop, count: int) -> None:
    loop.run(count)
    loop.tell()
    loop.log.close()


def outage(loop: Loop, count: int) -> None:
    """Half, then the other side takes the server away, then the rest."""
    loop.run(count // 2, 0.001)
    open(os.path.join(loop.beside, "half"), "w").close()
    wait_for(os.path.join(loop.beside, "gone"))
    loop.run(count - count // 2, 0.001)
    loop.tell()
    loop.log.close()


ENDINGS: dict[str, Callable[[Loop, int], None]] = {
    f.__name__: f
    for f in (
        killed,
        killed_late,
        killed_with_all,
        os_exit,
        plain_return,
        raises,
        terminated,
        forks,
        disk_full,
        capped,
        closes,
        outage,
    )
}


def main() -> None:
    name, folder, server, ending, count = sys.argv[1:6]
    loggers.preload(name)
    start = time.perf_counter()
    log = loggers.OPEN[name](folder, server, None)
    print(f"opened {time.perf_counter() - start:.3f}", flush=True)
    ENDINGS[ending](Loop(log, folder), int(count))


if __name__ == "__main__":
    main()
