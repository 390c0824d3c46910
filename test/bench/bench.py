"""What a user feels: time of log(), start, sizes, and how soon a point is visible. `make bench` runs it.

Each figure comes from a process of its own; figures of loops are medians of eleven rounds (test/peers/loop.py).
"""

from __future__ import annotations

import argparse
import gzip
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
import urllib.parse
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
BINARY = ROOT / "bin" / "kymogram"
LOOP = ROOT / "test" / "peers" / "loop.py"


@contextmanager
def server(folder: Path) -> Iterator[str]:
    command = [str(BINARY), "serve", "--data", str(folder / "data"), "--http", "127.0.0.1:0", "--no-auth"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True) as process:
        try:
            assert process.stdout
            words = dict(w.split("=", 1) for w in process.stdout.readline().split()[1:])
            yield "http://" + words["http"]
        finally:
            process.terminate()


def run(command: list[str], env: dict[str, str]) -> str:
    return subprocess.run(command, env=env, check=True, capture_output=True, text=True).stdout.strip()


def cpu_us(folder: Path, address: str, env: dict[str, str]) -> dict[str, float]:
    """CPU of the calling thread for each kind of call, in µs; the loop of `make bench-client`."""
    found = run([sys.executable, str(LOOP), "kymogram", str(folder), address, "cpu"], env)
    return dict(json.loads(found.splitlines()[-1])["cpu_us"])


def median_ms(command: list[str], env: dict[str, str], times: int = 7) -> float:
    taken = []
    for _ in range(times):
        start = time.perf_counter()
        subprocess.run(command, env=env, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        taken.append((time.perf_counter() - start) * 1000)
    return statistics.median(taken)


def page_gzip() -> tuple[int, int]:
    files = [f for f in (ROOT / "web" / "dist").rglob("*") if f.is_file()]
    return sum(len(gzip.compress(f.read_bytes(), 9)) for f in files), len(files)


VISIBLE = """
import sys, time, kymogram
kymogram.init(project_name="bench", run_name="visible", server=sys.argv[1])
kymogram.log("value", 0)
for line in sys.stdin:
    kymogram.log("value", int(line))
    print(time.time_ns(), flush=True)
"""


def visible_ms(address: str, env: dict[str, str]) -> list[float]:
    """From the return of log() to the answer of the API that holds the point."""

    def get(path: str) -> dict:
        with urllib.request.urlopen(address + path, timeout=10) as answer:
            return json.load(answer)

    command = [sys.executable, "-c", VISIBLE, address]
    with subprocess.Popen(command, env=env, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        taken = []
        run_id = ""
        for i in range(1, 21):
            process.stdin.write(f"{i}\n")
            process.stdin.flush()
            logged = int(process.stdout.readline())
            while True:
                if not run_id:
                    runs = get("/api/v1/projects/default/bench/runs?name=visible")["runs"]
                    run_id = runs[0]["id"] if runs else ""
                else:
                    query = urllib.parse.urlencode({"q": "^value$"})
                    series = get(f"/api/v1/runs/{run_id}/series?{query}")["series"]
                    if series and series[0]["last"]["value"] == i:
                        break
                time.sleep(0.002)
            taken.append((time.time_ns() - logged) / 1e6)
        process.stdin.close()
    return sorted(taken)


def table(rows: list[tuple[str, str]]) -> None:
    width = max(len(name) for name, _ in rows)
    for name, value in rows:
        print(f"  {name:<{width}}  {value}")


def main() -> None:
    argparse.ArgumentParser(description=__doc__).parse_args()
    with tempfile.TemporaryDirectory(prefix="kymogram-bench-") as name:
        folder = Path(name)
        env = {k: v for k, v in os.environ.items() if not k.startswith("KYMOGRAM_")}
        env |= {"KYMOGRAM_SPOOL_DIR": str(folder / "spool"), "XDG_CONFIG_HOME": str(folder / "config")}
        rows: list[tuple[str, str]] = []
        with server(folder) as address:
            for kind, micros in cpu_us(folder, address, env).items():
                rows.append((f"Python log(), {kind}", f"{micros:9.2f} µs"))
            for line in run(["go", "run", "./test/bench/golog", address], env).splitlines():
                kind, number, *_ = line.split("\t")
                unit = "MB" if kind.startswith("memory") else "µs"
                rows.append((f"Go Log(), {kind}", f"{float(number):9.2f} {unit}"))
            taken = visible_ms(address, env)
            rows.append(("point visible by the API, median", f"{statistics.median(taken):9.0f} ms"))
            rows.append(("point visible by the API, worst of 20", f"{taken[-1]:9.0f} ms"))
        # Port 9 is discard: nothing listens there.
        away = cpu_us(folder, "http://127.0.0.1:9", env)["scalar"]
        rows.append(("Python log(), scalar, server away", f"{away:9.2f} µs"))
        start_ms = median_ms([sys.executable, "-c", ""], env)
        import_ms = median_ms([sys.executable, "-c", "import kymogram"], env)
        rows.append(("import kymogram", f"{import_ms - start_ms:9.0f} ms"))
        rows.append(("kymogram --help", f"{median_ms([str(BINARY), '--help'], env):9.0f} ms"))
        size, files = page_gzip()
        rows.append(("binary", f"{BINARY.stat().st_size / 1e6:9.1f} MB"))
        rows.append((f"page, {files} files, gzip", f"{size / 1e3:9.1f} kB"))
        table(rows)


if __name__ == "__main__":
    main()
