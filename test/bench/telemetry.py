"""What a call of MetricsLogger.log costs, beside the way of Templar's original. `make bench-telemetry` runs it.

Each figure comes from a process of its own, both send to a Kymogram server on this machine. A call is a miner's
point of a window: 12 fields, 2 tags, and those of the process. The original builds a Point of influxdb-client, hands
it to an event loop in another thread, that to a thread of an executor, and that to the client's batching write API
(1,000 points a batch).
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
WARM, CALLS = 200, 10_000
PACED, PAUSE_S = 500, 0.002

FIELDS = {
    "loss": 2.5,
    "n_gather_peers": 15,
    "gather_success_rate": 93.75,
    "gather_peers": json.dumps(list(range(15))),
    "skipped_peers": "[3]",
    "window_total_time": 1201.5,
    "peer_update_time": 2.5,
    "compression_time": 3.5,
    "gather_time": 40.25,
    "put_time": 4.5,
    "model_update_time": 7.5,
    "tokens_per_sec": 20_150.5,
}
PROCESS = {
    "uid": "7",
    "prefix": "M",
    "version": "2.1.3",
    "runtime_id": "life",
    "role": "miner",
    "group": "miner",
    "job_type": "mining",
}


def ours(address: str) -> tuple[Callable[[int], object], Callable[[], object]]:
    from kymogram.telemetry import MetricsLogger

    own = {k: PROCESS[k] for k in ("prefix", "uid", "role", "group", "job_type", "version")}
    logger = MetricsLogger(**own)
    return lambda i: logger.log("training_step_v2", tags={"window": i, "global_step": i}, fields=FIELDS), logger.close


def original(address: str) -> tuple[Callable[[int], object], Callable[[], object]]:
    from influxdb_client import InfluxDBClient, Point, WriteOptions

    client = InfluxDBClient(url=address, token="any", org="tplr")
    writes = client.write_api(write_options=WriteOptions(batch_size=1_000, flush_interval=60_000, jitter_interval=0))
    executor, loop = ThreadPoolExecutor(1), asyncio.new_event_loop()
    queue: asyncio.Queue[object] = asyncio.Queue(600_000)

    async def consume() -> None:
        while (point := await queue.get()) is not None:
            loop.run_in_executor(executor, lambda one=point: writes.write(bucket="tplr", record=one))

    thread = threading.Thread(target=loop.run_until_complete, args=(consume(),))
    thread.start()

    def log(i: int) -> None:
        point = Point("Mtraining_step_v2").time(time.time_ns())
        for name, value in {"window": i, "global_step": i, **PROCESS}.items():
            point.tag(name, str(value))
        for name, value in FIELDS.items():
            point.field(name, value)
        loop.call_soon_threadsafe(queue.put_nowait, point)

    def close() -> None:
        loop.call_soon_threadsafe(queue.put_nowait, None)
        thread.join()
        executor.shutdown()
        writes.close()
        client.close()

    return log, close


def helpers() -> float:
    """Seconds of the processor that agents of this spool took."""
    spent, mark = 0, ("KYMOGRAM_SPOOL_DIR=" + os.environ["KYMOGRAM_SPOOL_DIR"]).encode()
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            if b"agent" in (folder / "cmdline").read_bytes() and mark in (folder / "environ").read_bytes():
                fields = (folder / "stat").read_text().rsplit(")", 1)[1].split()
                spent += int(fields[11]) + int(fields[12])
        except OSError:
            continue
    return spent / os.sysconf("SC_CLK_TCK")


def loop(way: str, address: str) -> dict[str, float]:
    log, close = {"ours": ours, "original": original}[way](address)
    for i in range(WARM):
        log(i)
    taken = []
    for i in range(WARM, WARM + PACED):
        time.sleep(PAUSE_S)
        start = time.perf_counter_ns()
        log(i)
        taken.append((time.perf_counter_ns() - start) / 1000)
    taken.sort()
    thread, whole, other = time.thread_time(), time.process_time(), helpers()
    for i in range(WARM + PACED, WARM + PACED + CALLS):
        log(i)
    thread = time.thread_time() - thread
    close()
    whole = time.process_time() - whole
    time.sleep(1)
    return {
        "caller": thread / CALLS * 1e6,
        "process": whole / CALLS * 1e6,
        "helper": (helpers() - other) / CALLS * 1e6,
        "p50": taken[len(taken) // 2],
        "p99": taken[int(len(taken) * 0.99)],
    }


def measure(way: str) -> dict[str, float]:
    with tempfile.TemporaryDirectory(prefix="kymogram-bench-", ignore_cleanup_errors=True) as folder:
        command = [str(ROOT / "bin" / "kymogram"), "serve", "--data", f"{folder}/data", "--http", "127.0.0.1:0"]
        with subprocess.Popen([*command, "--no-auth"], stdout=subprocess.PIPE, text=True) as server:
            try:
                assert server.stdout
                address = "http://" + dict(w.split("=", 1) for w in server.stdout.readline().split()[1:])["http"]
                env = {k: v for k, v in os.environ.items() if not k.startswith(("KYMOGRAM_", "INFLUXDB_"))}
                env |= {"KYMOGRAM_SERVER": address, "KYMOGRAM_SPOOL_DIR": f"{folder}/spool", "XDG_CONFIG_HOME": folder}
                done = subprocess.run(
                    [sys.executable, __file__, "--way", way, "--address", address],
                    env=env,
                    check=True,
                    capture_output=True,
                    text=True,
                )
            finally:
                server.terminate()
    return dict(json.loads(done.stdout.splitlines()[-1]))


def main() -> None:
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--rounds", type=int, default=3, help="figures are medians of these")
    p.add_argument("--way", help=argparse.SUPPRESS)
    p.add_argument("--address", help=argparse.SUPPRESS)
    a = p.parse_args()
    if a.way:
        print(json.dumps(loop(a.way, a.address)))
        return
    found: dict[str, list[dict[str, float]]] = {"ours": [], "original": []}
    for i in range(a.rounds):
        for way in sorted(found, reverse=bool(i % 2)):
            found[way].append(measure(way))
    print("µs a call | the caller's CPU | the process's CPU | the agent's CPU | wall p50 | wall p99")
    for way, rounds in found.items():
        keys = ("caller", "process", "helper", "p50", "p99")
        print(way, *(f"{statistics.median(r[k] for r in rounds):.1f}" for k in keys), sep=" | ")


if __name__ == "__main__":
    main()
