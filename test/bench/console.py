"""What print() costs with capture_console and without. `make bench-console` runs it.

Each figure comes from a process of its own, in turns: on a pseudo-terminal that this program reads as fast as it
can, and on a pipe. A call is print(..., flush=True) of a line of 80 characters. The first figure is a loop that does
nothing else, the second the mean of calls with a pause of 1 ms between them, as in a training loop.
"""

from __future__ import annotations

import argparse
import os
import pty
import statistics
import subprocess
import sys
import tempfile
import threading
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]

PROGRAM = """
import sys, time
import kymogram
kymogram.init(run_name="bench", capture_console=sys.argv[1] == "with", log_level="OFF",
              capture_system_metrics=False, capture_environment=False, init_mode="offline")
line, calls = "x" * 80, 20_000
began = time.perf_counter()
for _ in range(calls):
    print(line, flush=True)
burst = (time.perf_counter() - began) / calls
spent = 0.0
for _ in range(500):
    time.sleep(0.001)
    began = time.perf_counter()
    print(line, flush=True)
    spent += time.perf_counter() - began
began = time.perf_counter()
kymogram.close(0)
print(burst * 1e6, spent / 500 * 1e6, (time.perf_counter() - began) * 1e3, file=open(sys.argv[2], "w"))
"""


def drain(descriptor: int) -> None:
    """Read until nobody writes any more."""
    try:
        while os.read(descriptor, 1 << 16):
            pass
    except OSError:  # the end of a pseudo-terminal
        pass


def once(kind: str, on: str, folder: Path) -> list[float]:
    """One process: µs a call in a burst, µs a call with pauses, ms of close()."""
    source, end = pty.openpty() if kind == "terminal" else os.pipe()
    reader = threading.Thread(target=drain, args=(source,))
    reader.start()
    result = folder / "result"
    environment = {
        **os.environ,
        "PYTHONPATH": str(ROOT / "python" / "src"),
        "KYMOGRAM_BINARY": str(ROOT / "bin" / "kymogram"),
        "KYMOGRAM_SPOOL_DIR": str(folder / "spool"),
        "KYMOGRAM_SERVER": "http://127.0.0.1:1",
    }
    command = [sys.executable, "-c", PROGRAM, on, str(result)]
    subprocess.run(command, env=environment, stdout=end, stderr=end, check=True)
    os.close(end)
    reader.join()
    os.close(source)
    return [float(number) for number in result.read_text().split()]


def main() -> None:
    """Print a table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=7)
    rounds = parser.parse_args().rounds
    print(f"{'':10} {'capture':8} {'burst, µs':>10} {'paused, µs':>11} {'close(), ms':>12}")
    for kind in ("terminal", "pipe"):
        found: dict[str, list[list[float]]] = {"without": [], "with": []}
        for _ in range(rounds):
            for on, figures in found.items():
                with tempfile.TemporaryDirectory(prefix="console-bench-", ignore_cleanup_errors=True) as folder:
                    figures.append(once(kind, on, Path(folder)))
        for on, figures in found.items():
            burst, paused, close = (statistics.median(column) for column in zip(*figures, strict=True))
            print(f"{kind:10} {on:8} {burst:10.2f} {paused:11.2f} {close:12.1f}")


if __name__ == "__main__":
    main()
