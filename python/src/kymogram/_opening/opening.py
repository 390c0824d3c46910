"""From the arguments of init() to an open run."""

from __future__ import annotations

import time

from .. import _say
from .._arguments.table import Arguments, known
from .._delivery import client
from .._exceptions import KymogramLoggerInitError, KymogramOrchestrationIdMismatchError
from .._host import environment
from .._host.machine import Machine
from .._points.current import current
from .._say import taken, voice
from .._spool import jobs
from . import settings
from .process import attach
from .request import initial, request
from .spool import look_for_room, roots

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from typing import Any, TypeVar

    from .process import Process

    Run = TypeVar("Run", bound=Process)


def open_run(given: Mapping[str, Any], make: Callable[..., Run]) -> Run:
    """Open a run and make it the current one; the one that is open stays."""
    known(given["unknown"])
    if current.run is not None and not current.run.inherited:
        open_run: Run = current.run
        voice.warn(
            f"init() was called again; the run {current.run.name!r} that is open stays "
            "as it is: close() it to begin another",
            once=f"init again {given['run_name']}",
        )
        return open_run
    arguments = Arguments(given)
    _say.set_level(arguments.take("log_level"))
    run = begin_run(arguments, make)
    try:
        attach(run)
    except BaseException:  # such as Ctrl-C: nobody holds this run
        run.close(0)
        raise
    return run


def begin_run(arguments: Arguments, make: Callable[..., Run]) -> Run:
    """Open a run without making it the current one."""
    found = settings.read(arguments)
    voice.quiet = found.error_strategy == "silent"
    address = environment.server(arguments["server"] or arguments["ingestion_url"])
    found.key = environment.api_key(arguments["api_key"], address)
    found.new_name = _new_name(arguments)
    found.new_job = found.new_name and not (
        environment.names_job(arguments["orchestration_id"]) or arguments["fork_from_run"]
    )
    asked = request(arguments)
    machine = Machine() if arguments.take("capture_environment") else None
    look_for_room(found)
    updates, later = initial(arguments, machine)
    if updates:
        asked["initial"] = updates
    ended = jobs.ended(roots(found), asked)
    if ended:
        asked["ended"] = ended
    answer = _answer(arguments, address, found, asked)
    if answer is not None and not answer.get("created"):
        later = []
    return make(address, asked, answer, found, machine, later)


def _answer(
    arguments: Arguments, address: str, found: settings.Settings, asked: dict[str, Any]
) -> dict[str, Any] | None:
    """The server's answer; None where it is not to be asked."""
    if found.offline:
        asked["offline"] = True
        return None
    limit = arguments.take("init_timeout_secs")
    found.init_timeout = limit
    return _ask(address, found, asked, min(client.TIMEOUT_S, max(limit, 0.001)))


def _new_name(arguments: Arguments) -> bool:
    """Whether another job's name leads to a run NAME-2: nobody chose a resume strategy.

    Processes of one job that made up an id each must not become a run each.
    """
    if arguments["resume_strategy"] or environment.setting("RESUME_STRATEGY"):
        return False
    return environment.rank() is None or environment.names_job(arguments["orchestration_id"])


def _ask(
    address: str, found: settings.Settings, request: dict[str, Any], timeout: float
) -> dict[str, Any] | None:
    """The server's answer; None, said once, when the run begins without it."""
    began = time.monotonic()
    try:
        try:
            answer = client.open_run(address, found.key, request, timeout)
        except KymogramOrchestrationIdMismatchError:
            if not found.new_name:
                raise
            request["offline"] = True  # as without the server, which then gives a run NAME-2
            left = max(timeout - (time.monotonic() - began), 0.001)
            answer = client.open_run(address, found.key, request, left)
    except client.Unreachable as error:
        request["offline"] = True
        voice.warn(f"{address} is not reached ({error}); the points wait in the spool")
        return None
    if not isinstance(answer.get("run"), str):
        raise KymogramLoggerInitError(f"{address} answered the open without a run: {answer!r:.200}")
    asked = answer.get("linked_from")
    if asked:
        voice.warn(taken(asked, answer.get("run_name")))
    return answer
