"""DiskConfig: where the spool lies, as init() is told it."""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

# What the DiskConfig of Metrana 1.11 takes besides, and this spool has no use for.
_OTHER_LIMITS = frozenset(
    "segment_size_bytes compression zstd_level io_max_retries err_initial_backoff_secs "
    "err_max_backoff_secs coalesce_min_batch coalesce_timeout_secs recovery_initial_backoff_secs "
    "recovery_max_backoff_secs metadata_checkpoint_interval_secs foreign_cursor_dirs".split()
)


class DiskConfig:
    """Where the spool lies and how much of the disk it may take."""

    def __init__(
        self,
        dir: Any = None,  # noqa: A002 - Metrana's name
        max_bytes: int | None = None,
        *,
        max_size_bytes: int | None = None,
        **others: Any,
    ) -> None:
        """`dir` is the folder; `max_bytes` caps all segments in it (else 8 GiB).

        `max_size_bytes` is Metrana's name of the same; its other limits are
        accepted and without effect.
        """
        unknown = sorted(others.keys() - _OTHER_LIMITS)
        if unknown:
            raise TypeError(f"DiskConfig() got an unexpected keyword argument {unknown[0]!r}")
        self.dir = dir
        self.max_bytes = max_size_bytes if max_bytes is None else max_bytes

    def __repr__(self) -> str:
        return f"DiskConfig(dir={self.dir!r}, max_bytes={self.max_bytes!r})"
