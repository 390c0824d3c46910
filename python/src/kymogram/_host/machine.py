"""What the run is told about its machine: git, host, Python, packages, GPUs, the job's variables.

What is known at once goes into the open. `git status` and `nvidia-smi` are
started first and asked for last; a slow one is waited for by the helper thread,
and what it says is logged when this process turned out to create the run.
"""

from __future__ import annotations

import os
import sys

from .._input import attributes
from .._platform import seams

TYPE_CHECKING = False
if TYPE_CHECKING:
    import subprocess
    from typing import Any

_PREFIXES = ("SLURM_", "TORCHELASTIC_")
_NAMES = ("CUDA_VISIBLE_DEVICES",)
_SECRET_NAMES = (
    "KEY TOKEN SECRET PASSW PWD CREDENTIAL AUTH COOKIE PRIVATE SIGNATURE JWT SESSION"
).split()
_SECRET_STARTS = (
    "sk- sk_ pk_ rk_ ghp_ gho_ ghu_ ghs_ github_pat_ glpat- hf_ xox AKIA ASIA AIza eyJ ya29. "
    "-----BEGIN npm_ pypi- kym_"
).split()
_REPLACED = "(replaced: it looks like a secret)"
_WAIT_S = 0.15
_LATE_S = 20.0
_TEXT = 32 << 10


class Machine:
    """One look at the machine, begun at once."""

    def __init__(self) -> None:
        git = ["git", "status", "--porcelain", "--untracked-files=no"]
        query = "--query-gpu=index,name,memory.total,driver_version"
        self._git = _start([*git, "--ignore-submodules"])
        self._gpus = _start(["nvidia-smi", query, "--format=csv,noheader,nounits"])

    def known(self) -> list[dict[str, Any]]:
        """What is known now, as updates."""
        found: dict[str, Any] = {"host": _host(), "python": _python()}
        job = variables(os.environ)
        if job:
            found["env"] = job
        updates = [one for name, value in found.items() for one in _updates(name, value)]
        return updates + self._answers(_WAIT_S)

    def late(self) -> list[dict[str, Any]]:
        """What the slow ones say; waits for them."""
        return self._answers(_LATE_S)

    @property
    def waits(self) -> bool:
        """Whether an answer is still to come."""
        return self._git is not None or self._gpus is not None

    def _answers(self, timeout: float) -> list[dict[str, Any]]:
        import time

        updates: list[dict[str, Any]] = []
        deadline = time.monotonic() + timeout
        over, text = _answer(self._git, deadline)
        if over:
            self._git = None
        if text is not None:
            updates += _updates("git/dirty", bool(text.strip()))
        over, text = _answer(self._gpus, deadline)
        if over:
            self._gpus = None
        if text:
            updates += _updates("gpu", gpus(text))
        return updates


def _start(command: list[str]) -> subprocess.Popen[str] | None:
    """Start a program that only reads; None where it is not installed."""
    import shutil
    import subprocess

    try:
        path = shutil.which(command[0])
        if path is None:
            return None
        environment = {**os.environ, "GIT_OPTIONAL_LOCKS": "0", "LC_ALL": "C"}
        return subprocess.Popen(
            [path, *command[1:]],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
            errors="replace",
            env=environment,
        )
    except (OSError, ValueError):
        return None


def _answer(process: subprocess.Popen[str] | None, deadline: float) -> tuple[bool, str | None]:
    """Whether a program is over, and what it printed when it succeeded."""
    import subprocess
    import time

    if process is None:
        return True, None
    try:
        text, _ = process.communicate(timeout=max(deadline - time.monotonic(), 0.001))
    except subprocess.TimeoutExpired:
        return False, None
    except (OSError, ValueError):
        return True, None
    return True, text if process.returncode == 0 else None


def _updates(path: str, value: Any) -> list[dict[str, Any]]:
    """Updates; what breaks a rule of paths is left out rather than ending a run."""
    try:
        return attributes.updates(path, value)
    except ValueError:
        return []


def _host() -> dict[str, Any]:
    import platform

    found: dict[str, Any] = {
        "name": seams.host(),
        "platform": platform.platform(),
        "machine": platform.machine(),
    }
    cpus = os.cpu_count()
    if cpus:
        found["cpus"] = cpus
    return found


def _python() -> dict[str, Any]:
    found: dict[str, Any] = {
        "version": sys.version.split()[0],
        "implementation": sys.implementation.name,
        "executable": sys.executable or "",
        "program": sys.argv[0] if sys.argv else "",
    }
    installed = packages()
    if installed:
        found["packages"] = installed
    return found


def packages() -> str:
    """Installed packages as NAME==VERSION lines, from the names of their folders.

    importlib.metadata would read every file; the folder's name says the same.
    """
    found = set()
    for place in sys.path:
        try:
            names = os.listdir(place or ".") if not place.endswith(".zip") else []
        except OSError:
            continue
        for name in names:
            if name.endswith((".dist-info", ".egg-info")):
                package, _, version = name.rpartition(".")[0].partition("-")
                if package and version:
                    found.add(f"{package}=={version.split('-py')[0]}")
    return "\n".join(sorted(found, key=str.lower)).encode()[:_TEXT].decode(errors="ignore")


def variables(environ: Any) -> dict[str, str]:
    """The job's variables; what looks like a secret is replaced."""
    return {
        name: _REPLACED if secret(name, value) else value[:1024]
        for name, value in sorted(environ.items())
        if name in _NAMES or name.startswith(_PREFIXES)
    }


def secret(name: str, value: str) -> bool:
    """Whether a variable looks like a secret, by its name or its value."""
    upper = name.upper()
    if any(word in upper for word in _SECRET_NAMES):
        return True
    if any(value.startswith(start) for start in _SECRET_STARTS):
        return True
    return "://" in value and "@" in value.partition("://")[2].partition("/")[0]


def gpus(text: str) -> dict[str, Any]:
    """The cards that nvidia-smi lists, and how many."""
    found: dict[str, Any] = {}
    for line in text.strip().splitlines():
        parts = [part.strip() for part in line.split(",")]
        if len(parts) != 4 or not parts[0].isdigit():
            continue
        card: dict[str, Any] = {"name": parts[1], "driver": parts[3]}
        if parts[2].isdigit():
            card["memory_mib"] = int(parts[2])
        found[parts[0]] = card
    return {"count": len(found), **found} if found else {}
