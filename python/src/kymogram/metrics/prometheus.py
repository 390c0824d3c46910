"""Metrics for Prometheus, and the requests of an ASGI application."""

from __future__ import annotations

import time

from ._endpoint import Endpoint
from ._exposition import Exposition
from .api import MetricHandler
from .handlers import KymogramMetricHandler

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Mapping, MutableMapping
    from typing import Any

    from .api import MetricData

    Scope = MutableMapping[str, Any]
    Receive = Callable[[], Awaitable[MutableMapping[str, Any]]]
    Send = Callable[[MutableMapping[str, Any]], Awaitable[None]]
    App = Callable[[Scope, Receive, Send], Awaitable[None]]


class PrometheusMetricHandler(MetricHandler):
    """Lets Prometheus scrape metrics.

    With a port this process serves them itself at `http://host:port/metrics`; 0
    takes a free one. Without a port they go into the open run's spool, and
    `kymogram agent --metrics ADDR --expose GROUP` serves them: so several
    processes have one address, which outlives each of them. What a forked child
    publishes to a handler with a port stays in the child.

    `kymogram_metric_events_total` holds the names that end in .count, .success and
    .failure, `kymogram_metric_duration_seconds` (a histogram, in seconds) those in
    .duration.ms, and `kymogram_metric` the last value of all others. The labels are
    `group` and `name`, both exact.
    """

    at_once = True  # it writes to memory

    def __init__(self, port: int | None = None, host: str = "127.0.0.1") -> None:
        self._exposition = Exposition()
        self._endpoint: Endpoint | None = None
        self._spool: KymogramMetricHandler | None = None
        if port is None:
            self._spool = KymogramMetricHandler()
        else:
            self._endpoint = Endpoint(self._exposition, host, port)

    @property
    def port(self) -> int | None:
        """The port that this process serves."""
        return None if self._endpoint is None else self._endpoint.port

    def emit(self, metric_data: MetricData) -> None:
        """Take one metric."""
        if self._spool is not None:
            self._spool.emit(metric_data)
        else:
            _, group, name, value = metric_data
            self._exposition.metric(group, name, value)

    def request(self, protocol: str, route: str, code: int, seconds: float) -> None:
        """Count a request that this process answered: `kymogram_node_requests_total`.

        `route` is a pattern such as "GET /runs/{id}"; a path would make a series
        of every caller's invention. It wants a port.
        """
        self._own().request(protocol, route, code, seconds)

    def set_state(self, state: str) -> None:
        """Say what the node is doing: starting, ready, degraded or stopping. It wants a port."""
        self._own().state(state)

    def validated(self, seconds: float, failed: bool = False) -> None:
        """Count a validation that took so long. It wants a port."""
        self._own().validated(seconds, failed)

    def set_scores(self, by_uid: Mapping[int, float]) -> None:
        """Replace the scores that the node gives to others, by their uid. It wants a port."""
        self._own().scores(by_uid)

    def weights_set(self) -> None:
        """Say that weights were set on chain now. It wants a port."""
        self._own().weights()

    def _own(self) -> Exposition:
        """What this process serves."""
        if self._endpoint is None:
            raise ValueError("only a process that serves can tell this: give the handler a port")
        return self._exposition

    def close(self) -> None:
        """Stop serving."""
        if self._endpoint is not None:
            self._endpoint.close()


class ASGIMetrics:
    """Middleware: counts the requests of an ASGI application, and how long they took.

    `app = ASGIMetrics(app, handler)`. The route is the pattern that the framework
    matched (Starlette, FastAPI: `scope["route"].path`), else "other".
    """

    def __init__(self, app: App, handler: PrometheusMetricHandler) -> None:
        if handler.port is None:
            raise ValueError("requests are served by this process: give the handler a port")
        self._app = app
        self._handler = handler

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass one request through."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        start = time.perf_counter()
        code = 500  # what a server answers for an application that raises

        async def watched(message: MutableMapping[str, Any]) -> None:
            nonlocal code
            if message["type"] == "http.response.start":
                code = message["status"]
            await send(message)

        try:
            await self._app(scope, receive, watched)
        finally:
            try:
                self._handler.request("http", _route(scope), code, time.perf_counter() - start)
            except ValueError:
                pass  # too many series; the request is worth more


_METHODS = frozenset(("GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"))


def _route(scope: Scope) -> str:
    """Method and pattern of a request, from a bounded set."""
    method = scope.get("method")
    pattern = getattr(scope.get("route"), "path", None)
    pattern = pattern if isinstance(pattern, str) else "other"
    return f"{method if method in _METHODS else 'OTHER'} {pattern}"
