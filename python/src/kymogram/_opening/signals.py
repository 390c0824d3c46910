"""SIGTERM: the process ends as it would without us, and its writers' folders say by what.

The handler is faulthandler's, which is C: whatever the interpreter is doing, it writes to a file
at once, restores the action that was there before, and raises the signal again. Only the default
action is replaced so, and Python's own table of handlers does not know: `signal.getsignal` still
says SIG_DFL, and a handler that the program sets later takes the place of this one.
"""

from __future__ import annotations

import os
import sys

from .._platform import seams

NAME = "SIGTERM"  # the file in a writer's folder; what it holds is where the program was

_descriptor = -1  # that the handler writes to, for the life of the process
_path = ""  # of the file that it is now


def watch(folder: str) -> None:
    """Have a SIGTERM that ends the process said in a writer's folder, as well as in others'."""
    global _descriptor, _path
    if not _ends_the_process():
        return
    path = os.path.join(folder, NAME)
    try:
        os.link(_path, path)  # the runs that are open share one file
    except OSError:  # the first, or those before are delivered
        try:
            descriptor = seams.open_private(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
        except OSError:
            return
        if _descriptor < 0:
            _descriptor = descriptor
        else:
            os.dup2(descriptor, _descriptor, inheritable=False)
            os.close(descriptor)
    _path = path
    _register()


def forked() -> None:
    """In a forked child, which has the handler too: its end is not that of the run."""
    global _path
    _path = ""
    if _descriptor >= 0:
        null = os.open(os.devnull, os.O_WRONLY | os.O_CLOEXEC)
        os.dup2(null, _descriptor, inheritable=False)
        os.close(null)


def _ends_the_process() -> bool:
    """Whether SIGTERM has its default action, as far as Python knows."""
    if sys.platform == "win32":
        return False
    import signal

    return signal.getsignal(signal.SIGTERM) == signal.SIG_DFL


def _register() -> None:
    import faulthandler
    import signal

    if _caught(signal.SIGTERM):
        return  # by the registration of an earlier run, or by a handler that is not Python's
    faulthandler.unregister(signal.SIGTERM)  # one that another handler replaced
    faulthandler.register(signal.SIGTERM, file=_descriptor, all_threads=False, chain=True)


def _caught(number: int) -> bool:
    """Whether the process has a handler, also one that Python does not know."""
    try:
        with open("/proc/self/status", "rb") as file:
            for line in file:
                if line.startswith(b"SigCgt:"):
                    return bool(int(line.split()[1], 16) >> (number - 1) & 1)
    except OSError:
        pass
    return False
