"""Windows: reserve, lock, delete, detach. Built and type-checked, never run: docs/platforms.md."""

from __future__ import annotations

import os
import sys

assert sys.platform == "win32"

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, NoReturn

PROGRAM = "kymogram.exe"
# An open file cannot be deleted, nor its folder renamed.
RENAMES_OPEN_FOLDERS = False

_EXCLUSIVE, _AT_ONCE = 2, 1
_LOCKED = (33, 997)


def user() -> int | None:
    """The number of this user; None where files have no owner's number."""
    return None


def host() -> str:
    """The name of this machine."""
    import socket

    return socket.gethostname()


def open_private(path: str, flags: int) -> int:
    """Open a file; the user's profile folder is private already."""
    return os.open(path, flags | os.O_BINARY | os.O_NOINHERIT, 0o600)


def pread(descriptor: int, size: int, offset: int) -> bytes:
    """Read at a place; only one thread at a time does."""
    os.lseek(descriptor, offset, os.SEEK_SET)
    return os.read(descriptor, size)


def pwrite(descriptor: int, data: bytes | bytearray | memoryview, offset: int) -> int:
    """Write at a place; only one thread at a time does."""
    os.lseek(descriptor, offset, os.SEEK_SET)
    return os.write(descriptor, data)


def reserve(descriptor: int, size: int) -> None:
    """Take the space now, so that a full disk is an error and never an exception in a map."""
    zeros = bytes(1 << 16)
    for offset in range(0, size, len(zeros)):
        pwrite(descriptor, zeros[: size - offset], offset)


def warm(descriptor: int, size: int) -> None:
    """Nothing to do: what reserve did holds the pages, as far as is known."""


def free(folder: str) -> int:
    """Bytes that this user may still write there."""
    import shutil

    return shutil.disk_usage(folder).free


def lock(descriptor: int, *, shared: bool) -> bool:
    """Lock an open file at once; False when another holds it.

    One byte far behind any content is locked, the same as in Go: Windows keeps
    others from reading locked bytes.
    """
    import ctypes
    import msvcrt
    from ctypes import wintypes

    class Overlapped(ctypes.Structure):
        _fields_ = (
            ("internal", ctypes.c_void_p),
            ("internal_high", ctypes.c_void_p),
            ("offset", wintypes.DWORD),
            ("offset_high", wintypes.DWORD),
            ("event", wintypes.HANDLE),
        )

    kernel = ctypes.WinDLL("kernel32", use_last_error=True)
    at = Overlapped(offset_high=0x7FFFFFFF)
    handle = wintypes.HANDLE(msvcrt.get_osfhandle(descriptor))
    flags = _AT_ONCE if shared else _AT_ONCE | _EXCLUSIVE
    if kernel.LockFileEx(handle, flags, 0, 1, 0, ctypes.byref(at)):
        return True
    code = ctypes.get_last_error()
    if code in _LOCKED:
        return False
    raise ctypes.WinError(code)


def detached(command: list[str]) -> tuple[list[str], dict[str, Any], bool]:
    """A command that outlives this process, how to start it, whether its starter ends at once."""
    import subprocess

    flags = subprocess.DETACHED_PROCESS | subprocess.CREATE_NEW_PROCESS_GROUP
    return command, {"cwd": os.environ.get("SYSTEMROOT", "C:\\"), "creationflags": flags}, False


def duplicate(descriptor: int) -> int:
    """Another descriptor of the same."""
    return os.dup(descriptor)


def like_terminal(descriptor: int) -> tuple[int, int]:
    """There are no pseudo-terminals by number here."""
    raise OSError("the console cannot be kept on Windows")


def readable(descriptor: int, seconds: float) -> bool:
    """As far as is known."""
    return True


def writable(descriptor: int, seconds: float) -> bool:
    """As far as is known."""
    return True


def become(path: str, arguments: list[str]) -> NoReturn:
    """Go on as another program: run it and end as it does."""
    import subprocess

    sys.exit(subprocess.call([path, *arguments]))
