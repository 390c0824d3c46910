"""What get_metrics() returns."""

from __future__ import annotations


class Metrics:
    """Counters of the current run; all but the memory's only grow.

    added = given to a log call, enqueued = in the spool, sent = stored by the
    server (a lower bound that is exact once everything is delivered), dropped
    = given up because disk and memory were full.
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
    float_points_sent: int
    points_acked: int
    points_in_memory: int
    points_refused: int
    requests_sent: int
    rl_float_points_added: int
    rl_float_points_dropped: int
    rl_float_points_enqueued: int
    rl_float_points_sent: int
    send_errors: int

    def __init__(self, **counters: int) -> None:
        for name in type(self).__annotations__:
            setattr(self, name, counters.get(name, 0))

    def as_dict(self) -> dict[str, int]:
        """The counters by name."""
        return {name: getattr(self, name) for name in type(self).__annotations__}

    def __repr__(self) -> str:
        inside = ", ".join(f"{name}={value}" for name, value in self.as_dict().items())
        return f"Metrics({inside})"
