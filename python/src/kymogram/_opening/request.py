"""The request that opens a run: which run, whose process, and what it says of itself."""

from __future__ import annotations

import os
import time

from .._exceptions import KymogramValidationError
from .._host import environment
from .._input import attributes, naming
from .._platform import seams
from .._spool import folders

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from .._arguments.table import Arguments
    from .._host.machine import Machine

# What travels with the open; more of a configuration follows in the spool, so that
# its size decides neither how long init takes nor whether the server is reached in time.
_OPEN_VALUES = 1_000
_OPEN_BYTES = 64 << 10
_turns = 0  # runs of this process whose name was made up


def request(arguments: Arguments) -> dict[str, Any]:
    """The body of POST /api/v1/open. The order is that in which wrong ones are reported."""
    take = arguments.take
    orchestration = environment.orchestration_id(arguments["orchestration_id"])
    found = _identity(arguments, orchestration, take("resume_strategy"))
    found.update(
        _given(
            display_name=take("display_name"),
            experiment=take("experiment_name"),
            resume_from_step=take("resume_from_step"),
            fork_from_run=take("fork_from_run"),
            fork_at_step=take("fork_at_step"),
            logger_id=take("logger_id"),
        )
    )
    if "fork_at_step" in found and "fork_from_run" not in found:
        raise KymogramValidationError("fork_at_step needs fork_from_run")
    return found


def _identity(arguments: Arguments, orchestration: str, resume: str) -> dict[str, Any]:
    """Which run, and which process of which job opens it."""
    parent = _parent(orchestration)
    inherited = parent[1] if parent is not None else {}
    run_name = arguments["run_name"]
    workspace = arguments["workspace_name"]
    if arguments["organization"] is not None:
        workspace = f"{arguments['organization']}.{workspace}"
    workspace = _place(workspace, "WORKSPACE", inherited.get("workspace"))
    project = _place(arguments["project_name"], "PROJECT", inherited.get("project"))
    if run_name is None:
        run_name = inherited.get("run_name") or _made_up(orchestration)
    now = time.time_ns()
    found = {
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
    found.update(
        _given(
            parent_attempt=parent[0] if parent is not None else None,
            restart_count=environment.restart_count(),
            rank=environment.rank(),
        )
    )
    return found


def _place(given: Any, variable: str, inherited: str | None) -> Any:
    """A workspace or project: where none is named, the environment's, then the parent's."""
    return given if given != "default" else environment.setting(variable) or inherited or given


def _given(**fields: Any) -> dict[str, Any]:
    return {name: value for name, value in fields.items() if value is not None}


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


def initial(
    arguments: Arguments, machine: Machine | None
) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    """What only the process that creates the run sets: in the open, and behind it."""
    others: list[dict[str, Any]] = []
    commit = attributes.commit(folders.full("."))
    if commit:
        others += attributes.updates("git/commit_sha", commit)
    if machine is not None:
        others += machine.known()
    others += arguments.take("tags")
    others += arguments.take("description")
    found = arguments.take("config")
    now = time.time_ns()
    count = _fitting(found)
    later = [{**one, "initial": True} for one in found[count:] if "value" in one]
    return [{**one, "time_ns": now} for one in [*found[:count], *others]], later


def _fitting(updates: list[dict[str, Any]]) -> int:
    """How many of the updates the open has room for."""
    room = _OPEN_BYTES
    for count, one in enumerate(updates[:_OPEN_VALUES]):
        given = one.get("value", {}).get("value")
        room -= 100 + len(one["path"]) + len(given if isinstance(given, (str, list)) else "")
        if room < 0:
            return count
    return min(len(updates), _OPEN_VALUES)
