"""How points go to an InfluxDB: the original's batches and waits."""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any


class MetricsLoggerWriteOptions:
    """Numbers of influxdb-client's WriteOptions, with the original's defaults; times in ms."""

    def __init__(
        self,
        batch_size: int = 5_000,
        flush_interval: int = 60_000,
        jitter_interval: int = 10_000,
        retry_interval: int = 10_000,
        max_retries: int = 5,
        max_retry_delay: int = 125_000,
        max_retry_time: int = 360_000,
        exponential_base: int = 2,
        max_close_wait: int = 600_000,
    ) -> None:
        self.batch_size = batch_size
        self.flush_interval = flush_interval
        self.jitter_interval = jitter_interval
        self.retry_interval = retry_interval
        self.max_retries = max_retries
        self.max_retry_delay = max_retry_delay
        self.max_retry_time = max_retry_time
        self.exponential_base = exponential_base
        self.max_close_wait = max_close_wait

    def official(self) -> Any:
        """The same as influxdb-client's own WriteOptions, for a batching write_api."""
        from influxdb_client.client.write_api import WriteOptions, WriteType

        return WriteOptions(write_type=WriteType.batching, **vars(self))
