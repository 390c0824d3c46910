"""What put_metric() costs, by where it goes, beside torchelastic's own. `make bench-metrics` runs it.

Nanoseconds a call, the least of sixty rounds; a for loop around nothing is taken off.
"""

from __future__ import annotations

import os
import tempfile
import timeit
from pathlib import Path
from typing import Any

import kymogram
from kymogram import metrics

ROUNDS = 60  # short ones, so that the best is one in which nothing else ran


def cost(module: Any, handler: Any, calls: int, group: str = "torchelastic") -> float:
    module.configure(handler)
    scope = {"put": module.put_metric, "group": group}
    best = min(timeit.repeat('put("name", 1.0, group)', globals=scope, number=calls, repeat=ROUNDS))
    empty = min(timeit.repeat("pass", number=calls, repeat=ROUNDS))
    module.configure(module.NullMetricHandler())
    return (best - empty) / calls * 1e9


def main() -> None:
    rows = [("Null", cost(metrics, metrics.NullMetricHandler(), 20_000))]
    served = metrics.PrometheusMetricHandler(port=0)
    rows.append(("Prometheus, own port", cost(metrics, served, 2_000)))
    served.close()
    with tempfile.TemporaryDirectory() as folder:
        # Fewer calls than the queue holds: the price of handing over, not of writing.
        path = Path(folder) / "metrics.jsonl"
        rows.append(("JSON lines", cost(metrics, metrics.JSONLinesMetricHandler(path), 100)))
        os.environ["KYMOGRAM_SPOOL_DIR"] = folder
        kymogram.init(run_name="bench", server="http://127.0.0.1:1", log_level="OFF")
        rows.append(("run", cost(metrics, metrics.KymogramMetricHandler(), 2_000)))
        kymogram.close(0)
    try:
        import torchelastic.metrics as theirs
    except ImportError:
        pass
    else:
        rows.append(("torchelastic to its Null", cost(theirs, theirs.NullMetricHandler(), 10_000)))
    for name, nanoseconds in rows:
        print(f"{name:26} {nanoseconds:8.0f} ns")


if __name__ == "__main__":
    main()
