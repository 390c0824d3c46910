"""Linux and macOS: reserve, lock, delete, detach."""

from __future__ import annotations

import os
import sys

assert sys.platform != "win32"

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, NoReturn

PROGRAM = "kymogram"
# Of zeros at once. Larger pieces make larger folios, which take long where a
# hypervisor has to find the memory for them first.
_PIECE = 64 << 10
# A folder can be renamed while files in it are open, and open files deleted.
RENAMES_OPEN_FOLDERS = True

pread = os.pread
pwrite = os.pwrite


def user() -> int | None:
    """The number of this user; None where files have no owner's number."""
    return os.geteuid()


def host() -> str:
    """The name of this machine."""
    return os.uname().nodename


def open_private(path: str, flags: int) -> int:
    """Open a file that is this user's alone; a link is refused."""
    return os.open(path, flags | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)


def reserve(descriptor: int, size: int) -> None:
    """Take the space now, so that a full disk is an error and never a signal."""
    if sys.platform != "darwin":
        os.posix_fallocate(descriptor, 0, size)
        return
    _write_zeros(descriptor, size)


def warm(descriptor: int, size: int) -> None:
    """Bring the pages of a new file into memory: zeros are written.

    A page that is only reserved costs its first write through a map microseconds;
    one that was written before costs a tenth of that.
    """
    if sys.platform != "darwin":  # there reserve wrote them
        _write_zeros(descriptor, size)


def _write_zeros(descriptor: int, size: int) -> None:
    zeros = bytes(_PIECE)
    for offset in range(0, size, _PIECE):
        os.pwrite(descriptor, zeros[: size - offset], offset)


def free(folder: str) -> int:
    """Bytes that this user may still write there."""
    info = os.statvfs(folder)
    return info.f_bavail * info.f_frsize


def lock(descriptor: int, *, shared: bool) -> bool:
    """Lock an open file at once; False when another holds it."""
    import fcntl

    try:
        fcntl.flock(descriptor, fcntl.LOCK_NB | (fcntl.LOCK_SH if shared else fcntl.LOCK_EX))
    except OSError:
        return False
    return True


def detached(command: list[str]) -> tuple[list[str], dict[str, Any], bool]:
    """A command that outlives this process, how to start it, and whether its starter ends at once.

    The shell in between ends at once: the agent is nobody's child here, so it
    is no zombie and no surprise to os.wait().
    """
    how: dict[str, Any] = {"cwd": "/", "start_new_session": True}
    if os.path.exists("/bin/sh"):
        return ["/bin/sh", "-c", '"$0" "$@" &', *command], how, True
    return command, how, False


def duplicate(descriptor: int) -> int:
    """Another descriptor of the same, above those that programs count on."""
    import fcntl

    return fcntl.fcntl(descriptor, fcntl.F_DUPFD_CLOEXEC, 10)


def like_terminal(descriptor: int) -> tuple[int, int]:
    """Both ends of a pseudo-terminal with a terminal's settings and size.

    It passes bytes on as they are: what the terminal does to them, it still does.
    """
    import fcntl
    import termios

    ours, theirs = os.openpty()
    settings = termios.tcgetattr(descriptor)
    settings[1] &= ~termios.OPOST
    settings[3] &= ~termios.ECHO
    termios.tcsetattr(theirs, termios.TCSANOW, settings)
    size = fcntl.ioctl(descriptor, termios.TIOCGWINSZ, bytes(8))
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, size)
    return ours, theirs


def readable(descriptor: int, seconds: float) -> bool:
    """Whether something can be read within a time."""
    import select

    return _comes(descriptor, seconds, select.POLLIN)


def writable(descriptor: int, seconds: float) -> bool:
    """Whether something can be written within a time."""
    import select

    return _comes(descriptor, seconds, select.POLLOUT)


def _comes(descriptor: int, seconds: float, event: int) -> bool:
    import select

    poll = select.poll()
    poll.register(descriptor, event)
    return bool(poll.poll(seconds * 1000))


def become(path: str, arguments: list[str]) -> NoReturn:
    """Go on as another program."""
    os.execv(path, [path, *arguments])
