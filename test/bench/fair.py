"""What one caller's load costs another: `buckets` beside 100 unread answers, and 200 writers ahead of the disk.

`python test/bench/fair.py [--binary bin/kymogram]`; `make bench` runs it. An older binary tells what changed.
"""

from __future__ import annotations

import argparse
import json
import socket
import statistics
import subprocess
import tempfile
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
ROWS = 1_000_000
UNREAD = 100
WRITERS = 200
BODY = 500 << 10
LIMIT = 20.0  # seconds after which a request counts as frozen


class Node:
    """A server of its own, with keys."""

    def __init__(self, address: str, pid: int, admin: str) -> None:
        self.address, self.pid, self.admin = address, pid, admin
        self.host, _, port = address.removeprefix("http://").partition(":")
        self.port = int(port)

    def ask(self, path: str, key: str = "", data: bytes | None = None, method: str | None = None) -> bytes:
        request = urllib.request.Request(self.address + path, data=data, method=method)
        request.add_header("Authorization", "Bearer " + (key or self.admin))
        with urllib.request.urlopen(request, timeout=LIMIT) as answer:
            return bytes(answer.read())

    def key(self, name: str, *scopes: str) -> str:
        body = json.dumps({"name": name, "scopes": scopes}).encode()
        return str(json.loads(self.ask("/api/v1/keys", data=body))["key"])

    def peak_mib(self) -> int:
        status = Path(f"/proc/{self.pid}/status").read_text()
        return int(next(line.split()[1] for line in status.splitlines() if line.startswith("VmHWM"))) >> 10


@contextmanager
def serve(binary: Path) -> Iterator[Node]:
    with tempfile.TemporaryDirectory() as folder:
        data = Path(folder) / "data"
        command = [str(binary), "serve", "--data", str(data), "--http", "127.0.0.1:0"]
        env = {"HOME": folder, "PATH": "/usr/bin:/bin"}
        quiet = subprocess.DEVNULL
        with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=quiet, text=True, env=env) as process:
            try:
                assert process.stdout
                words = dict(w.split("=", 1) for w in process.stdout.readline().split()[1:])
                yield Node("http://" + words["http"], process.pid, (data / "admin.key").read_text().strip())
            finally:
                process.terminate()


def lines(run: str, first: int, count: int) -> bytes:
    line, at = b"loss,run=%s value=%d %d\n", 1_700_000_000_000_000_000
    return b"".join(line % (run.encode(), i, at + i) for i in range(first, first + count))


def percentile(values: list[float], part: float) -> float:
    return sorted(values)[min(len(values) - 1, int(part * len(values)))]


def unread(node: Node, path: str, key: str) -> socket.socket:
    conn = socket.socket()
    conn.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 128 << 10)
    conn.connect((node.host, node.port))
    conn.sendall(f"GET {path} HTTP/1.1\r\nHost: {node.address[7:]}\r\nAuthorization: Bearer {key}\r\n\r\n".encode())
    return conn


def beside_unread(binary: Path) -> str:
    """p99 of another key's `buckets` while answers of 1,000,000 rows are open and nobody reads them."""
    with serve(binary) as node:
        for first in range(0, ROWS, 100_000):
            node.ask("/api/v2/write?org=o&bucket=b", data=lines("long", first, 100_000))
        run = json.loads(node.ask("/api/v1/resolve?run=o/b/long"))["id"]
        metric = json.loads(node.ask(f"/api/v1/runs/{run}/series"))["series"][0]["metric"]
        greedy, other = node.key("greedy", "read"), node.key("other", "read")
        buckets = f"/api/v1/runs/{run}/buckets?metric={metric}&x=time_ns&n=1000"
        alone = [timed(node, buckets, other) for _ in range(100)]
        path = f"/api/v1/runs/{run}/points?metric={metric}&axis=time_ns&limit={ROWS}"
        open_answers = [unread(node, path, greedy) for _ in range(UNREAD)]
        time.sleep(1)
        beside: list[float] = []
        while len(beside) < 200 and (not beside or beside[-1] < LIMIT):
            beside.append(timed(node, buckets, other))
        for conn in open_answers:
            conn.close()
        return (
            f"buckets of another key, p99: {percentile(alone, 0.99) * 1000:.0f} ms alone, "
            f"{percentile(beside, 0.99) * 1000:.0f} ms beside {UNREAD} unread answers, peak {node.peak_mib()} MiB"
        )


def timed(node: Node, path: str, key: str) -> float:
    start = time.perf_counter()
    try:
        node.ask(path, key)
    except TimeoutError:
        return LIMIT
    return time.perf_counter() - start


def ahead_of_disk(binary: Path) -> str:
    """Writers of 500 KiB at once, which send again what is refused: time of an accepted request and of all."""
    with serve(binary) as node:
        key = node.key("writers", "ingest")
        accepted: list[float] = []
        refused: list[float] = []

        dense = lines("w000", 0, 20_000)[:BODY].rpartition(b"\n")[0]
        bodies = [dense.replace(b"w000", b"w%03d" % n) for n in range(WRITERS)]
        ready = threading.Barrier(WRITERS)

        def write(body: bytes) -> None:
            ready.wait()
            while True:
                start = time.perf_counter()
                try:
                    node.ask("/api/v2/write?org=o&bucket=b", key, body)
                    accepted.append(time.perf_counter() - start)
                    return
                except urllib.error.HTTPError as err:
                    refused.append(time.perf_counter() - start)
                    time.sleep(float(err.headers.get("Retry-After", "1")))

        start = time.perf_counter()
        threads = [threading.Thread(target=write, args=(body,)) for body in bodies]
        for t in threads:
            t.start()
        for t in threads:
            t.join()
        took = time.perf_counter() - start
        return (
            f"{WRITERS} writers of {BODY >> 10} KiB: {took:.1f} s in all, "
            f"accepted after {statistics.median(accepted):.2f} s (p50), "
            f"{len(refused)} refusals, peak {node.peak_mib()} MiB"
        )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--binary", type=Path, default=ROOT / "bin" / "kymogram")
    args = parser.parse_args()
    print(beside_unread(args.binary), flush=True)
    print(ahead_of_disk(args.binary), flush=True)


if __name__ == "__main__":
    main()
