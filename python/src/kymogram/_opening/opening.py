"""From the arguments of init() to an open run."""

from __future__ import annotations

from .. import _say
from .._arguments.table import Arguments
from .._delivery import client
from .._exceptions import KymogramLoggerInitError
from .._host import environment
from .._host.machine import Machine
from .._points.current import current
from .._say import voice
from .._spool import jobs
from . import settings
from .process import attach
from .request import initial, request
from .spool import roots

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from typing import Any, TypeVar

    from .process import Process

    Run = TypeVar("Run", bound=Process)


def open_run(given: Mapping[str, Any], make: Callable[..., Run]) -> Run:
    """Open a run and make it the current one; the one that is open stays."""
    if current.run is not None and not current.run.inherited:
        open_run: Run = current.run
        voice.warn(
            f"init() was called again; the run {current.run.name!r} that is open stays: "
            "close() it to begin another",
            once=f"init again {given['run_name']}",
        )
        return open_run
    arguments = Arguments(given)
    _say.set_level(arguments.take("log_level"))
    found = settings.read(arguments)
    address = environment.server(given["server"] or given["ingestion_url"])
    found.key = environment.api_key(given["api_key"], address)
    asked = request(arguments)
    machine = Machine() if arguments.take("capture_environment") else None
    updates, later = initial(arguments, machine)
    if updates:
        asked["initial"] = updates
    ended = jobs.ended(roots(found), asked)
    if ended:
        asked["ended"] = ended
    answer = _answer(arguments, address, found, asked)
    if answer is not None and not answer.get("created"):
        later = []
    run = make(address, asked, answer, found, machine, later)
    try:
        attach(run)
    except BaseException:  # such as Ctrl-C: nobody holds this run
        run.close(0)
        raise
    return run


def _answer(
    arguments: Arguments, address: str, found: settings.Settings, asked: dict[str, Any]
) -> dict[str, Any] | None:
    """The server's answer; None where it is not to be asked."""
    if found.offline:
        asked["offline"] = True
        return None
    limit = arguments.take("init_timeout_secs")
    return _ask(address, found.key, asked, min(client.TIMEOUT_S, max(limit, 0.001)))


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
