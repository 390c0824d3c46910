"""The `kymogram` binary: find it, and start its agent detached."""

from __future__ import annotations

import os
import sys

from .._platform import seams
from .._spool import folders

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import NoReturn

PROTOCOL = 3  # of the deliverer that reads the spool's format (docs/format/spool.md)
_LOG_MAX = 1 << 20
_KEPT = ("PATH", "HOME", "USER", "LOGNAME", "LANG", "TZ", "TMPDIR", "SSL_CERT_FILE", "SSL_CERT_DIR")
_PATHS = ("SSL_CERT_FILE", "SSL_CERT_DIR")
_GO = ("GODEBUG", "GOMAXPROCS", "GOMEMLIMIT", "GOTRACEBACK", "GOCOVERDIR")
_PROXIES = ("http_proxy", "https_proxy", "no_proxy", "all_proxy")

MISSING = (
    "the kymogram binary is not in this package, nor named by KYMOGRAM_BINARY, nor on PATH; "
    "install a wheel that carries it, or "
    "`go install github.com/kymogram/kymogram/server/cmd/kymogram`"
)


def binary() -> str | None:
    """The wheel's own binary, else KYMOGRAM_BINARY, else the first on PATH."""
    package = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
    own = os.path.join(package, "_bin", seams.PROGRAM)
    named = os.environ.get("KYMOGRAM_BINARY")
    places = [own] + ([folders.full(named)] if named else [])
    places += [
        os.path.join(folders.full(folder), seams.PROGRAM)
        for folder in os.environ.get("PATH", "").split(os.pathsep)
        if folder
    ]
    return next((path for path in places if _is_program(path)), None)


def _is_program(path: str) -> bool:
    """Whether path is a program and not a script such as our own console entry."""
    if not os.path.isfile(path) or not os.access(path, os.X_OK):
        return False
    try:
        with open(path, "rb") as file:
            return file.read(2) != b"#!"
    except OSError:
        return False


def held(root: str) -> bool:
    """Whether somebody delivers the folder."""
    try:
        lock = folders.flock(os.path.join(root, "agent.lock"), shared=True)
    except OSError:  # the folder is gone, or read-only from the start
        return False
    if lock is None:
        return True
    os.close(lock)
    return False


def delivers(root: str) -> bool:
    """Whether somebody delivers the folder who reads what this package writes."""
    if not held(root):
        return False
    protocol = folders.read_json(os.path.join(root, "agent.json")).get("protocol")
    return not isinstance(protocol, int) or protocol >= PROTOCOL


def start(root: str, path: str) -> None:
    """Start the agent so that it outlives this process and shares nothing with it."""
    launch(root, [path, "agent", "--detached", "--spool", root])


def launch(root: str, command: list[str], kept: tuple[int, ...] = ()) -> None:
    """Start a command of the binary that outlives this process, with some of its descriptors."""
    import subprocess

    command, how, ends = seams.detached(command)
    log = _open_log(root)
    try:
        process = subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            env=_surroundings(),
            close_fds=True,
            pass_fds=kept,
            **how,
        )
    finally:
        os.close(log)
    if ends:
        process.wait()


def _open_log(root: str) -> int:
    path = os.path.join(root, "agent.log")
    try:
        if os.lstat(path).st_size > _LOG_MAX:
            os.replace(path, path + ".1")
    except FileNotFoundError:
        pass
    return seams.open_private(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND)


def _surroundings() -> dict[str, str]:
    """The agent's environment: no key, nothing that it has no use for, full paths."""
    return {
        name: os.pathsep.join(map(folders.full, value.split(os.pathsep)))
        if name in _PATHS and value
        else value
        for name, value in os.environ.items()
        if name in _KEPT
        or name.lower() in _PROXIES
        or name.startswith(("XDG_", "LC_", "SSL_CERT"))
        or (name.startswith("KYMOGRAM_") and not name.endswith("_API_KEY"))
        or name in _GO
    }


def main() -> NoReturn:
    """The console script: become the binary."""
    path = binary()
    if path is None:
        sys.exit(f"kymogram: {MISSING}")
    seams.become(path, sys.argv[1:])
