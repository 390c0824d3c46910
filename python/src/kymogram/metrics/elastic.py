"""Kymogram's handlers for the metrics of torch.distributed.elastic and torchelastic.

`attach(handler)` is all that a program needs: it configures the handler on
whichever of the two can be imported. `python -m kymogram.metrics.elastic` is
`torchrun` whose own agent's metrics go to a handler too.
"""

from __future__ import annotations

import argparse
import importlib
import runpy
import sys

from ._outlet import outlets
from .api import ConsoleMetricHandler, MetricData, MetricHandler
from .handlers import JSONLinesMetricHandler, KymogramMetricHandler
from .prometheus import PrometheusMetricHandler

TYPE_CHECKING = False
if TYPE_CHECKING:
    from types import ModuleType
    from typing import Any

MODULES = ("torch.distributed.elastic.metrics", "torchelastic.metrics")


class ElasticAdapter:
    """A handler as torch calls it: emit() returns at once and never raises."""

    def __init__(self, handler: MetricHandler) -> None:
        self.handler = handler
        (self._outlet,) = outlets.keep((handler,))

    def emit(self, metric_data: Any) -> None:
        """Take torch's MetricData, or torchelastic's."""
        timestamp, group, name, value = metric_data
        self._outlet.put(MetricData(timestamp, group, name, value))


def attach(
    handler: MetricHandler, group: str | None = None, module: ModuleType | None = None
) -> list[str]:
    """Send torch's metrics of a group, or of all groups, to a handler.

    It configures the given module, else torch.distributed.elastic.metrics and
    torchelastic.metrics, and returns the names of those that it found.
    """
    found = [module] if module is not None else _installed()
    if not found:
        raise ImportError(
            "neither torch nor torchelastic can be imported: install one of them, "
            "or use kymogram.metrics itself, which needs neither"
        )
    adapter = ElasticAdapter(handler)
    for one in found:
        one.MetricHandler.register(ElasticAdapter)  # so that isinstance() agrees
        one.configure(adapter, group)
    return [one.__name__ for one in found]


def _installed() -> list[ModuleType]:
    found = []
    for name in MODULES:
        try:
            found.append(importlib.import_module(name))
        except ImportError:
            continue
    return found


def handler_named(text: str) -> MetricHandler:
    """A handler from its name: console, jsonl:PATH, run, prometheus:PORT."""
    kind, _, rest = text.partition(":")
    if kind == "console" and not rest:
        return ConsoleMetricHandler()
    if kind == "run" and not rest:
        return KymogramMetricHandler()
    if kind == "jsonl" and rest:
        return JSONLinesMetricHandler(rest)
    if kind == "prometheus" and rest.isdigit():
        return PrometheusMetricHandler(int(rest))
    raise argparse.ArgumentTypeError(
        f"{text!r} is none of console, run, jsonl:PATH, prometheus:PORT"
    )


def main(arguments: list[str]) -> None:
    """Run torchrun with a handler for the metrics of its agent."""
    parser = argparse.ArgumentParser(
        prog="python -m kymogram.metrics.elastic",
        description="torchrun, with a handler for the metrics of its agent",
        epilog="Everything after -- goes to torchrun.",
    )
    parser.add_argument(
        "--handler", type=handler_named, required=True, help="console, jsonl:PATH, prometheus:PORT"
    )
    options, rest = parser.parse_known_args(arguments)
    try:
        module = importlib.import_module(MODULES[0])
    except ImportError as error:
        parser.exit(1, f"{parser.prog}: torchrun is part of torch, which is missing: {error}\n")
    attach(options.handler, module=module)
    sys.argv = ["torchrun", *(rest[1:] if rest[:1] == ["--"] else rest)]
    runpy.run_module("torch.distributed.run", run_name="__main__", alter_sys=True)


if __name__ == "__main__":
    main(sys.argv[1:])
