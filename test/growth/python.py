"""Each call of the Python package at n and at 8 n of one dimension of its input.

python_test.go runs it and judges what it prints, one JSON object a line: first what
the package exports and what has no row, then each row with its costs. The bytes are
the peak that tracemalloc saw.
"""

from __future__ import annotations

import argparse
import contextlib
import inspect
import json
import tempfile
import time
import tracemalloc
from collections.abc import Callable
from pathlib import Path
from typing import Any

import kymogram
from kymogram import metrics, query
from kymogram._delivery import agent

agent.binary = lambda: None  # nothing is delivered

FACTOR = 8
Call = Callable[[int], Any]


def numbers(n: int) -> list[float]:
    return [i / 7 for i in range(n)]


def config(n: int) -> dict[str, int]:
    return {f"a{i}": i for i in range(n)}


def tags(n: int) -> list[str]:
    return [f"tag-{i}" for i in range(n)]


def times(one: Callable[[int], Any]) -> Call:
    """Call n times with a number that is new."""

    def run(n: int) -> None:
        for i in range(n):
            one(i)

    return run


def refused(one: Call) -> Call:
    """Call once with size n, which may be above a limit."""

    def run(n: int) -> None:
        with contextlib.suppress(kymogram.KymogramValidationError):
            one(n)

    return run


def put_metrics(n: int) -> None:
    """Put n metrics into the open run."""
    metrics.configure(metrics.KymogramMetricHandler())
    for i in range(n):
        metrics.put_metric(f"m{i}", 1.0, "g")


k = kymogram
ROWS: list[tuple[str, str, int, Call]] = [
    ("log", "points", 2_000, times(lambda i: k.log("m", 1.0, step=i))),
    ("log", "series", 300, times(lambda i: k.log(f"m{i}", 1.0))),
    ("log", "metrics a call", 500, lambda n: k.log({f"m{i}": 1.0 for i in range(n)})),
    ("log", "labels", 500, refused(lambda n: k.log("m", 1.0, labels={f"k{i}": "v" for i in range(n)}))),
    ("log_distributed", "points", 1_000, times(lambda i: k.log_distributed("m", 1.0, step=i))),
    ("log_text", "bytes", 100_000, lambda n: k.log_text("m", "x" * n)),
    ("log_histogram", "bins", 2_000, refused(lambda n: k.log_histogram("m", (numbers(n), numbers(n + 1))))),
    ("log_scatter", "dots", 2_000, refused(lambda n: k.log_scatter("m", numbers(n), numbers(n)))),
    (
        "log_scatter3d",
        "dots",
        2_000,
        refused(lambda n: k.log_scatter3d("m", numbers(n), numbers(n), numbers(n))),
    ),
    # Up to 1,000 plain values have a shorter way, which takes two thirds of the memory for each.
    ("log_config", "plain attributes", 125, lambda n: k.log_config(config(n))),
    ("log_config", "attributes", 2_000, lambda n: k.log_config(config(n))),
    ("log_attributes", "plain attributes", 125, lambda n: k.log_attributes("a", config(n))),
    ("log_attributes", "attributes", 2_000, lambda n: k.log_attributes("a", config(n))),
    ("log_env_attributes", "environments", 300, times(lambda i: k.log_env_attributes(f"e{i}", {"a": 1}))),
    ("log_env_attributes", "attributes", 500, lambda n: k.log_env_attributes("e", config(n))),
    (
        "log_rl_episode",
        "environments",
        300,
        times(lambda i: k.log_rl_episode("m", 1.0, 1, episode=1, env_id=f"e{i}")),
    ),
    (
        "log_rl_environment_step",
        "environments",
        600,
        times(lambda i: k.log_rl_environment_step("m", 1.0, 1, env_id=f"e{i}")),
    ),
    (
        "log_rl_environment_step",
        "points",
        500,
        times(lambda i: k.log_rl_environment_step("m", 1.0, i, env_id="e")),
    ),
    ("set_tags", "tags", 500, refused(lambda n: k.set_tags(tags(n)))),
    ("add_tags", "tags", 500, refused(lambda n: k.add_tags(tags(n)))),
    ("remove_tags", "tags", 500, refused(lambda n: k.remove_tags(tags(n)))),
    ("set_description", "bytes", 100_000, refused(lambda n: k.set_description("x" * n))),
    ("metrics.put_metric", "names", 300, put_metrics),
]

_FIELD = "reads a field"
_ONE = "one record of constant size"
_PAGES = "reads page after page, as query.Run.series"
_THROUGH = "hands on to a call that has a row"
REASONS = {
    "init": "its attributes and tags are those of log_config and set_tags; Go's Init has rows",
    "check_sender_errors": "a bounded list",
    "close": "test/bench measures it",
    "shutdown_logger": _THROUGH,
    "failover_to_spool": "sets a flag",
    "flush": "waits for the agent; test/bench measures it",
    "follow_spool": "the agent's work; the stream has rows",
    "replay_spool": "the agent's work; the stream has rows",
    "get_env_last_rl_step_and_episode": "one look-up",
    "get_last_step": "one look-up",
    "get_metrics": "a fixed set of figures",
    "is_initialized": _FIELD,
    "is_offline": _FIELD,
    "log_rendering": "frames go to ffmpeg; test/peers measures them",
    "mark_rendering_event": _ONE,
    "tag_rendering": _ONE,
    "query.Client.projects": _PAGES,
    "query.Client.runs": _PAGES,
    "query.Client.run": "one request of constant size",
    "query.Run.buckets": "at most 10,000 buckets; its route has rows",
    "query.Run.detail": "query.Run.attributes reads the same document",
    "query.Run.lineage": "query.Run.attributes reads the same document",
    "query.Run.files": "a list of pages, as query.Client.runs; only the W&B receiver writes files",
    "query.Run.summary": _FIELD,
    "query.Client.runs_to_pandas": _PAGES,
    "query.Client.runs_to_polars": _PAGES,
    "query.Run.chunks": "query.Run.points joins these",
    "query.Run.to_pandas": "query.Run.points of each series",
    "query.Run.to_polars": "query.Run.points of each series",
    "query.Series.points": _THROUGH,
    "query.Series.buckets": _THROUGH,
    "metrics.attach": "wraps an application",
    "metrics.configure": "sets a handler",
    "metrics.counts": "one line for each handler",
    "metrics.flush": _THROUGH,
    "metrics.getStream": "one look-up",
    "metrics.get_elapsed_time_ms": "subtracts",
    "metrics.initialize_metrics": "sets a handler",
    "metrics.prof": _THROUGH,
    "metrics.profile": _THROUGH,
    "metrics.publish_metric": _THROUGH,
}


def reads(address: str, key: str, small: str, big: str) -> list[tuple[str, str, int, Call]]:
    """The rows of query: two runs that the test has filled, 1 and 8 times a size."""
    client = query.Client(address, api_key=key)
    runs = {1: client.run(small), FACTOR: client.run(big)}
    return [
        ("query.Run.points", "points", 1, lambda n: runs[n].points("m0")),
        ("query.Run.series", "series", 1, lambda n: list(runs[n].series())),
        ("query.Run.attributes", "series", 1, lambda n: runs[n].attributes),
    ]


def exported() -> list[str]:
    """Every public function of the package and of its modules for metrics and reading."""
    names = [name for name in kymogram.__all__ if inspect.isfunction(getattr(kymogram, name))]
    names += [f"metrics.{name}" for name in metrics.__all__ if inspect.isfunction(getattr(metrics, name))]
    for of in (query.Client, query.Run, query.Series):
        members = inspect.getmembers(of, lambda m: inspect.isfunction(m) or isinstance(m, property))
        names += [f"query.{of.__name__}.{name}" for name, _ in members if not name.startswith("_")]
    fields = {f"query.Run.{name}" for name in ("config", "id", "name", "status", "tags")}
    return [name for name in names if name not in fields]


def cost(call: Call, n: int, processor: bool) -> dict[str, float]:
    """One measurement, in a spool of its own."""
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder:
        kymogram.init(
            run_name="r",
            server="http://127.0.0.1:9",
            init_mode="offline",
            disk=folder,
            capture_environment=False,
            capture_system_metrics=False,
            log_level="OFF",
        )
        out = measured(call, n, processor)
        out["disk"] = float(sum(f.stat().st_size for f in Path(folder).rglob("*") if f.is_file()))
        kymogram.close(0)
    return out


def measured(call: Call, n: int, processor: bool) -> dict[str, float]:
    if processor:
        before = time.process_time()
        call(n)
        return {"seconds": time.process_time() - before}
    tracemalloc.start()
    call(n)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    return {"bytes": float(peak)}


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--processor", action="store_true")
    parser.add_argument("--list", action="store_true")
    parser.add_argument("--only", default="")
    parser.add_argument("--server", nargs=4, metavar=("ADDRESS", "KEY", "SMALL", "BIG"))
    args = parser.parse_args()
    rows = list(ROWS)
    if args.server:
        rows += reads(*args.server)
    named = [row[0] for row in ROWS] + [f"query.Run.{name}" for name in ("points", "series", "attributes")]
    print(json.dumps({"exported": exported(), "rows": named, "reasons": REASONS}))
    if args.list:
        return
    for name, grows, n, call in rows:
        if args.only in f"{name} × {grows}":
            small, big = (cost(call, size, args.processor) for size in (n, FACTOR * n))
            print(json.dumps({"call": name, "grows": grows, "small": small, "big": big}), flush=True)


if __name__ == "__main__":
    main()
