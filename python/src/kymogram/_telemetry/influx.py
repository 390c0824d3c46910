"""Points to an InfluxDB: 2 and 1.8 through the official client, older ones by their own path.

A call makes a line and adds it to the batch that is open: no call waits for a network. Workers
send batches that are full or old, and try again as long as the server may take them later. The
bound holds for all lines together, those in flight too; beyond it points are refused and counted.
"""

from __future__ import annotations

import base64
import logging
import math
import os
import random
import threading
import time
import urllib.error
import urllib.parse
import urllib.request
import weakref

from .batches import Batch
from .call import Refused

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from typing import Any, Protocol

    from .batches import Folder
    from .call import Call
    from .options import MetricsLoggerWriteOptions

    class Way(Protocol):
        """How a body comes to the server: its answer's status and text."""

        def send(self, body: bytes) -> tuple[int, str]: ...


logger = logging.getLogger("kymogram.telemetry")
TIMEOUT_S = 30.0
_INT = 1 << 63
# What says that these lines can never be taken; all others may be later.
_FINAL = (400, 413, 422)
_sinks: weakref.WeakSet[Sink] = weakref.WeakSet()


class Version2:
    """The official client."""

    def __init__(self, url: str, token: str, org: str, bucket: str) -> None:
        from influxdb_client import InfluxDBClient
        from influxdb_client.client.write_api import SYNCHRONOUS

        self._client = InfluxDBClient(
            url=url, token=token, org=org, timeout=int(TIMEOUT_S * 1000), enable_gzip=True
        )
        self._api = self._client.write_api(write_options=SYNCHRONOUS)
        self._bucket = bucket

    def send(self, body: bytes) -> tuple[int, str]:
        """Write lines."""
        from influxdb_client.rest import ApiException

        try:
            self._api.write(bucket=self._bucket, record=body)
        except ApiException as error:
            return error.status or 0, str(error.message or error.reason)
        except Exception as error:  # of urllib3: no connection, no answer in time
            return 0, str(error)
        return 204, ""


class Version1:
    """The path /write of InfluxDB 1.x; a token USER:PASSWORD is what it signs in with."""

    def __init__(self, url: str, token: str, _org: str, database: str) -> None:
        query = urllib.parse.urlencode({"db": database, "precision": "ns"})
        self._url = f"{url}/write?{query}"
        self._headers = {"Content-Type": "text/plain; charset=utf-8"}
        if token:
            pair = base64.b64encode(token.encode()).decode()
            self._headers["Authorization"] = f"Basic {pair}" if ":" in token else f"Token {token}"

    def send(self, body: bytes) -> tuple[int, str]:
        """Write lines."""
        request = urllib.request.Request(self._url, body, self._headers, method="POST")
        try:
            with urllib.request.urlopen(request, timeout=TIMEOUT_S) as answer:
                return answer.status, ""
        except urllib.error.HTTPError as error:
            return error.code, error.read(4096).decode(errors="replace")
        except (OSError, ValueError) as error:
            return 0, str(error)


def version_of(url: str) -> str | None:
    """Which of the two a server wants; None when it does not answer."""
    try:
        with urllib.request.urlopen(f"{url}/ping", timeout=TIMEOUT_S) as answer:
            found = answer.headers.get("X-Influxdb-Version", "")
    except urllib.error.HTTPError as error:
        found = error.headers.get("X-Influxdb-Version", "")
    except (OSError, ValueError) as error:
        _tell_plain(url, error)
        return None
    major, _, minor = found.lstrip("v").partition(".")
    old = major == "1" and minor.partition(".")[0].isdigit() and int(minor.partition(".")[0]) < 8
    return "v1" if old else "v2"


def _tell_plain(url: str, error: Exception) -> None:
    """Name the remedy where a port that was asked for TLS speaks plain HTTP."""
    import ssl

    cause = getattr(error, "reason", error)
    plain = ("WRONG_VERSION_NUMBER", "RECORD_LAYER_FAILURE", "HTTP_REQUEST")
    if isinstance(cause, ssl.SSLError) and cause.reason in plain:
        logger.error("%s speaks no TLS: give host=%r", url, url.replace("https://", "http://", 1))


class Sink:
    """Sends points from threads of its own."""

    def __init__(
        self,
        way: Callable[[], Way | None],
        tags: Mapping[str, str],
        options: MetricsLoggerWriteOptions,
        bound: int,
        workers: int,
        folder: Folder | None,
        tell: Callable[[str, str], None],
    ) -> None:
        from influxdb_client import Point  # an error here names the extra

        self._point = Point
        self._make_way = way
        self._way: Way | None = None
        self._tags, self._options, self._tell = dict(tags), options, tell
        constant = Point("m")  # the tags of the process, formed once
        for name, text in tags.items():
            constant.tag(name, text)
        self._constant = constant.field("f", 1).to_line_protocol()[1:].removesuffix(" f=1i")
        self._bound, self._workers, self._folder = bound, max(1, workers), folder
        self.refused = self.nonfinite = self.sent = 0
        self._start()
        for batch in folder.left() if folder is not None else ():
            self._ready.append(batch)
            self._waiting += len(batch.lines)
        _sinks.add(self)

    def _start(self) -> None:
        """Begin with nothing that waits, and no thread."""
        self._change = threading.Condition()
        self._open: Batch | None = None
        self._ready: list[Batch] = []
        self._waiting = 0
        self._closed = False
        self._threads: list[threading.Thread] = []
        self._pid = os.getpid()

    def forked(self) -> None:
        """In a child: the parent sends what waits."""
        for batch in (*self._ready, *([self._open] if self._open else ())):
            batch.leave()
        self._way = None
        self._start()

    # a call

    def write(self, call: Call) -> int:
        """Take a point; the number of its bytes."""
        line = self._line(call)
        with self._change:
            if self._closed:
                raise Refused("the logger is closed")
            if self._waiting >= self._bound:
                self.refused += 1
                raise Refused(
                    f"{self._waiting:,} points wait for the InfluxDB (max_queue_size): it is too "
                    "slow, or away; points are refused until it takes some"
                )
            if self._open is None:
                self._open = self._new()
            self._open.add(line)
            self._waiting += 1
            if len(self._open.lines) >= self._options.batch_size:
                self._seal()
            if not self._threads:
                self._run()
        return len(line) + 1

    def _line(self, call: Call) -> str:
        point = self._point(call.measurement)
        for name, value in call.tags.items():
            key = str(name)
            if key in self._tags:
                self._tell(
                    f"the tag {key!r} is also one of the logger's: InfluxDB gets the caller's as "
                    f"'caller_{key}'",
                    f"collide {key}",
                )
                key = f"caller_{key}"
            point.tag(key, None if value is None else str(value))
        head: str = point.field("f", 1).to_line_protocol().removesuffix(" f=1i")
        values = self._point("m")
        for key, field in call.fields.items():
            self._field(values, call, key, field)
        tail: str = values.time(call.time).to_line_protocol().removeprefix("m")
        if not tail:
            raise Refused(f"{call.measurement} has no field that InfluxDB takes")
        return f"{head}{self._constant}{tail}"

    def _field(self, point: Any, call: Call, key: str, field: Any) -> None:
        if isinstance(field, float) and not math.isfinite(field):
            self.nonfinite += 1
            self._tell(
                f"{call.measurement}/{key} is {field}: InfluxDB takes no NaN and no infinity, so "
                "such fields are left out and counted",
                "nonfinite",
            )
        elif isinstance(field, int) and not -_INT <= field < _INT:
            raise Refused(f"{call.measurement}/{key} is {field}: InfluxDB takes 64 bits")
        else:
            point.field(key, field)

    def _new(self) -> Batch:
        if self._folder is not None:
            try:
                return self._folder.new()
            except OSError as error:
                self._tell(f"points are kept in memory only: {error}", "no file")
        return Batch(None, -1, [])

    def _seal(self) -> None:
        if self._open is not None:
            self._ready.append(self._open)
            self._open = None
            self._change.notify()

    # the workers

    def _run(self) -> None:
        for number in range(self._workers):
            name = f"kymogram-influx-{number}"
            thread = threading.Thread(target=self._work, name=name, daemon=True)
            try:
                thread.start()
            except RuntimeError:  # the interpreter ends; the files stay
                return
            self._threads.append(thread)

    def _work(self) -> None:
        while (batch := self._next()) is not None:
            done = False
            try:
                done = self._deliver(batch)
            except Exception as error:  # nothing of it may end the worker
                logger.exception("a batch was not sent: %r", error)
            with self._change:
                if done:
                    self._waiting -= len(batch.lines)
                    batch.done()
                else:
                    self._delay(batch)
                    self._ready.append(batch)
                self._change.notify_all()

    def _next(self) -> Batch | None:
        """The batch to send; None when the sink is closed."""
        jitter = random.random() * self._options.jitter_interval
        age = (self._options.flush_interval + jitter) / 1000
        with self._change:
            while not self._closed:
                now = time.monotonic()
                if self._open is not None and now - self._open.began >= age:
                    self._seal()
                due = next((one for one in self._ready if one.due <= now), None)
                if due is not None:
                    self._ready.remove(due)
                    return due
                waits = [one.due - now for one in self._ready]
                if self._open is not None:
                    waits.append(self._open.began + age - now)
                self._change.wait(min(waits, default=None))
        return None

    def _delay(self, batch: Batch) -> None:
        o = self._options
        wait = o.retry_interval * o.exponential_base ** min(batch.tries, 30)
        batch.due = time.monotonic() + min(wait, o.max_retry_delay) / 1000
        batch.tries += 1

    def _deliver(self, batch: Batch) -> bool:
        """Send a batch; False when it is to be sent again."""
        if self._way is None:
            self._way = self._make_way()
        if self._way is None:
            logger.error("%d points wait: the InfluxDB does not answer", len(batch.lines))
            return False
        return self._send(self._way, batch.lines)

    def _send(self, way: Way, lines: list[str]) -> bool:
        body = "\n".join(lines).encode(errors="replace")
        began = time.perf_counter()
        status, text = way.send(body)
        took = 1000 * (time.perf_counter() - began)
        logger.debug(
            "%d points, %d bytes: answer %d in %.0f ms", len(lines), len(body), status, took
        )
        if 200 <= status < 300:
            self.sent += len(lines)
            return True
        if status not in _FINAL:
            logger.error("%d points wait: answer %d: %.300s", len(lines), status, text)
            return False
        if len(lines) > 1 and "partial write" not in text:
            half = len(lines) // 2  # find those that it means
            return self._send(way, lines[:half]) and self._send(way, lines[half:])
        lost = _dropped(text) if len(lines) > 1 else 1
        self.refused += lost
        self.sent += len(lines) - lost
        logger.error("the InfluxDB refused %d points for good: %d: %.300s", lost, status, text)
        return True

    # the end

    @property
    def waiting(self) -> int:
        """Points that are not sent yet."""
        return self._waiting

    def flush(self, timeout: float) -> bool:
        """Send what waits; whether all is sent in time."""
        with self._change:
            self._seal()
            for batch in self._ready:
                batch.due = 0.0
            self._change.notify_all()
            if self._waiting and not self._threads:
                self._run()
            return self._change.wait_for(lambda: self._waiting == 0, timeout)

    def close(self, timeout: float) -> int:
        """Send what waits for so long; how many points stay in the files."""
        if self._pid != os.getpid():
            return 0
        if not self.flush(timeout):
            logger.warning("%d points wait for the InfluxDB: %s", self._waiting, self._left())
        with self._change:
            self._closed = True
            for batch in self._ready:
                batch.leave()
            self._change.notify_all()
            return self._waiting

    def _left(self) -> str:
        if self._folder is None:
            return "they are lost"
        return f"the next MetricsLogger to it sends them from {self._folder.path}"


def _dropped(text: str) -> int:
    """How many points a partial write left out, as the answer says."""
    _, _, number = text.partition("dropped=")
    digits = number[: len(number) - len(number.lstrip("0123456789"))]
    return int(digits or 1)


def _forked() -> None:
    for sink in list(_sinks):
        sink.forked()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forked)
