"""A subnet of 256 nodes for some days, in Kymogram and in InfluxDB 1.6. `make bench-subnet` runs it.

The points are those of examples/subnet, the lines those of the real influxdb-client. Both servers get the same
requests and answer the same InfluxQL, one after the other. A node sends --every windows a request: 1 is what
Templar's nodes do, a day in one request is quicker to simulate. A point is a value of a field.
"""

from __future__ import annotations

import argparse
import gzip
import http.client
import importlib.machinery
import importlib.util
import json
import os
import socket
import statistics
import subprocess
import sys
import tempfile
import time
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import quote, urlencode

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "examples" / "subnet"))
sys.dont_write_bytecode = True

from subnet import FIRST_WINDOW, WINDOW_SECONDS, Subnet  # noqa: E402

loader = importlib.machinery.SourceFileLoader("examples_subnet", str(ROOT / "examples" / "subnet" / "run"))
example = importlib.util.module_from_spec(importlib.machinery.ModuleSpec(loader.name, loader))
loader.exec_module(example)

START = 1_790_000_000 // 86_400 * 86_400
PLACE = "templar"


class Server:
    """A server in a folder of its own; the path of writes and its headers."""

    name = ""
    write = f"/write?db={PLACE}"

    def __init__(self, folder: Path) -> None:
        self.folder = folder / self.name
        self.folder.mkdir(parents=True, exist_ok=True)
        self.headers: dict[str, str] = {}
        self.process: subprocess.Popen[str] | None = None

    def command(self) -> tuple[list[str], dict[str, str]]:
        raise NotImplementedError

    def started(self) -> None:
        """Wait until it answers."""

    def kept(self, path: Path) -> bool:
        return True

    def boot(self) -> None:
        command, env = self.command()
        log = (self.folder / "log").open("a")
        self.process = subprocess.Popen(
            command, env={**os.environ, **env}, stdout=subprocess.PIPE, stderr=log, text=True
        )
        self.started()
        self.connection = http.client.HTTPConnection(self.address, timeout=600)

    def ask(self, method: str, path: str, body: bytes | None = None, headers: dict[str, str] | None = None) -> bytes:
        self.connection.request(method, path, body, {**self.headers, **(headers or {})})
        answer = self.connection.getresponse()
        text = answer.read()
        if answer.status >= 300:
            raise RuntimeError(f"{self.name}: {method} {path}: {answer.status} {text[:300]!r}")
        return text

    def query(self, q: str) -> bytes:
        return self.ask("GET", f"/query?{urlencode({'db': PLACE, 'q': q}, quote_via=quote)}")

    def cpu(self) -> float:
        """Seconds of the processor so far."""
        assert self.process
        fields = Path(f"/proc/{self.process.pid}/stat").read_text().rsplit(")", 1)[1].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

    def memory(self) -> int:
        """The most MiB so far."""
        assert self.process
        status = Path(f"/proc/{self.process.pid}/status").read_text()
        return int(status.split("VmHWM:")[1].split()[0]) >> 10

    def stop(self) -> None:
        if self.process:
            self.process.terminate()
            self.process.wait(600)
            self.process = None

    def size(self) -> int:
        return sum(p.stat().st_size for p in (self.folder / "data").rglob("*") if p.is_file() and self.kept(p))


class Kymogram(Server):
    name = "kymogram"
    write = f"/api/v2/write?org=default&bucket={PLACE}&precision=ns"

    def command(self) -> tuple[list[str], dict[str, str]]:
        data = str(self.folder / "data")
        serve = [
            str(ROOT / "bin" / "kymogram"),
            "serve",
            "--data",
            data,
            "--http",
            "127.0.0.1:0",
            "--log-level",
            "warn",
        ]
        return serve, {"HOME": str(self.folder), "XDG_CONFIG_HOME": str(self.folder)}

    def started(self) -> None:
        assert self.process
        assert self.process.stdout
        self.address = dict(w.split("=", 1) for w in self.process.stdout.readline().split()[1:])["http"]
        self.headers = {"Authorization": "Token " + (self.folder / "data" / "admin.key").read_text().strip()}

    def kept(self, path: Path) -> bool:
        return path.suffix != ".wal" and path.name != "reserve"

    def series(self) -> int:
        from kymogram.query import Client

        client = Client(f"http://{self.address}", api_key=self.headers["Authorization"].split()[1])
        return sum(sum(1 for _ in run.series()) for run in client.runs(f"default/{PLACE}"))


class InfluxDB(Server):
    name = "influxdb-1.6"

    def command(self) -> tuple[list[str], dict[str, str]]:
        ports = []
        for _ in range(2):
            with socket.create_server(("127.0.0.1", 0)) as free:
                ports.append(f"127.0.0.1:{free.getsockname()[1]}")
        self.address = ports[0]
        settings = {
            "REPORTING_DISABLED": "true",
            "BIND_ADDRESS": ports[1],
            "HTTP_BIND_ADDRESS": self.address,
            "META_DIR": self.folder / "meta",
            "DATA_DIR": self.folder / "data",
            "DATA_WAL_DIR": self.folder / "wal",
            "HTTP_LOG_ENABLED": "false",
            "DATA_QUERY_LOG_ENABLED": "false",
            "MONITOR_STORE_ENABLED": "false",
            "DATA_MAX_SERIES_PER_DATABASE": "0",
            "DATA_MAX_VALUES_PER_TAG": "0",
        }
        binary = str(ROOT / "bin" / "tools" / "influxd-1.6")
        return [binary, "-config", os.devnull], {f"INFLUXDB_{k}": str(v) for k, v in settings.items()}

    def started(self) -> None:
        for _ in range(6000):
            try:
                self.connection = http.client.HTTPConnection(self.address, timeout=60)
                self.ask("POST", f"/query?q=CREATE+DATABASE+{PLACE}")
                return
            except OSError:
                time.sleep(0.1)
        raise RuntimeError("InfluxDB does not start")

    def series(self) -> int:
        answer = json.loads(self.query(f"SHOW SERIES EXACT CARDINALITY ON {PLACE}"))
        return sum(int(s["values"][0][0]) for s in answer["results"][0]["series"])


def requests(a: argparse.Namespace, windows: int) -> Iterator[tuple[bytes, int]]:
    """Bodies as the client sends them, and the points of each."""
    waiting: dict[str, list[str]] = defaultdict(list)
    points: dict[str, int] = defaultdict(int)

    def flush() -> Iterator[tuple[bytes, int]]:
        for node, lines in waiting.items():
            yield gzip.compress("\n".join(lines).encode(), 6), points[node]
        waiting.clear()
        points.clear()

    window, last = 0, 0
    for s in Subnet(a.nodes, a.validators, windows, a.seed, START * 10**9).samples():
        window = int(s.tags["window"]) - FIRST_WINDOW
        if window >= last + a.every:
            yield from flush()
            last = window
        p = example.point(s)
        line = p.to_line_protocol()
        if line:
            waiting[s.node].append(line)
            points[s.node] += sum(not (isinstance(v, float) and v != v) for v in s.fields.values())
    yield from flush()


def queries(windows: int) -> dict[str, str]:
    """What Templar's dashboards ask, in InfluxQL."""
    end = START + windows * WINDOW_SECONDS

    def last(hours: int) -> str:
        return f"time >= {end - hours * 3600}s AND time < {end}s"

    at = FIRST_WINDOW + windows // 2
    loss, scores = "Mtraining_step_v2", "Vvalidator_scores"
    by_uid, ever = "uid fill(none)", last(24 * 400)
    mean, task = f"SELECT mean(loss) FROM {loss} WHERE", f"SELECT mean(score) FROM Ebenchmark_task WHERE {ever}"
    weight = f"SELECT last(weight) FROM {scores} WHERE {last(24)}"
    best = f"SELECT last(tokens_per_sec) AS t FROM {loss} WHERE {last(3)} GROUP BY uid"
    validators = f"SELECT mean(loss_random_before) FROM Vvalidator_window_v2 WHERE {last(168)}"
    return {
        "last loss of each miner, 3 h": f"SELECT last(loss) FROM {loss} WHERE {last(3)} GROUP BY uid",
        "loss of each miner, 3 h by 25 min": f"{mean} {last(3)} GROUP BY time(25m), {by_uid}",
        "loss of each miner, 1 day by 1 h": f"{mean} {last(24)} GROUP BY time(1h), {by_uid}",
        "loss of all miners, all by 1 h": f"{mean} {ever} GROUP BY time(1h) fill(none)",
        "loss of one miner, all": f"SELECT loss FROM {loss} WHERE uid = '7' AND {ever}",
        "tokens/s, the best 20 miners of 3 h": f"SELECT top(t, uid, 20) FROM ({best})",
        "loss of the validators, 7 days": f"{validators} GROUP BY time(25m), {by_uid}",
        "last weight of each miner, 1 day": f"{weight} GROUP BY eval_uid, uid",
        "mean gradient score, 7 days": f"SELECT mean(gradient_score) FROM {scores} WHERE {last(168)} GROUP BY eval_uid",
        "one window of all miners": f"SELECT loss, uid FROM {loss} WHERE \"window\" = '{at}'",
        "one window of the validators' scores": f"SELECT final_score, eval_uid FROM {scores} WHERE \"window\" = '{at}'",
        "loss by window, 1 day": f'{mean} {last(24)} GROUP BY "window"',
        "benchmark by task, all": f"{task} GROUP BY time(1d), task fill(none)",
        "the uids of a measurement": f"SHOW TAG VALUES FROM {loss} WITH KEY = uid",
        "the measurements": "SHOW MEASUREMENTS",
    }


def count(answer: bytes) -> int:
    """Rows of an answer; an error ends the run."""
    results = json.loads(answer)["results"]
    errors = [r["error"] for r in results if "error" in r]
    if errors:
        raise RuntimeError(errors[0])
    return sum(len(s["values"]) for r in results for s in r.get("series", []))


def timed(server: Server, q: str, times: int) -> tuple[float, float, str]:
    """Median ms of wall and ms of CPU, and what was answered."""
    took, cpu = [], server.cpu()
    rows = "?"
    try:
        for i in range(times + 1):
            start = time.perf_counter()
            answer = server.query(q)
            if i:  # the first may read the disk
                took.append((time.perf_counter() - start) * 1000)
            rows = str(count(answer))
            if sum(took) > 20_000:
                break
    except (RuntimeError, OSError) as e:
        return float("nan"), float("nan"), f"{type(e).__name__}: {e}"[:120]
    return statistics.median(took), (server.cpu() - cpu) * 1000 / (len(took) + 1), rows


def main() -> None:
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--nodes", type=int, default=256)
    p.add_argument("--validators", type=int, default=10)
    p.add_argument("--days", type=float, default=30)
    p.add_argument("--every", type=int, default=58, help="windows a request (default a day)")
    p.add_argument("--servers", default="kymogram,influxdb-1.6")
    p.add_argument("--seed", type=int, default=1)
    p.add_argument("--times", type=int, default=7, help="of each query, and one before that is not counted")
    p.add_argument(
        "--dir", help="folder that keeps the data (default a temporary one); where it is there already, it is read only"
    )
    a = p.parse_args()
    windows = int(a.days * 86_400 / WINDOW_SECONDS)
    folder = Path(a.dir or tempfile.mkdtemp(prefix="kymogram-subnet-"))
    filled = bool(a.dir) and folder.exists()
    servers = [kind(folder) for kind in (Kymogram, InfluxDB) if kind.name in a.servers.split(",")]
    try:
        if not filled:
            fill(a, windows, servers)
        read(a, windows, servers)
    finally:
        for s in servers:
            s.stop()
        if not a.dir:
            subprocess.run(["rm", "-rf", str(folder)], check=True)


def fill(a: argparse.Namespace, windows: int, servers: list[Server]) -> None:
    for s in servers:
        s.boot()
    wall: dict[str, float] = defaultdict(float)
    base = {s.name: s.cpu() for s in servers}
    sent = points = size = 0
    for body, n in requests(a, windows):
        sent, points, size = sent + 1, points + n, size + len(body)
        for s in servers if sent % 2 else servers[::-1]:
            start = time.perf_counter()
            s.ask("POST", s.write, body, {"Content-Encoding": "gzip", "Content-Type": "text/plain"})
            wall[s.name] += time.perf_counter() - start
        if sent % 2000 == 0:
            print(f"{sent} requests, {points} points", file=sys.stderr, flush=True)
    print(f"{a.nodes} nodes, {windows} windows ({a.days:g} days)")
    print(f"{points} points in {sent} requests, {size / 2**20:.0f} MiB as sent")
    print("server | series | CPU µs/point | CPU µs/request | wall s | peak MiB | bytes/point | start s")
    for s in servers:
        cpu, peak, series = s.cpu() - base[s.name], s.memory(), s.series()
        s.stop()
        start = time.perf_counter()
        s.boot()
        booted = time.perf_counter() - start
        s.stop()
        each, request = cpu / points * 1e6, cpu / sent * 1e6
        figures = (series, f"{each:.2f}", f"{request:.0f}", f"{wall[s.name]:.0f}", peak, f"{s.size() / points:.2f}")
        print(s.name, *figures, f"{booted:.1f}", sep=" | ", flush=True)


def read(a: argparse.Namespace, windows: int, servers: list[Server]) -> None:
    for s in servers:
        s.boot()
    print("query | " + " | ".join(f"{s.name}: ms, CPU ms, rows" for s in servers))
    for name, q in queries(windows).items():
        cells = []
        for s in servers:
            ms, cpu_ms, rows = timed(s, q, a.times)
            cells.append(f"{ms:.1f}, {cpu_ms:.1f}, {rows}")
        print(f"{name} | " + " | ".join(cells), flush=True)
    print("memory after the queries: " + ", ".join(f"{s.name} {s.memory()} MiB" for s in servers))


if __name__ == "__main__":
    main()
