"""What a call of the client costs, beside other loggers in one run. `make bench-client` runs it.

Every figure is the median of the rounds (default 3), each in a process of its own, the loggers taking turns.
CPU is the calling thread's: of calls without a pause and, for arrays, also in rollouts of 64 calls with 0.1 s
between. Wall is of single calls, 5,000 a second, idle and while another process writes and fsyncs 2 GB on the
same disk; of arrays of 1,000 while two processes a processor compute, beside a computation as long in the same
loop. Memory is what 1,000,000 points that nobody acks add to the process.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import install
import logger as loggers

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[1]
BINARY = ROOT / "bin" / "kymogram"
MODULES = {
    "metrana-1.11": "metrana",
    "metrana-0.5.2": "metrana",
    "tensorboard": "tensorboard.summary.writer.event_file_writer",
}
TARGETS = {
    "scalar": 1.0,
    "mapping of 10": 6,
    "64 environments": 8,
    "64 × 128": 30,
    "64 × 128, float64": 30,
    "vector of 1,000": 4,
    "vector of 1,000, float64": 4,
}
TARGETS |= {f"{kind}, in rollouts": target for kind, target in TARGETS.items() if "×" in kind or "vector" in kind}
RATIOS = {  # to Metrana 1.11 in the same run, at most
    "64 × 128, 2-D episode": 0.8,
    "64 × 128 with one timestamp": 1.0,
    "64 × 128 with 2-D timestamps": 1.0,
    "64 environments with timestamps": 0.6,
    "64 of 256 environments": 0.6,
    "vector of 1,000 with a step array": 1.0,
    "vector of 1,000 with steps and timestamps": 1.0,
    "log_rl_episode": 1.0,
    "log_config of 10": 1.0,
}
WRITER = """
import os, sys, tempfile
with tempfile.TemporaryFile(dir=sys.argv[1]) as file:
    block = os.urandom(1 << 20)
    for i in range(int(sys.argv[2])):
        file.write(block)
        if i % 64 == 63:
            file.flush(); os.fsync(file.fileno())
"""


@contextlib.contextmanager
def process(command: list[str], env: dict[str, str]) -> Iterator[str]:
    """A server; its first line."""
    with subprocess.Popen(command, env=env, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True) as server:
        try:
            assert server.stdout
            yield server.stdout.readline()
        finally:
            server.terminate()


@contextlib.contextmanager
def server_of(name: str, folder: str, hold: bool = False) -> Iterator[str]:
    """The address of what the logger sends to; empty for those that write files."""
    if name == "kymogram" and not hold:
        command = [str(BINARY), "serve", "--data", f"{folder}/data", "--http", "127.0.0.1:0", "--no-auth"]
        with process(command, dict(os.environ)) as line:
            yield "http://" + dict(w.split("=", 1) for w in line.split()[1:])["http"]
    elif name.startswith("metrana"):
        command = [str(install.python("metrana-1.11")), str(HERE / "standin.py"), f"{folder}/acked"]
        with process([*command, *(["hold"] if hold else [])], dict(os.environ)) as line:
            yield f"http://127.0.0.1:{line.strip()}"
    else:
        yield "http://127.0.0.1:9"  # discard: nobody listens


def measure(name: str, what: str, number: float = 0, disk: int = 0) -> dict[str, object]:
    """One process of a logger; disk megabytes are written beside it."""
    with tempfile.TemporaryDirectory(prefix="kymogram-peers-", ignore_cleanup_errors=True) as folder:
        env = loggers.environment(name, folder)
        with server_of(name, folder, hold=what == "memory") as server, contextlib.ExitStack() as stack:
            for _ in range(2 * (os.cpu_count() or 1) if what == "busy" else 0):
                hog = stack.enter_context(subprocess.Popen([sys.executable, "-c", "while True: pass"]))
                stack.callback(hog.kill)
            if disk:
                writer = subprocess.Popen([sys.executable, "-c", WRITER, folder, str(disk)])
                stack.callback(writer.wait)
            command = [str(install.python(name)), str(HERE / "loop.py"), name, folder, server, what, str(number)]
            done = subprocess.run(command, env=env, cwd=folder, capture_output=True, text=True, timeout=900)
    for line in reversed(done.stdout.splitlines()):
        if line.startswith("{"):
            return dict(json.loads(line))
    raise RuntimeError((done.stderr.strip().splitlines() or ["no output"])[-1])


def import_ms(name: str) -> float:
    python, module = str(install.python(name)), MODULES.get(name, name)
    code = "import time; a = time.perf_counter(); import {}; print((time.perf_counter() - a) * 1000)"
    with tempfile.TemporaryDirectory() as folder:
        command = [python, "-c", code.format(module)]
        done = subprocess.run(
            command, env=loggers.environment(name, folder), check=True, capture_output=True, text=True
        )
    return float(done.stdout.splitlines()[-1])


def round_of(name: str, args: argparse.Namespace) -> dict[str, object]:
    cpu = measure(name, "cpu")
    return {
        "import_ms": import_ms(name),
        "init_ms": cpu["init_ms"],
        "cpu_us": cpu["cpu_us"],
        "idle": measure(name, "wall", args.seconds)["wall_us"],
        "disk": measure(name, "wall", args.seconds * 2, args.megabytes)["wall_us"],
        "busy": measure(name, "busy", args.seconds * 2)["busy_us"] if name in ("kymogram", "metrana-1.11") else {},
        "memory": measure(name, "memory", args.points)["memory"],
    }


def median(rounds: list[dict[str, object]]) -> dict[str, object]:
    """The median of every figure, however deep."""
    first = rounds[0]
    return {
        key: median([r[key] for r in rounds])  # type: ignore[misc]
        if isinstance(first[key], dict)
        else statistics.median(r[key] for r in rounds)  # type: ignore[type-var]
        for key in first
    }


def table(title: str, rows: list[tuple[str, ...]]) -> None:
    widths = [max(len(row[i]) for row in rows) for i in range(len(rows[0]))]
    print(f"\n{title}")
    for row in rows:
        cells = [row[0].ljust(widths[0]), *(cell.rjust(width) for cell, width in zip(row[1:], widths[1:], strict=True))]
        print("  " + "  ".join(cells), flush=True)


def show(found: dict[str, dict]) -> None:
    names = list(found)
    ours = found.get("kymogram", {})
    rows: list[tuple[str, ...]] = [("", *names, "target", "÷ metrana 1.11", "target")]
    for kind in dict.fromkeys(kind for f in found.values() for kind in f["cpu_us"]):
        costs = [f["cpu_us"].get(kind) for f in found.values()]
        mine = ours.get("cpu_us", {}).get(kind)
        peer = found.get("metrana-1.11", {}).get("cpu_us", {}).get(kind)
        ratio = f"{mine / peer:.2f}" if mine and peer else "–"
        goals = [f"{goal[kind]:g}" if kind in goal else "" for goal in (TARGETS, RATIOS)]
        rows.append((kind, *(f"{c:.2f}" if c else "–" for c in costs), goals[0], ratio, goals[1]))
    table("CPU of the calling thread, µs a call", rows)
    for key, title in (("idle", "idle"), ("disk", "while 2 GB are written and fsynced on the same disk")):
        rows = [("", *names)]
        rows += [(q, *(f"{f[key][q]:.1f}" for f in found.values())) for q in ("p50", "p99", "p99.9", "max")]
        table(f"wall time of one scalar call, µs, {title}", rows)
    rows = [("", *names)]
    for q in ours.get("busy", {}):
        rows.append((q, *(f"{f['busy'][q]:.1f}" if f["busy"] else "–" for f in found.values())))
    table("wall time of an array of 1,000 and of a computation as long, µs, two busy processes a processor", rows)
    rows = [("", *names)]
    rows.append(("import, ms", *(f"{f['import_ms']:.0f}" for f in found.values())))
    rows.append(("init, ms", *(f"{f['init_ms']:.0f}" for f in found.values())))
    for key in ("own", "resident"):
        per = [f["memory"][key] / f["memory"]["points"] * 1e6 for f in found.values()]
        rows.append((f"memory for 1 M un-acked points, MB, {key}", *(f"{v:.1f}" for v in per)))
    rows.append(("  measured with points", *(f"{f['memory']['points']:.0f}" for f in found.values())))
    rows.append(("installed size, MB", *(f"{size(name) / 1e6:.1f}" for name in names)))
    table("start, memory, size", rows)


def size(name: str) -> int:
    if name != "kymogram":
        return install.wheel_bytes(name)
    package = ROOT / "python" / "src" / "kymogram"
    python = sum(f.stat().st_size for f in package.rglob("*.py"))
    return python + BINARY.stat().st_size


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--seconds", type=float, default=5, help="of single calls, idle; twice that beside the disk")
    parser.add_argument("--megabytes", type=int, default=2000, help="written beside the calls")
    parser.add_argument("--points", type=int, default=1_000_000, help="un-acked")
    parser.add_argument("--only", nargs="*", default=list(loggers.OPEN), choices=list(loggers.OPEN))
    parser.add_argument(
        "--dtype", choices=["float64", "float32"], default="float64", help="default_dtype of Kymogram and Metrana 1.11"
    )
    parser.add_argument("--json", action="store_true")
    args = parser.parse_args()
    os.environ["PEERS_DTYPE"] = args.dtype
    failed = install.install([name for name in args.only if name != "kymogram"])
    rounds: dict[str, list[dict[str, object]]] = {name: [] for name in args.only if name not in failed}
    for number in range(args.rounds):
        for name in list(rounds):
            print(f"round {number + 1} of {args.rounds}: {name}", file=sys.stderr, flush=True)
            try:
                rounds[name].append(round_of(name, args))
            except (RuntimeError, subprocess.SubprocessError) as error:
                failed[name] = str(error)
                del rounds[name]
    found = {name: median(taken) for name, taken in rounds.items()}
    if args.json:
        print(json.dumps({"median": found, "failed": failed}, indent=1))
    else:
        show(found)
    for name, why in failed.items():
        print(f"{name} is not in the table: {why}", file=sys.stderr)
    return 0 if "kymogram" in found else 1


if __name__ == "__main__":
    sys.exit(main())
