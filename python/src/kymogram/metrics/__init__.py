"""Publish metrics: torchelastic's API, and handlers that make it useful.

>>> import kymogram.metrics as metrics
>>> metrics.configure(metrics.ConsoleMetricHandler(), group="my_app")
>>> metrics.put_metric("restarts", 1, "my_app")

It takes the place of `import torchelastic.metrics as metrics` and of
`import torch.distributed.elastic.metrics as metrics`: every name of theirs is
here, `kymogram.metrics.api` included. Metrics go nowhere until configure() says
where. See docs/guides/metrics.md.
"""

from ._outlet import Counts
from .api import (
    RESERVED_GROUP,
    ConsoleMetricHandler,
    ConsoleMetricsHandler,
    MetricData,
    MetricHandler,
    MetricsConfig,
    MetricStream,
    NullMetricHandler,
    NullMetricsHandler,
    configure,
    counts,
    flush,
    get_elapsed_time_ms,
    getStream,
    initialize_metrics,
    prof,
    profile,
    publish_metric,
    put_metric,
)
from .handlers import FanOutMetricHandler, JSONLinesMetricHandler, KymogramMetricHandler

TYPE_CHECKING = False
if TYPE_CHECKING:
    from .elastic import ElasticAdapter, attach
    from .prometheus import ASGIMetrics, PrometheusMetricHandler

__all__ = [
    "RESERVED_GROUP",
    "ASGIMetrics",
    "ConsoleMetricHandler",
    "ConsoleMetricsHandler",
    "Counts",
    "ElasticAdapter",
    "FanOutMetricHandler",
    "JSONLinesMetricHandler",
    "KymogramMetricHandler",
    "MetricData",
    "MetricHandler",
    "MetricStream",
    "MetricsConfig",
    "NullMetricHandler",
    "NullMetricsHandler",
    "PrometheusMetricHandler",
    "attach",
    "configure",
    "counts",
    "flush",
    "getStream",
    "get_elapsed_time_ms",
    "initialize_metrics",
    "prof",
    "profile",
    "publish_metric",
    "put_metric",
]

# What few programs need, loaded when it is asked for.
_LATER = {
    "ASGIMetrics": "prometheus",
    "PrometheusMetricHandler": "prometheus",
    "ElasticAdapter": "elastic",
    "attach": "elastic",
}


def __getattr__(name: str) -> object:
    from importlib import import_module

    if name not in _LATER:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f".{_LATER[name]}", __name__), name)
