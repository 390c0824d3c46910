"""replay_spool and follow_spool: deliver what other programs left, by the kymogram binary."""

from __future__ import annotations

import os
import time

from ._delivery import agent
from ._exceptions import (
    KymogramSpoolUnavailableError,
    KymogramTimeoutError,
    KymogramUndeliverableSpoolError,
)
from ._host import environment
from ._input import numeric
from ._metrics import CloseInfo, Metrics
from ._spool import folders

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any


def replay_spool(
    spool_dir: Any = None,
    *,
    workspace_name: str | None = None,
    project_name: str | None = None,
    run_name: str | None = None,
    organization: str | None = None,
    api_key: str | None = None,
    ingestion_url: str | None = None,
    timeout_secs: float | None = 60.0,
) -> CloseInfo:
    """Deliver a spool folder as `kymogram sync` does, and say what is left.

    Every run in the folder goes to the server and under the names that it was
    opened with; `ingestion_url` and `api_key` override the server. The names
    are accepted for compatibility. Raises KymogramUndeliverableSpoolError when
    a server refuses the points for good or there is no kymogram binary.
    """
    root = _root(spool_dir)
    _sync(root, ingestion_url, api_key, timeout_secs)
    return _left(root)


def follow_spool(
    spool_dir: Any = None,
    *,
    workspace_name: str | None = None,
    project_name: str | None = None,
    run_name: str | None = None,
    organization: str | None = None,
    api_key: str | None = None,
    ingestion_url: str | None = None,
    poll_interval_secs: float = 10.0,
    checkpoint_interval_secs: float = 30.0,
    idle_timeout_secs: float | None = None,
    settle_timeout_secs: float = 300.0,
    timeout_secs: float | None = 60.0,
) -> CloseInfo:
    """Deliver a spool folder again and again until its writers are over and nothing is left.

    Looks every `poll_interval_secs`; `idle_timeout_secs` without a change ends
    it earlier, None never. The other times are accepted and without effect.
    """
    root = _root(spool_dir)
    pause = max(numeric.seconds("poll_interval_secs", poll_interval_secs), 0.05)
    before, changed = "", time.monotonic()
    while True:
        try:
            _sync(root, ingestion_url, api_key, pause)
        except KymogramTimeoutError:
            pass  # the next look goes on
        info = _left(root)
        if not info.has_undelivered_spool and not _living(root):
            return info
        state = f"{info.leftover_segments} {info.leftover_bytes} {folders.used(root)}"
        if state != before:
            before, changed = state, time.monotonic()
        if idle_timeout_secs is not None and time.monotonic() - changed >= idle_timeout_secs:
            return info
        time.sleep(pause)


def _root(given: Any) -> str:
    chosen = None if given is None else os.path.expanduser(os.fsdecode(given))
    root = chosen or folders.candidates(os.environ)[0]
    if not os.path.isdir(os.path.join(root, "writers")):
        raise KymogramSpoolUnavailableError(f"{root} is not a spool folder: it has no writers/")
    return folders.full(root)


def _sync(root: str, server: str | None, key: str | None, timeout: float | None) -> None:
    import subprocess

    path = agent.binary()
    if path is None:
        raise KymogramUndeliverableSpoolError(agent.MISSING)
    command = [path, "sync", "--spool", root]
    if server:
        command += ["--server", environment.server(server)]
    limit = None
    if timeout is not None:
        limit = numeric.seconds("timeout_secs", timeout)
        command += ["--timeout", f"{max(limit, 0.05):.3f}s"]
    variables = dict(os.environ)
    if key:
        variables["KYMOGRAM_API_KEY"] = key
    start = time.monotonic()
    done = subprocess.run(command, env=variables, capture_output=True, text=True, check=False)
    if done.returncode != 0 and folders.others(root):
        message = done.stderr.strip() or f"kymogram sync ended with {done.returncode}"
        if limit is not None and time.monotonic() - start >= limit:
            raise KymogramTimeoutError(message)
        raise KymogramUndeliverableSpoolError(message)


def _left(root: str) -> CloseInfo:
    """What writers that are over left in a spool."""
    over = folders.others(root)
    sizes = [folders.leftover(folder) for folder in over]
    return CloseInfo(
        Metrics(),
        bool(over),
        sum(number for number, _ in sizes),
        sum(size for _, size in sizes),
        over,
    )


def _living(root: str) -> bool:
    """Whether a writer of the spool is still open."""
    names = [n for n in os.listdir(os.path.join(root, "writers")) if not n.startswith(".")]
    return len(names) > len(folders.others(root))
