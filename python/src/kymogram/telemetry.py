"""Templar's MetricsLogger: measurements with tags and fields, into Kymogram or an InfluxDB.

>>> from kymogram.telemetry import MetricsLogger
>>> logger = MetricsLogger(prefix="M", uid="7", role="miner", group="miner", job_type="mining")
>>> logger.log("training_step", tags={"window": 12, "global_step": 480}, fields={"loss": 0.75})
>>> logger.close()

Without `host` the points go through the spool to the Kymogram server: when log() returns they
survive a crash of the process. With `host` they go to that InfluxDB. See docs/telemetry.md.
"""

from __future__ import annotations

import atexit
import logging
import os
import random
import time
import uuid
from typing import NamedTuple

from ._arguments.table import Arguments
from ._host import environment
from ._opening.opening import begin_run
from ._opening.process import keep
from ._run import Run
from ._spool import folders
from ._telemetry import spool, tags, values
from ._telemetry.call import Call, Refused
from ._telemetry.machine import get_gpu_metrics, get_system_metrics
from ._telemetry.options import MetricsLoggerWriteOptions

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from typing import Any

    from ._telemetry import influx
    from ._telemetry.values import Field

__all__ = [
    "RUNTIME_ID",
    "Counts",
    "MertricsLoggerWriteOptions",
    "MetricsLogger",
    "MetricsLoggerWriteOptions",
    "get_gpu_metrics",
    "get_system_metrics",
]

MertricsLoggerWriteOptions = MetricsLoggerWriteOptions  # as the original spells it
RUNTIME_ID = str(uuid.uuid4())  # of this process
_THIS_ATTEMPT = "attempts/this"  # the server knows its number
_TIME_MAX = 1 << 62  # the year 2116
logger = logging.getLogger("kymogram.telemetry")


class Counts(NamedTuple):
    """What became of the calls of log()."""

    logged: int  # kept, in full or in part
    sampled_out: int  # left out by sample_rate
    failed: int  # points of which something could not be kept; the log says why
    waiting: int = 0  # for the InfluxDB
    refused: int = 0  # by the InfluxDB for good, or above max_queue_size
    nonfinite: int = 0  # NaN and infinite fields, which no InfluxDB takes


class MetricsLogger:
    """Logs points of one process: a measurement, tags, fields and a time.

    `org` is the workspace, `database` the project, ROLE-UID the run. `config` is an object or a
    mapping; its plain values describe the run, secrets replaced. No call raises into the caller.
    """

    def __init__(
        self,
        host: str | None = None,
        port: int | str | None = None,
        database: str | None = None,
        token: str | None = None,
        org: str | None = None,
        prefix: str = "",
        uid: object = None,
        version: str | None = None,
        runtime_id: str | None = None,
        role: str = "",
        config: object = None,
        group: str = "",
        job_type: str = "",
        max_queue_size: int = 600_000,
        max_workers: int = 1,
        *,
        write_options: MetricsLoggerWriteOptions | None = None,
        influx_api: str | None = None,
    ) -> None:
        given = (uid, prefix, version, runtime_id or RUNTIME_ID, role, group, job_type)
        self.standard = tags.Standard(*("" if one is None else str(one) for one in given))
        self.config = dict(tags.config(config)) if config is not None else {}
        self.prefix = prefix
        self.database = database or os.environ.get("INFLUXDB_DATABASE") or "tplr"
        self.org = org or os.environ.get("INFLUXDB_ORG") or "tplr"
        self._said: set[str] = set()
        self._logged = self._sampled_out = self._failed = 0
        self._run: Run | None = None
        self._influx: influx.Sink | None = None
        host = host or os.environ.get("INFLUXDB_HOST")
        self._sink: spool.Sink | influx.Sink
        if host:
            token = token or os.environ.get("INFLUXDB_TOKEN") or ""
            url = _url(host, port or os.environ.get("INFLUXDB_PORT") or 8086)
            options = write_options or _options(role)
            self._sink = self._influx = self._connect(
                url, token, options, max_queue_size, max_workers, influx_api
            )
        else:
            self._run = self._begin(token)
            self._sink = spool.Sink(self._run.logger_for_points, self.standard, self._tell)

    def _begin(self, token: str | None) -> Run:
        """Open the run of the points; it is not the current one of kymogram.log()."""
        published = os.environ.get(environment.ATTEMPT)
        given = {
            "api_key": token,
            "workspace_name": self.org,
            "project_name": self.database,
            "run_name": self.standard.run,
            "resume_strategy": "allow",
            "capture_system_metrics": False,
        }
        run = begin_run(Arguments(given), Run)
        keep(run)
        if published is not None:  # children of the process join kymogram.init()'s run
            os.environ[environment.ATTEMPT] = published
        described = self.standard.attributes()
        run.log_attributes("", described)  # of this life: a restart may have others
        run.log_config(self.config)
        own = {**described, **{f"config/{name}": text for name, text in self.config.items()}}
        run.log_attributes(_THIS_ATTEMPT, {f"{name}={text}" for name, text in own.items()})
        return run

    def _connect(
        self,
        url: str,
        token: str,
        options: MetricsLoggerWriteOptions,
        bound: int,
        workers: int,
        api: str | None,
    ) -> influx.Sink:
        """The sink of an InfluxDB."""
        if api not in (None, "v1", "v2"):
            raise ValueError(f"influx_api is 'v1', 'v2' or None, not {api!r}")
        try:
            import influxdb_client  # noqa: F401
        except ImportError:
            raise ImportError(
                "host= needs influxdb-client: pip install 'kymogram[influx]'"
            ) from None
        from ._telemetry import influx

        def way() -> influx.Way | None:
            found = api or influx.version_of(url)
            if found is None:
                return None
            kind = influx.Version1 if found == "v1" else influx.Version2
            return kind(url, token, self.org, self.database)

        config = {f"config_{name}": text for name, text in self.config.items()}
        found = {**self.standard.tags(), **config}
        folder = self._folder(f"{url}\0{self.org}\0{self.database}")
        sink = influx.Sink(way, found, options, bound, workers, folder, self._tell)
        atexit.register(self.close)
        return sink

    def _folder(self, destination: str) -> Any:
        """Where lines wait, so that a kill loses none; None where no folder can be made."""
        from ._telemetry.batches import Folder

        for root in folders.candidates(os.environ):
            try:
                folders.make_root(root)
                return Folder(root, destination)
            except OSError:
                continue
        self._tell("points wait in memory only: no folder can be made for them", "no folder")
        return None

    process_value = staticmethod(values.process_value)

    def log(
        self,
        measurement: str,
        tags: Mapping[str, Any] | None = None,
        fields: Mapping[str, Any] | None = None,
        timestamp: int | None = None,
        with_system_metrics: bool = False,
        with_gpu_metrics: bool = False,
        sample_rate: float = 1.0,
    ) -> None:
        """Log a point; `timestamp` is in nanoseconds. `sample_rate` keeps that share of calls.

        A share is from 0 to 1; above 1 every call is kept, with a warning.

        Never raises: what is not kept is counted, and told once through `logging`.
        """
        try:
            if sample_rate > 1.0:
                self._tell(
                    f"sample_rate={sample_rate} is more than 1, so all points are kept: "
                    "0.5 keeps half of them",
                    "sample_rate",
                )
            if sample_rate < 1.0 and random.random() >= sample_rate:
                self._sampled_out += 1
                return
            self._log(measurement, tags, fields, timestamp, with_system_metrics, with_gpu_metrics)
            self._logged += 1
        except Refused as why:
            self._failed += 1
            self._tell(f"refused: {why}", f"refused {measurement}")
        except Exception as error:  # whatever it is, it is not the training loop's
            self._failed += 1
            self._tell(f"a point of {measurement} was not logged: {error!r}", repr(error))

    def _log(
        self,
        measurement: str,
        given: Mapping[str, Any] | None,
        fields: Mapping[str, Any] | None,
        timestamp: int | None,
        system: bool,
        gpu: bool,
    ) -> None:
        now = time.time_ns() if timestamp is None else self._when(timestamp)
        found = values.process_fields(fields or {})
        more: dict[str, Any] = {}
        if system:
            self._measure(get_system_metrics, found, more, "sys_")
        if gpu:
            self._measure(get_gpu_metrics, found, more, "")
        if not -_TIME_MAX <= now <= _TIME_MAX:
            raise Refused(f"the time of {measurement} is {now}: it is in nanoseconds since 1970")
        if not found:
            raise Refused(f"{measurement} has no field; a point needs one")
        point = Call(self.prefix + measurement, {**(given or {}), **more}, found, now)
        if not logger.isEnabledFor(logging.DEBUG):
            self._sink.write(point)
            return
        began = time.perf_counter()
        size = self._sink.write(point)
        took = 1e6 * (time.perf_counter() - began)
        logger.debug("1 point, %d fields, %d bytes kept in %.0f µs", len(found), size, took)

    def _when(self, timestamp: int) -> int:
        """The time of a point; one in another unit than nanoseconds is told."""
        now = int(timestamp)
        for unit, least in (("seconds", 10**9), ("milliseconds", 10**12), ("microseconds", 10**15)):
            if least <= now < 10 * least:
                factor = 10**18 // least
                self._tell(
                    f"timestamp={now} is taken as nanoseconds, thus of 1970; "
                    f"it looks like {unit}: give it times {factor:_}",
                    "timestamp",
                )
        return now

    def _measure(
        self,
        read: Callable[[], dict[str, Any]],
        fields: dict[str, Field],
        more: dict[str, Any],
        prefix: str,
    ) -> None:
        """Add what the machine says; without it the point is kept."""
        try:
            for name, value in read().items():
                if name in ("gpu_id", "gpu_name"):
                    more[name] = value
                else:
                    fields[prefix + name] = value
        except Exception as error:
            self._tell(f"no {read.__name__[4:].replace('_', ' ')}: {error}", read.__name__)

    def _tell(self, text: str, once: str) -> None:
        """Warn, once for each cause."""
        if once not in self._said:
            self._said.add(once)
            logger.warning("%s", text)

    def counts(self) -> Counts:
        """What became of the calls of log()."""
        kept = (self._logged, self._sampled_out, self._failed)
        sink = self._influx
        return Counts(
            *kept, *(() if sink is None else (sink.waiting, sink.refused, sink.nonfinite))
        )

    def flush(self, timeout: float = 60.0) -> bool:
        """Wait until everything logged so far is delivered; True when it is."""
        if self._influx is not None:
            return self._influx.flush(timeout)
        return self._run is not None and self._run.flush(timeout)

    def close(self, timeout: float = 15.0) -> None:
        """Wait at most so long for the delivery; what is left stays on the disk for later."""
        try:
            if self._influx is not None:
                self._influx.close(timeout)
                atexit.unregister(self.close)
            elif self._run is not None:
                self._run.close(timeout)
        except Exception as error:
            self._tell(f"close: {error}", "close")

    def __enter__(self) -> MetricsLogger:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def _url(host: str, port: object) -> str:
    """The address; a host alone means https, as in the original."""
    text = host if "://" in host else f"https://{host}"
    number = str(port)
    if not number.isdigit():
        raise ValueError(f"the port of the InfluxDB (INFLUXDB_PORT) is a number, not {number!r}")
    scheme, _, rest = text.rstrip("/").partition("://")
    named = ":" in rest.rpartition("]")[2]
    return f"{scheme}://{rest}" if named else f"{scheme}://{rest}:{number}"


def _options(role: str) -> MetricsLoggerWriteOptions:
    return MetricsLoggerWriteOptions(batch_size=10_000 if role == "validator" else 1_000)
