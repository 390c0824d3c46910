"""init(): from arguments and surroundings to an open run."""

from __future__ import annotations

import os
import sys
import time

from . import _enums, _say
from ._delivery import client
from ._exceptions import KymogramLoggerInitError, KymogramValidationError
from ._host import environment, system
from ._host.machine import Machine
from ._input import attributes, naming, numeric
from ._opening import settings as _settings
from ._opening.process import attach
from ._opening.settings import Settings
from ._platform import seams
from ._points.current import current
from ._run import CLOSE_TIMEOUT_S, Run
from ._say import voice
from ._spool import folders
from ._videos import options

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from typing import Any

# What travels with the open; more of a configuration follows in the spool, so that
# its size decides neither how long init takes nor whether the server is reached in time.
_OPEN_VALUES = 1_000
_OPEN_BYTES = 64 << 10
_turns = 0  # runs of this process whose name was made up


def init(
    resume_strategy: str | None = None,
    orchestration_id: str | None = None,
    backpressure_strategy: str | None = None,
    compression: str | None = None,
    error_strategy: str | None = None,
    log_level: str | None = None,
    autoconfigure_loguru: bool = True,
    create_project_if_missing: bool = True,
    api_key: str | None = None,
    logger_id: int | None = None,
    fork_from_run: str | None = None,
    fork_at_step: int | None = None,
    tags: Sequence[str] | None = None,
    description: str | None = None,
    config: Mapping[str, Any] | None = None,
    queue_capacity: int | None = None,
    enqueue_timeout_secs: float = 0.1,
    init_timeout_secs: float = 120.0,
    connect_timeout_secs: float = 5.0,
    max_pending_requests: int = 30,
    max_send_retries: int | None = 60,
    send_retry_initial_backoff_secs: float = 0.05,
    send_retry_max_backoff_secs: float = 15.0,
    batch_max_age_secs: float = 1.0,
    max_msg_size: int = 1 << 20,
    rendering_output_dir: str | os.PathLike[str] | None = None,
    rendering_fps: int = 30,
    rendering_max_concurrent_encoders: int = 16,
    rendering_queue_max_size: int | None = None,
    skip_drain_render_on_close: bool | None = None,
    rendering_close_timeout: float | None = None,
    *,
    workspace_name: str = "default",
    project_name: str = "default",
    run_name: str | None = None,
    experiment_name: str | None = None,
    display_name: str | None = None,
    organization: str | None = None,
    server: str | None = None,
    ingestion_url: str | None = None,
    resume_from_step: int | None = None,
    close_timeout: float = CLOSE_TIMEOUT_S,
    capture_environment: bool | None = None,
    init_mode: str | None = None,
    delivery_policy: str | None = None,
    default_dtype: Any = None,
    disk: Any = None,
    rendering_error_strategy: str | None = None,
    rendering_num_encoder_threads: int | None = None,
    rendering_delete_after_upload: bool | None = None,
    upload_renderings: str | None = None,
    capture_system_metrics: bool | None = None,
    system_metrics_interval_secs: float | None = None,
    artifact_api_url: str | None = None,
    query_api_url: str | None = None,
    rendering_storage: str | None = None,
    rendering_upload_concurrency: int | None = None,
    rendering_upload_warn_threshold: int | None = None,
    rendering_upload_close_timeout: float | None = None,
    disk_spool_retry_timeout_secs: float | None = None,
    ack_stall_timeout_secs: float | None = None,
    close_spool_reserve_secs: float | None = None,
) -> Run:
    """Open a run and make it the current one. Waits for the server at most 0.8 s.

    Without a server the run begins offline: the points go to the spool, and
    the agent delivers them later. Every process of a job that names the same
    run writes into it. docs/python.md explains every argument; in short:

    Where: `server` (also `ingestion_url`, KYMOGRAM_SERVER) is
    http://127.0.0.1:7070 by default; the key is `api_key`, KYMOGRAM_API_KEY, or
    the one of the server in credentials.json. `organization` goes before the
    workspace. Without `run_name` a readable one is made up. `init_mode="offline"`
    does not ask the server at all.

    Which run: `resume_strategy` "never" joins a run of the same
    `orchestration_id` only, "allow" any. `resume_from_step=S` hides what earlier
    attempts logged at S and later. `fork_from_run` and `fork_at_step` name the
    run that this one goes on from. Two lives with one `logger_id` are one writer.

    What the creating process says: `config`, `tags`, `description`, the commit,
    the machine (`capture_environment`).

    Room: under the default `backpressure_strategy="spool"` the disk is the
    queue (`disk`: its folder, or DiskConfig with a cap). Under "drop_new",
    "block" and "raise", `queue_capacity` bounds the points that the server has
    not acked; a call waits `enqueue_timeout_secs` for room ("block": for ever).

    Sending: the agent keeps at most `max_pending_requests` batches in flight,
    none above `max_msg_size` bytes or older than `batch_max_age_secs`, packed by
    `compression` ("none", "zstd"). A failed try is repeated after a wait that
    doubles from `send_retry_initial_backoff_secs` to
    `send_retry_max_backoff_secs`. After `max_send_retries` the error is told as
    `error_strategy` says; under "drop_new", "block" and "raise" the batch is
    dropped and counted then, None tries for ever.

    Accepted and without effect, as there is nothing left for them to decide:
    `autoconfigure_loguru`, `create_project_if_missing`, `connect_timeout_secs`,
    the addresses and times of Metrana's other services.
    """
    if current.run is not None and not current.run.inherited:
        open_run: Run = current.run
        voice.warn(
            f"init() was called again; the run {open_run.name!r} that is open stays: "
            "close() it to begin another",
            once=f"init again {run_name}",
        )
        return open_run
    level = log_level or environment.setting("LOG_LEVEL")
    _say.set_level(_enums.log_level(level or "SUCCESS").value)
    settings = Settings()
    settings.error_strategy = _enums.error_strategy(
        _choice("ERROR_MODES", error_strategy) or "warn"
    ).value
    settings.backpressure = _settings.backpressure(backpressure_strategy, delivery_policy)
    settings.queue_capacity = _settings.queue_capacity(queue_capacity)
    settings.enqueue_timeout = numeric.seconds("enqueue_timeout_secs", enqueue_timeout_secs)
    settings.close_timeout = numeric.seconds("close_timeout", close_timeout)
    settings.errors_kept = _settings.error_queue_size()
    if max_send_retries is not None:
        settings.retries = _settings.count("max_send_retries", max_send_retries, 0)
    numeric.kind_of(default_dtype)
    settings.dtype = default_dtype
    settings.spool, settings.cap = _settings.disk(disk)
    settings.offline = _offline(init_mode)
    settings.pace = _settings.pace(
        settings,
        max_pending_requests=max_pending_requests,
        batch_max_age_secs=batch_max_age_secs,
        max_msg_size=max_msg_size,
        compression=compression,
        first_backoff=send_retry_initial_backoff_secs,
        last_backoff=send_retry_max_backoff_secs,
    )
    settings.rendering = {
        "rendering_output_dir": rendering_output_dir,
        "rendering_fps": rendering_fps,
        "rendering_max_concurrent_encoders": rendering_max_concurrent_encoders,
        "rendering_queue_max_size": rendering_queue_max_size,
        "rendering_close_timeout": rendering_close_timeout,
        "rendering_error_strategy": rendering_error_strategy,
        "rendering_num_encoder_threads": rendering_num_encoder_threads,
        "rendering_delete_after_upload": rendering_delete_after_upload,
        "rendering_storage": rendering_storage,
        "rendering_upload_concurrency": rendering_upload_concurrency,
        "rendering_upload_warn_threshold": rendering_upload_warn_threshold,
        "rendering_upload_close_timeout": rendering_upload_close_timeout,
        "skip_drain_render_on_close": skip_drain_render_on_close,
        "upload_renderings": upload_renderings,
    }
    # Wrong ones are told before the run is opened.
    rendering = options.Options(settings.rendering, settings.error_strategy, "")
    if rendering.uploads is not None:
        settings.pace["rendering_uploads"] = rendering.uploads
    settings.system = system.wanted(capture_system_metrics, system_metrics_interval_secs)
    address = environment.server(server or ingestion_url)
    settings.key = environment.api_key(api_key, address)
    request = _request(
        workspace_name if organization is None else f"{organization}.{workspace_name}",
        project_name,
        run_name,
        environment.orchestration_id(orchestration_id),
        _enums.resume_strategy(_choice("RESUME_STRATEGY", resume_strategy) or "never").value,
    )
    request.update(
        _optional(
            display_name=None if display_name is None else naming.run(display_name, "display_name"),
            experiment=None
            if experiment_name is None
            else naming.run(experiment_name, "experiment_name"),
            resume_from_step=_number("resume_from_step", resume_from_step),
            fork_from_run=None
            if fork_from_run is None
            else naming.run(fork_from_run, "fork_from_run"),
            fork_at_step=_number("fork_at_step", fork_at_step),
            logger_id=_logger_id(logger_id),
        )
    )
    if fork_at_step is not None and fork_from_run is None:
        raise KymogramValidationError("fork_at_step needs fork_from_run")
    capture = capture_environment
    capture = _settings.flag("CAPTURE_ENVIRONMENT", True) if capture is None else capture
    machine = Machine() if capture else None
    initial, later = _initial(config, tags, description, machine)
    if initial:
        request["initial"] = initial
    ended = folders.ended(os.environ, request)
    if ended:
        request["ended"] = ended
    if settings.offline:
        request["offline"] = True
        answer = None
    else:
        limit = numeric.seconds("init_timeout_secs", init_timeout_secs)
        answer = _ask(address, settings.key, request, min(client.TIMEOUT_S, max(limit, 0.001)))
    if answer is not None and not answer.get("created"):
        later = []
    run = Run(address, request, answer, settings, machine, later)
    try:
        attach(run)
    except BaseException:  # such as Ctrl-C: nobody holds this run
        run.close(0)
        raise
    return run


def _offline(given: object) -> bool:
    chosen = given or environment.setting("INIT_MODE")
    return bool(chosen) and _enums.init_mode(chosen).value == "offline"


def _choice(name: str, given: object) -> object:
    return given or environment.setting(name)


def _optional(**fields: Any) -> dict[str, Any]:
    return {name: value for name, value in fields.items() if value is not None}


def _number(what: str, value: Any) -> int | None:
    return None if value is None else numeric.step(what, value)


def _logger_id(value: Any) -> str | None:
    """An unsigned 64-bit number; JSON carries it as text."""
    if value is None:
        return None
    number = numeric.exact_int("logger_id", value) if not isinstance(value, int) else value
    if not 0 <= number < 1 << 64:
        raise KymogramValidationError(f"logger_id is from 0 to 2^64 - 1, got {value!r}")
    return str(number)


def _request(
    workspace: str, project: str, run_name: str | None, orchestration: str, resume: str
) -> dict[str, Any]:
    """The body of POST /api/v1/open, without what is optional."""
    parent = _parent(orchestration)
    inherited = parent[1] if parent is not None else {}
    if workspace == "default":
        workspace = environment.setting("WORKSPACE") or inherited.get("workspace") or workspace
    if project == "default":
        project = environment.setting("PROJECT") or inherited.get("project") or project
    if run_name is None:
        run_name = inherited.get("run_name") or _made_up(orchestration)
    now = time.time_ns()
    request = {
        "writer": os.urandom(16).hex(),
        "workspace": naming.place("workspace_name", workspace),
        "project": naming.place("project_name", project),
        "run_name": naming.run(run_name),
        "local_run": environment.ulid(now),
        "orchestration_id": naming.run(orchestration, "orchestration_id"),
        "resume_strategy": resume,
        "host": seams.host(),
        "pid": os.getpid(),
        "opened_ns": now,
        "sdk": "python/0.1.0",
        "with_starts": True,
    }
    request.update(
        _optional(
            parent_attempt=parent[0] if parent is not None else None,
            restart_count=environment.restart_count(),
            rank=environment.rank(),
        )
    )
    return request


def _parent(orchestration: str) -> tuple[str, dict[str, Any]] | None:
    """The process that published its attempt, if it is of this job."""
    writer = environment.parent()
    if writer is None:
        return None
    for root in folders.candidates(os.environ):
        opened = environment.opened(root, writer)
        if opened:
            same = opened.get("orchestration_id") == orchestration
            return (writer, opened) if same else None
    return writer, {}


def _made_up(orchestration: str) -> str:
    global _turns
    name = environment.readable_name(orchestration, _turns)
    _turns += 1
    return name


def _initial(
    config: Any, tags: Any, description: Any, machine: Machine | None
) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    """What only the process that creates the run sets: in the open, and behind it."""
    others: list[dict[str, Any]] = []
    commit = attributes.commit(folders.full("."))
    if commit:
        others += attributes.updates("git/commit_sha", commit)
    if machine is not None:
        others += machine.known()
    if tags:
        others += attributes.tags("set_tags", tags)
    if description:
        others.append({"op": "set_description", "text": attributes.description(description)})
    found = attributes.config(config)
    now = time.time_ns()
    count = _fitting(found)
    later = [{**one, "initial": True} for one in found[count:] if "value" in one]
    return [{**one, "time_ns": now} for one in found[:count] + others], later


def _fitting(updates: list[dict[str, Any]]) -> int:
    """How many of the updates the open has room for."""
    room = _OPEN_BYTES
    for count, one in enumerate(updates[:_OPEN_VALUES]):
        given = one.get("value", {}).get("value")
        room -= 100 + len(one["path"]) + len(given if isinstance(given, (str, list)) else "")
        if room < 0:
            return count
    return min(len(updates), _OPEN_VALUES)


def _ask(
    address: str, key: str | None, request: dict[str, Any], timeout: float
) -> dict[str, Any] | None:
    """The server's answer; None, said once, when the run begins without it."""
    try:
        answer = client.open_run(address, key, request, timeout)
    except client.Unreachable as error:
        request["offline"] = True
        voice.warn(f"{address} is not reached ({error}); the points wait in the spool")
        return None
    if not isinstance(answer.get("run"), str):
        raise KymogramLoggerInitError(f"{address} answered the open without a run: {answer!r:.200}")
    asked = answer.get("linked_from")
    if asked:
        voice.warn(f"the name {asked!r} was taken; the points go to {answer.get('run_name')!r}")
    return answer


if sys.platform == "win32":
    raise ImportError("kymogram's Python client needs a POSIX system (Linux, macOS, WSL)")
