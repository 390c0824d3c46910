"""The table of init()'s arguments, in the order of its signature.

`python python/arguments.py` brings the signature and the docs up to date with it.
"""

from __future__ import annotations

import sys

from .. import _enums
from .._exceptions import KymogramValidationError
from .._host import environment
from .._input import numeric
from . import checks

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from typing import Any

    from .checks import Check

POSITIONAL = 31  # the first so many may be given by position, as in Metrana 0.5.2
_SERVICES = "accepted without effect: an address or a time of Metrana's other services"


class Argument:
    """One argument of init(): what the signature, the docs and the check of it are made of."""

    __slots__ = (
        "check",
        "default",
        "doc",
        "falsy",
        "name",
        "otherwise",
        "read",
        "shown",
        "type",
        "variables",
    )

    def __init__(
        self,
        name: str,
        type: str,  # noqa: A002 - as the signature has it
        default: Any,
        doc: str,
        check: Check = checks.as_given,
        *,
        variable: str = "",
        variables: tuple[str, ...] = (),
        read: Check | None = None,
        otherwise: Any = None,
        shown: str = "",
        falsy: bool = False,
    ) -> None:
        """`variable` X stands for KYMOGRAM_X and METRANA_X; take() reads them.

        `variables` are for the docs: what opens the run reads them. `read` checks a
        variable's text, where `check` is not for text. `otherwise` is the value of an
        argument that neither is given nor has a variable; `shown` is the default of
        the docs. `falsy`: any false value is as good as left out.
        """
        self.name = name
        self.type = type
        self.default = default
        self.doc = doc
        self.check = check
        self.read = (read or check) if variable else None
        own = ("KYMOGRAM_" + variable, "METRANA_" + variable) if variable else ()
        self.variables = own or variables
        self.otherwise = otherwise
        self.shown = shown
        self.falsy = falsy


def _choice(
    name: str, doc: str, check: Check, variable: str, otherwise: Any = None, shown: str = ""
) -> Argument:
    """An argument that is one of a few words."""
    return Argument(
        *(name, "str | None", None, doc, check),
        variable=variable,
        otherwise=otherwise,
        shown=shown or f"`{otherwise}`",
        falsy=True,
    )


ARGUMENTS = (
    _choice(
        "resume_strategy",
        "when another job has a run of this name: `never` is an error, `allow` goes on with it; "
        "see [Restarts](guides/distributed.md#restarts)",
        checks.choice(_enums.resume_strategy),
        "RESUME_STRATEGY",
        "never",
        "a new run `NAME-2`",
    ),
    Argument(
        *("orchestration_id", "str | None", None),
        "the job: else `TORCHELASTIC_RUN_ID`, `SLURM_JOB_ID`, `RAY_JOB_ID`, else random; "
        "handed to child processes",
        variables=("KYMOGRAM_ORCHESTRATION_ID", "METRANA_ORCHESTRATION_ID"),
        shown="found",
    ),
    _choice(
        "backpressure_strategy",
        "see *Queue limits*",
        checks.choice(_enums.backpressure_strategy),
        "BACKPRESSURE_STRATEGY",
        shown="`spool`",
    ),
    Argument(
        *("compression", "str | None", None),
        "of what the agent sends: `none`, `zstd`",
        checks.choice(_enums.compression),
        shown="none",
    ),
    _choice(
        "error_strategy",
        "`silent`, `warn`, `raise_on_log` (the next log call), `raise_on_close`",
        checks.choice(_enums.error_strategy),
        "ERROR_MODES",
        "warn",
    ),
    _choice(
        "log_level",
        "how much is said on stderr, `TRACE` to `OFF`",
        checks.choice(_enums.log_level),
        "LOG_LEVEL",
        "SUCCESS",
    ),
    Argument(
        *("autoconfigure_loguru", "bool", True),
        "accepted without effect: nothing is said through loguru",
    ),
    Argument(
        *("create_project_if_missing", "bool", True),
        "accepted without effect: a project begins with its first run",
    ),
    Argument(
        *("api_key", "str | None", None),
        "else the server's in `~/.config/kymogram/credentials.json`",
        variables=("KYMOGRAM_API_KEY", "METRANA_API_KEY"),
        shown="found",
    ),
    Argument(
        *("logger_id", "int | None", None),
        "processes with one number are one writer; the later value of a step wins",
        checks.logger_id,
    ),
    Argument(
        *("fork_from_run", "str | None", None),
        "the run that this one goes on from ([guide](guides/ml.md#fork))",
        checks.run,
    ),
    Argument(
        *("fork_at_step", "int | None", None),
        "the series of this run start after that step of the other run",
        numeric.step,
        shown="the last it has",
    ),
    Argument(
        *("tags", "Sequence[str] | None", None),
        "set by the process that creates the run",
        checks.tags,
        otherwise=(),
    ),
    Argument(
        *("description", "str | None", None),
        "set by the process that creates the run",
        checks.description,
        otherwise=(),
    ),
    Argument(
        *("config", "Mapping[str, Any] | None", None),
        "set by the process that creates the run (*Configurations*)",
        checks.config,
        otherwise=(),
    ),
    Argument(
        *("queue_capacity", "int | None", None),
        "most un-acked points under `drop_new`, `block`, `raise`",
        checks.capacity,
        variable="EVENT_QUEUE_MAX_SIZE",
        otherwise=10_000,
        shown="10,000",
    ),
    Argument(
        *("enqueue_timeout_secs", "float", 0.1),
        "how long a call waits while that queue is full",
        numeric.seconds,
    ),
    Argument(
        *("init_timeout_secs", "float", 120.0),
        "how long `get_last_step` waits for the server; `init` never waits above 0.8 s",
        numeric.seconds,
    ),
    Argument(
        *("connect_timeout_secs", "float", 5.0),
        "accepted without effect: `init_timeout_secs` is all that `init` waits",
    ),
    Argument(*("max_pending_requests", "int", 30), "batches in flight, at most 256", checks.count),
    Argument(
        *("max_send_retries", "int | None", 60),
        "failed tries in a row until the error is told; under `drop_new`, `block`, `raise` "
        "the batch is dropped then; `None`: never",
        checks.retries,
    ),
    Argument(
        *("send_retry_initial_backoff_secs", "float", 0.05),
        "the wait after the first failed try; it doubles from try to try",
        checks.milliseconds,
    ),
    Argument(
        *("send_retry_max_backoff_secs", "float", 15.0),
        "the longest wait between tries",
        checks.milliseconds,
    ),
    Argument(
        *("batch_max_age_secs", "float", 1.0),
        "the longest wait for company; up to 1 s the agent sends after at most 0.2 s",
        numeric.seconds,
    ),
    Argument(
        *("max_msg_size", "int", 1 << 20),
        "bytes of a batch, 4 KiB to 1 MiB",
        checks.count,
        shown="1 MiB",
    ),
    Argument(
        *("rendering_output_dir", "str | os.PathLike[str] | None", None),
        "also keep `RUN/ENV_EPISODE.mp4`, `RUN/ENV_EPISODE_NAME.mp4` there",
        shown="none",
    ),
    Argument(*("rendering_fps", "int", 30), "frames a second", checks.at_least_one(30)),
    Argument(
        *("rendering_max_concurrent_encoders", "int", 16),
        "environments that render at once; another waits until one had no frame for 5 s",
        checks.at_least_one(16),
    ),
    Argument(
        *("rendering_queue_max_size", "int | None", None),
        "most frames that wait for their encoding",
        checks.at_least_one(1),
        shown="64 MiB of them",
    ),
    Argument(
        *("skip_drain_render_on_close", "bool | None", None),
        "drop what waits at `close()`",
        checks.yes_or_no,
        variable="SKIP_DRAIN_RENDER_ON_CLOSE",
        otherwise=False,
        shown="false",
    ),
    Argument(
        *("rendering_close_timeout", "float | None", None),
        "time for encoding at `close()`",
        checks.limit,
        variable="RENDERING_CLOSE_TIMEOUT",
        shown="all of `close_timeout`",
    ),
    Argument(
        *("workspace_name", "str", "default"),
        "the workspace of the project",
        variables=("KYMOGRAM_WORKSPACE", "METRANA_WORKSPACE"),
    ),
    Argument(
        *("project_name", "str", "default"),
        "the project of the run",
        variables=("KYMOGRAM_PROJECT", "METRANA_PROJECT"),
    ),
    Argument(*("run_name", "str | None", None), "unique in its project", shown="made up"),
    Argument(
        *("experiment_name", "str | None", None),
        "the experiment that the run is part of",
        checks.run,
    ),
    Argument(*("display_name", "str | None", None), "the name that pages show", checks.run),
    Argument(
        *("organization", "str | None", None),
        "the organisation; the workspace is then `ORGANIZATION.WORKSPACE`, such as `acme.default`",
    ),
    Argument(
        *("server", "str | None", None),
        "where the points go",
        variables=("KYMOGRAM_SERVER", "METRANA_INGESTION_URL"),
        shown="`http://127.0.0.1:7070`",
    ),
    Argument(*("ingestion_url", "str | None", None), "the same, under Metrana's name"),
    Argument(
        *("resume_from_step", "int | None", None),
        "hides what earlier attempts logged at this step and later",
        numeric.step,
    ),
    Argument(
        *("close_timeout", "float", 15.0),
        "what `close()` waits when it is not told",
        numeric.seconds,
    ),
    Argument(
        *("capture_environment", "bool | None", None),
        "describe the machine (*Configurations*)",
        variable="CAPTURE_ENVIRONMENT",
        read=checks.capture,
        otherwise=True,
        shown="on",
    ),
    _choice(
        "init_mode",
        "`offline` asks no server at all",
        checks.choice(_enums.init_mode),
        "INIT_MODE",
        "online_only",
    ),
    _choice(
        "delivery_policy",
        "`all_or_crash`: an error when disk and memory are full",
        checks.choice(_enums.delivery_policy),
        "DELIVERY_POLICY",
        "tolerate_loss",
    ),
    Argument(
        *("default_dtype", "Any", None),
        "the `dtype` of series that do not name theirs",
        checks.dtype,
    ),
    Argument(
        *("disk", "Any", None),
        "the spool's folder, or `DiskConfig(dir, max_bytes)`",
        checks.disk,
        variables=("KYMOGRAM_SPOOL_DIR", "METRANA_DISK_SPOOL_DIR"),
        otherwise=(None, None),
        shown="found",
    ),
    _choice(
        "rendering_error_strategy",
        "silent, warn, raise_on_log, raise_on_close",
        checks.choice(_enums.error_strategy),
        "RENDERING_ERROR_STRATEGY",
        shown="`error_strategy`",
    ),
    Argument(
        *("rendering_num_encoder_threads", "int | None", None),
        "threads of one encoder",
        checks.at_least_one(2),
        otherwise=2,
        shown="2",
    ),
    Argument(
        *("rendering_delete_after_upload", "bool | None", None),
        "keep no video in `rendering_output_dir` once it is uploaded",
        shown="false, if that is given",
    ),
    Argument(
        *("upload_renderings", "str | None", None),
        "`triggered`: only tagged or marked ones (not by marks with `trigger=False`); "
        "`off`: they stay in `rendering_output_dir`",
        checks.uploads,
        otherwise="all",
        shown="all",
        falsy=True,
    ),
    Argument(
        *("capture_system_metrics", "bool | None", None),
        "log what the machine is doing while the run is open",
        variable="CAPTURE_SYSTEM_METRICS",
        read=checks.variable,
        otherwise=sys.platform == "linux",
        shown="on",
    ),
    Argument(
        *("system_metrics_interval_secs", "float | None", None),
        "seconds between two of its samples",
        checks.interval,
        variable="SYSTEM_METRICS_INTERVAL_SECS",
        otherwise=30.0,
        shown="30",
    ),
    Argument(
        *("capture_console", "bool | None", None),
        "keep the lines of stdout and stderr with the run ([the console](console.md))",
        checks.yes_or_no,
        variable="CAPTURE_CONSOLE",
        read=checks.variable,
        otherwise=False,
        shown="off",
    ),
    Argument(*("artifact_api_url", "str | None", None), _SERVICES),
    Argument(*("query_api_url", "str | None", None), _SERVICES),
    Argument(
        *("rendering_storage", "str | None", None),
        "not supported: one warning, the videos go to the server",
        checks.storage,
    ),
    Argument(
        *("rendering_upload_concurrency", "int | None", None),
        "videos uploaded at once, at most 16",
        checks.at_least_one(1),
        shown="4",
    ),
    Argument(
        *("rendering_upload_warn_threshold", "int | None", None),
        "so many may wait for their upload before it is told",
        checks.at_least_one(100),
        otherwise=100,
        shown="100",
    ),
    Argument(
        *("rendering_upload_close_timeout", "float | None", None),
        "how long `close()` waits for uploads, within `close_timeout`; without it as long as "
        "the server is connected, and where the agent ends with the job (Slurm, a container)",
        checks.limit,
        shown="none",
    ),
    Argument(*("disk_spool_retry_timeout_secs", "float | None", None), _SERVICES),
    Argument(*("ack_stall_timeout_secs", "float | None", None), _SERVICES),
    Argument(*("close_spool_reserve_secs", "float | None", None), _SERVICES),
)
TABLE = {one.name: one for one in ARGUMENTS}

# What other loggers call an argument.
_OTHER_WORDS = {
    "entity": "workspace_name",
    "experiment": "run_name",
    "id": "run_name",
    "mode": "init_mode",
    "name": "run_name",
    "notes": "description",
    "project": "project_name",
    "resume": "resume_strategy",
    "workspace": "workspace_name",
}


def known(unknown: Mapping[str, Any]) -> None:
    """Refuse arguments that init() does not have, with the one that was meant."""
    for name in unknown:
        from difflib import get_close_matches

        meant = [_OTHER_WORDS[name]] if name in _OTHER_WORDS else get_close_matches(name, TABLE, 1)
        hint = f"; did you mean {meant[0]}?" if meant else ""
        raise TypeError(f"init() got an unexpected keyword argument {name!r}{hint}")


def _read(read: Callable[[str, str], Any], name: str, text: str, variable: str) -> Any:
    try:
        return read(name, text)
    except KymogramValidationError as error:
        raise KymogramValidationError(f"{error}; it comes from the variable {variable}") from None


class Arguments:
    """What init() was given: each is checked when it is asked for."""

    __slots__ = ("given",)

    def __init__(self, given: Mapping[str, Any]) -> None:
        self.given = given

    def take(self, name: str) -> Any:
        """The checked value of an argument, of its variable, or what there is otherwise."""
        row = TABLE[name]
        value = self.given.get(name, row.default)
        left_out = not value if row.falsy else value is None and row.default is None
        if not left_out:
            return row.check(name, value)
        if row.read is not None:
            for variable in row.variables:
                text = environment.first((variable,))
                if text is not None:
                    return _read(row.read, name, text, variable)
        return row.otherwise

    def __getitem__(self, name: str) -> Any:
        """An argument as it was given."""
        return self.given.get(name, TABLE[name].default)
