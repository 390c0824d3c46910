"""What it costs to fetch a million points, by each reader. `make bench-reading` runs it.

Seconds of processor time of the reading process, and the peak of its memory above what it
had once its libraries were imported. Each way has a process of its own; medians of rounds.
Arrow has goals; a row that misses one says so, and the exit status is 1.
"""

from __future__ import annotations

import argparse
import os
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
BINARY = ROOT / "bin" / "kymogram"
GOAL = (1.0, 120.0)  # seconds, MB
READ = """
import resource, sys
way, address, name = sys.argv[1:]
absent = {"arrow": [], "frames": [], "numpy": ["pyarrow"], "plain": ["pyarrow", "numpy"]}[way]
for library in absent:
    sys.modules[library] = None
if way != "plain":
    import numpy, numpy.ma
if not absent:
    import pyarrow, pyarrow.ipc
if way == "frames":
    import pandas
from kymogram import query
run = query.Client(address).run(name)
run.points("loss", limit=10)  # what a library imports at its first call
def status(what):
    lines = open("/proc/self/status").read().splitlines()
    return next(int(one.split()[1]) * 1024 / 1e6 for one in lines if one.startswith(what))
def processor():
    used = resource.getrusage(resource.RUSAGE_SELF)
    return used.ru_utime + used.ru_stime
open("/proc/self/clear_refs", "w").write("5")  # the peak begins anew
memory, before = status("VmRSS"), processor()
got = run.to_pandas("loss") if way == "frames" else run.points("loss")
print(len(got["value"]), processor() - before, status("VmHWM") - memory)
"""


def fill(folder: Path, address: str, points: int) -> None:
    """A run with one series, as a training program logs it."""
    code = (
        "import kymogram, math\n"
        f"with kymogram.init(run_name='reading', server={address!r}, log_level='ERROR') as run:\n"
        f"    for at in range(0, {points}, 10_000):\n"
        "        run.log('loss', [math.sin(i) for i in range(at, at + 10_000)])\n"
    )
    spool = str(folder / "spool")
    environment = {**os.environ, "KYMOGRAM_SPOOL_DIR": spool, "KYMOGRAM_BINARY": str(BINARY)}
    subprocess.run([sys.executable, "-c", code], env=environment, check=True)
    subprocess.run([str(BINARY), "sync", "--spool", spool], check=True, capture_output=True)


def measured(command: list[str], points: int, rounds: int) -> tuple[float, float]:
    """Medians of seconds and MB."""
    seconds, megabytes = [], []
    for _ in range(rounds):
        done = subprocess.run(command, capture_output=True, text=True, check=True)
        rows, took, peak = (float(one) for one in done.stdout.split())
        if rows != points:
            raise SystemExit(f"{command[-1]} gave {rows:.0f} of {points} points")
        seconds.append(took)
        megabytes.append(peak)
    return statistics.median(seconds), statistics.median(megabytes)


def main() -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("--points", type=int, default=1_000_000)
    parser.add_argument("--rounds", type=int, default=5)
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as path:
        folder = Path(path)
        program = folder / "reading"
        subprocess.run(["go", "build", "-o", program, "./test/bench/reading"], cwd=ROOT, check=True)
        serve = [str(BINARY), "serve", "--data", str(folder / "data"), "--no-auth"]
        with subprocess.Popen(
            [*serve, "--http", "127.0.0.1:0"],
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
        ) as server:
            assert server.stdout is not None
            address = "http://" + server.stdout.readline().split("http=")[1].split()[0]
            try:
                return rows(folder, program, address, given.points, given.rounds)
            finally:
                server.terminate()


def rows(folder: Path, program: Path, address: str, points: int, rounds: int) -> int:
    """Print the table; 1 where a goal is missed."""
    fill(folder, address, points)
    name, missed = "default/default/reading", 0
    python = [sys.executable, "-c", READ]
    table = {
        "Python, points(), Arrow": ([*python, "arrow", address, name], GOAL),
        "Python, to_pandas(), Arrow": ([*python, "frames", address, name], None),
        "Python, points(), JSON with NumPy": ([*python, "numpy", address, name], None),
        "Python, points(), JSON, standard library": ([*python, "plain", address, name], None),
        "Go, record.Batches, Arrow": ([str(program), address, name, "record"], GOAL),
        "Go, Chunks, JSON": ([str(program), address, name, "chunks"], None),
        "Go, Points, JSON, one at a time": ([str(program), address, name, "points"], None),
    }
    print(f"| {points:,} points | CPU s | MB | |\n|---|---|---|---|")
    for what, (command, goal) in table.items():
        seconds, megabytes = measured(command, points, rounds)
        verdict = ""
        if goal:
            reached = seconds <= goal[0] and megabytes <= goal[1]
            missed += not reached
            verdict = f"{'reached' if reached else 'missed'}: at most {goal[0]} s, {goal[1]:.0f} MB"
        print(f"| {what} | {seconds:.2f} | {megabytes:.0f} | {verdict} |", flush=True)
    return 1 if missed else 0


if __name__ == "__main__":
    raise SystemExit(main())
