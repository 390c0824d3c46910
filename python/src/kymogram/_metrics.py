"""What get_metrics() returns."""

from __future__ import annotations


class Metrics:
    """Counters of the current run; all but the memory's only grow.

    - added: given to a log call.
    - enqueued: written to the spool, or to memory while the disk is full.
    - sent: acknowledged by the server.
    - dropped: given up because the queue was full, or after the last try.
    - refused: rejected by the server for good.
    - pending: in the spool, not yet decided by the server.

    So added = sent + pending + refused + dropped, and what is in memory.
    """

    attribute_updates_added: int
    attribute_updates_dropped: int
    attribute_updates_enqueued: int
    attribute_updates_sent: int
    connection_attempts: int
    env_attribute_updates_added: int
    env_attribute_updates_dropped: int
    env_attribute_updates_enqueued: int
    env_attribute_updates_sent: int
    errors_evicted: int
    errors_reported: int
    float_points_added: int
    float_points_dropped: int
    float_points_enqueued: int
    float_points_pending: int
    float_points_sent: int
    points_acked: int
    points_in_memory: int
    points_pending: int
    points_refused: int
    rendering_frames_added: int
    rendering_frames_dropped: int
    rendering_frames_encoded: int
    rendering_frames_waiting: int
    renderings_failed: int
    renderings_finished: int
    renderings_waiting: int
    requests_sent: int
    rl_float_points_added: int
    rl_float_points_dropped: int
    rl_float_points_enqueued: int
    rl_float_points_pending: int
    rl_float_points_sent: int
    send_errors: int
    shared_environments: int
    steps_not_rising: int

    def __init__(self, **counters: int) -> None:
        for name in type(self).__annotations__:
            setattr(self, name, counters.get(name, 0))

    def as_dict(self) -> dict[str, int]:
        """The counters by name."""
        return {name: getattr(self, name) for name in type(self).__annotations__}

    def __repr__(self) -> str:
        inside = ", ".join(f"{name}={value}" for name, value in self.as_dict().items())
        return f"Metrics({inside})"


class CloseInfo:
    """What close() left behind.

    `metrics` are the last counters. `has_undelivered_spool` is true when points
    or videos of this writer are not delivered yet; `leftover_segments` and
    `leftover_bytes` are the disk space that they take. `foreign_spools` are the
    folders of other writers that wait in the same spool.
    """

    def __init__(
        self,
        metrics: Metrics,
        has_undelivered_spool: bool,
        leftover_segments: int,
        leftover_bytes: int,
        foreign_spools: list[str],
    ) -> None:
        self.metrics = metrics
        self.has_undelivered_spool = has_undelivered_spool
        self.leftover_segments = leftover_segments
        self.leftover_bytes = leftover_bytes
        self.foreign_spools = foreign_spools

    def __repr__(self) -> str:
        return (
            f"CloseInfo(has_undelivered_spool={self.has_undelivered_spool}, "
            f"leftover_segments={self.leftover_segments}, leftover_bytes={self.leftover_bytes}, "
            f"foreign_spools={self.foreign_spools!r}, metrics={self.metrics!r})"
        )
