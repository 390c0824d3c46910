"""What loggers lose when a training ends badly. `make proof-client` runs it.

Each cell is a process that logs value i at step i and ends as the row says; then the logger's own reader (Kymogram and
Metrana: the server) tells what is left. `lost` counts the calls that returned and whose value is gone, `twice` those
that are there more than once. docs/design/targets.md says what is asked of Kymogram.
"""

from __future__ import annotations

import argparse
import contextlib
import csv
import glob
import io
import json
import os
import signal
import subprocess
import sys
import tempfile
import time
import urllib.parse
import urllib.request
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import bench
import install
import logger as loggers
import toxic

HERE = Path(__file__).resolve().parent
COUNT = 950
FILES = ["tensorboard", "trackio", "wandb", "mlflow"]
ONLINE = ["metrana-1.11", "metrana-0.5.2"]
# What each row does: the ending of life.py, the way of the server, how many points.
ROWS: dict[str, tuple[str, str, int]] = {
    "SIGKILL at once": ("killed", "up", COUNT),
    "SIGKILL after 2 s": ("killed_late", "up", COUNT),
    "SIGKILL of the whole group": ("killed_with_all", "up", COUNT),
    "os._exit": ("os_exit", "up", COUNT),
    "plain return, no close": ("plain_return", "up", COUNT),
    "uncaught exception": ("raises", "up", COUNT),
    "SIGTERM": ("terminated", "up", COUNT),
    "fork": ("forks", "up", 900),
    "disk full, then freed": ("disk_full", "full", 2000),
    "disk full for ever: a cap drops": ("capped", "full", 10_000_000),
    "folder read-only": ("closes", "read-only", COUNT),
    "server dead": ("closes", "dead", COUNT),
    "server a black hole": ("closes", "hole", COUNT),
    "server slow": ("closes", "slow", COUNT),
    "server killed in mid-run": ("outage", "killed", 1000),
}


@dataclass
class Cell:
    """What was seen in one cell."""

    logged: int = 0
    lost: int = 0
    twice: int = 0
    opened_s: float = 0
    errors: int = 0
    p999_us: float = 0
    max_us: float = 0
    grown_mb: float = 0
    dropped: int = 0  # as the logger itself counts
    note: str = ""

    def __str__(self) -> str:
        if self.note:
            return self.note
        text = str(self.lost) if not self.twice else f"{self.lost} (+{self.twice})"
        if self.dropped:
            text += f", {self.dropped} counted"
        return text + (f" !{self.errors}" if self.errors else "")


@contextlib.contextmanager
def small_disk(folder: str, megabytes: int) -> Iterator[None]:
    """A tmpfs at the folder; only root can have one."""
    subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={megabytes}m", "tmpfs", folder], check=True)
    try:
        yield
    finally:
        subprocess.run(["umount", "-l", folder], check=False)


class Side:
    """The server of a cell, reached through toxiproxy, so that it can go away."""

    def __init__(self, name: str, way: str, folder: str, stack: contextlib.ExitStack) -> None:
        self.name, self.way, self.folder = name, way, folder
        self.origin = ""
        if name == "kymogram" or name in ONLINE:
            self.origin = stack.enter_context(bench.server_of(name, folder))
        self.proxy = stack.enter_context(toxic.proxy(self.origin)) if self.origin else None
        if self.proxy and way in ("dead", "hole", "slow"):
            self.make(way)

    @property
    def address(self) -> str:
        return self.proxy.address if self.proxy else "http://127.0.0.1:9"

    def make(self, way: str) -> None:
        assert self.proxy
        if way == "dead":
            self.proxy.enable(False)
        elif way == "hole":
            self.proxy.add("timeout", timeout=0)
        elif way == "slow":
            self.proxy.add("latency", latency=500, jitter=200)
        elif way == "up":
            self.proxy.reset()

    def values(self) -> list[int]:
        """What is there in the end, the server up again."""
        home = os.path.join(self.folder, "home")
        # The second is where Kymogram goes when its folder cannot be written.
        spools = [os.path.join(home, "spool"), *glob.glob(f"{self.folder}/state/kymogram/spool/*")]
        if self.proxy:
            self.make("up")
        if self.name == "kymogram":
            return kymogram_values(self.origin, self.address, spools)
        if self.name in ONLINE:
            return metrana_values(self.name, self.address, self.folder, spools)
        command = [str(install.python(self.name)), str(HERE / "stored.py"), self.name, home]
        env = loggers.environment(self.name, home)
        done = subprocess.run(command, env=env, capture_output=True, text=True, timeout=60)
        if done.returncode:
            raise RuntimeError("its reader fails: " + (done.stderr.strip().splitlines() or ["?"])[-1])
        return list(json.loads(done.stdout.splitlines()[-1]))


def kymogram_values(origin: str, address: str, spools: list[str]) -> list[int]:
    """Deliver what the spools hold, as any next process would, then ask the server."""
    for spool in spools:
        if os.path.isdir(os.path.join(spool, "writers")):
            command = [str(bench.BINARY), "sync", "--spool", spool]
            subprocess.run(command, check=False, capture_output=True, timeout=120)
    found: list[int] = []
    for run in json.loads(get(origin + "/api/v1/projects/default/peers/runs")[0])["runs"]:
        cursor = ""
        while True:
            query = urllib.parse.urlencode({"metric": "value", "limit": 500_000, "format": "csv", "cursor": cursor})
            text, cursor = get(f"{origin}/api/v1/runs/{run['id']}/points?{query}")
            found += [int(float(row["value"])) for row in csv.DictReader(io.StringIO(text))]
            if not cursor:
                break
    return found


def get(address: str) -> tuple[str, str]:
    """An answer of the server, and where its next page begins."""
    with urllib.request.urlopen(address, timeout=60) as answer:
        return answer.read().decode(), answer.headers.get("Kymogram-Next") or ""


def metrana_values(name: str, address: str, folder: str, spools: list[str]) -> list[int]:
    """What the stand-in acked, after 1.11 was told to deliver what its disk spool holds."""
    if name == "metrana-1.11":
        code = "import sys, metrana; metrana.replay_spool(sys.argv[1], api_key='key', ingestion_url=sys.argv[2])"
        for spool in filter(os.path.isdir, spools):
            command = [str(install.python(name)), "-c", code, spool, address]
            subprocess.run(command, env=loggers.environment(name, folder), check=False, capture_output=True, timeout=60)
    time.sleep(1.5)  # the acks of the last batch
    with open(os.path.join(folder, "acked")) as file:
        return [int(line) for line in file]


def live(name: str, ending: str, way: str, count: int, side: Side, home: str, limit_s: float) -> tuple[Cell, str]:
    """Run the life; the cell as far as the process itself tells it."""
    command = [str(install.python(name)), str(HERE / "life.py"), name, home, side.address, ending, str(count)]
    env = loggers.environment(name, home)
    output = Path(side.folder) / "output"
    with output.open("w") as file:
        process = subprocess.Popen(
            command, env=env, cwd=home, stdout=file, stderr=subprocess.STDOUT, start_new_session=True
        )
        if ending == "outage":
            meet(process, side)
        try:
            process.wait(limit_s)
            note = ""
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()
            note = f"no end in {limit_s:g} s"
    return told(output.read_text(errors="replace"), home, note), note


def meet(process: subprocess.Popen[bytes], side: Side) -> None:
    """Take the server away at the half."""
    while process.poll() is None and not os.path.exists(os.path.join(side.folder, "half")):
        time.sleep(0.01)
    if side.proxy:
        side.proxy.enable(False)
    with contextlib.suppress(OSError):
        open(os.path.join(side.folder, "gone"), "w").close()


def told(output: str, home: str, note: str) -> Cell:
    cell = Cell()
    for line in output.splitlines():
        if line.startswith("opened "):
            cell.opened_s = float(line.split()[1])
        if line.startswith("dropped "):
            cell.dropped = int(line.split()[1])
        if line.startswith("logged "):
            cell.logged = int(line.split()[1])
    try:
        with open(os.path.join(os.path.dirname(home), "life.json")) as file:
            life = json.load(file)
    except (OSError, ValueError):
        last = ([line for line in output.strip().splitlines() if line.strip()] or ["?"])[-1]
        cell.note = note or f"no run: {last[:60]}"
        return cell
    us = life["us"] or [0]
    cell.errors, cell.grown_mb = life["errors"], life["grown"] / 1e6
    cell.p999_us, cell.max_us = us[int(0.999 * (len(us) - 1))], us[-1]
    return cell


def cell_of(name: str, row: str, limit_s: float) -> Cell:
    ending, way, count = ROWS[row]
    if way in ("dead", "hole", "slow", "killed") and name in FILES:
        return Cell(note="–")  # it has no server
    if ending == "capped" and name != "kymogram":
        return Cell(note="–")  # the row compares the counter of dropped points with what is there
    if name == "mlflow":
        count = min(count, 200)
    with (
        tempfile.TemporaryDirectory(prefix="kymogram-proof-", ignore_cleanup_errors=True) as folder,
        contextlib.ExitStack() as stack,
    ):
        home = os.path.join(folder, "home")
        os.mkdir(home)
        try:
            if way == "full":
                stack.enter_context(small_disk(home, 6 if name != "mlflow" else 12))
            side = Side(name, way, folder, stack)
            if way == "read-only":
                for path in (home, os.path.join(home, "spool")):
                    os.makedirs(path, exist_ok=True)
                stack.enter_context(toxic.read_only(home))
            return judged(name, ending, way, count, side, home, limit_s)
        except (subprocess.SubprocessError, OSError, RuntimeError) as error:
            return Cell(note=f"failed: {error}"[:70])


def judged(name: str, ending: str, way: str, count: int, side: Side, home: str, limit_s: float) -> Cell:
    cell, _ = live(name, ending, way, count, side, home, limit_s)
    if cell.note.startswith("no run"):
        return cell
    left = Counter(side.values())
    wanted = cell.logged or count
    cell.lost = sum(1 for i in range(wanted) if not left[i])
    cell.twice = sum(n - 1 for i, n in left.items() if n > 1)
    return cell


def show(table: dict[str, dict[str, Cell]]) -> None:
    names = list(next(iter(table.values())))
    rows: list[tuple[str, ...]] = [("lost of the calls that returned", *names)]
    rows += [(row, *(str(cell) for cell in cells.values())) for row, cells in table.items()]
    bench.table(
        f"points lost (+ there twice, ! calls that raised); {COUNT} logged where the row has no other number", rows
    )
    worst: list[tuple[str, ...]] = [("kymogram", "init s", "p99.9 µs", "max µs", "memory +MB")]
    for row, cells in table.items():
        cell = cells.get("kymogram")
        if cell and not cell.note:
            numbers = (f"{cell.opened_s:.2f}", f"{cell.p999_us:.0f}", f"{cell.max_us:.0f}", f"{cell.grown_mb:.1f}")
            worst.append((row, *numbers))
    bench.table("what the calls cost meanwhile", worst)


def verdict(table: dict[str, dict[str, Cell]]) -> list[str]:
    """What Kymogram promises and a cell broke."""
    broken = []
    for row, cells in table.items():
        cell = cells.get("kymogram")
        if cell is None:
            continue
        if cell.note or cell.lost != cell.dropped or cell.twice or cell.errors:
            broken.append(f"{row}: {cell.note or f'{cell.lost} lost, {cell.twice} twice, {cell.errors} raised'}")
        if cell.p999_us > 1000:
            broken.append(f"{row}: p99.9 of the calls is {cell.p999_us:.0f} µs")
        if cell.grown_mb > 64 * 1.048576 + 1:
            broken.append(f"{row}: {cell.grown_mb:.0f} MB of memory")
    return broken


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    names = ["kymogram", *ONLINE, *FILES]
    parser.add_argument("--only", nargs="*", default=names, choices=names)
    parser.add_argument("--rows", nargs="*", default=list(ROWS), choices=list(ROWS), metavar="ROW")
    parser.add_argument("--limit", type=float, default=60, help="seconds after which a life that hangs is killed")
    args = parser.parse_args()
    failed = install.install([name for name in args.only if name != "kymogram"])
    toxic.install()
    table: dict[str, dict[str, Cell]] = {}
    for row in args.rows:
        table[row] = {}
        for name in (n for n in args.only if n not in failed):
            table[row][name] = cell_of(name, row, args.limit)
            print(f"{row}: {name}: {table[row][name]}", file=sys.stderr, flush=True)
    show(table)
    for name, why in failed.items():
        print(f"{name} is not in the table: {why}", file=sys.stderr)
    broken = verdict(table)
    for line in broken:
        print(f"broken promise: {line}", file=sys.stderr)
    return 1 if broken else 0


if __name__ == "__main__":
    sys.exit(main())
