"""What differs between operating systems; docs/platforms.md has the table."""

import sys

if sys.platform == "win32":
    from .windows import (
        PROGRAM,
        RENAMES_OPEN_FOLDERS,
        become,
        detached,
        duplicate,
        free,
        host,
        like_terminal,
        lock,
        open_private,
        pread,
        pwrite,
        readable,
        reserve,
        user,
        warm,
        writable,
    )
else:
    from .posix import (
        PROGRAM,
        RENAMES_OPEN_FOLDERS,
        become,
        detached,
        duplicate,
        free,
        host,
        like_terminal,
        lock,
        open_private,
        pread,
        pwrite,
        readable,
        reserve,
        user,
        warm,
        writable,
    )

__all__ = [
    "PROGRAM",
    "RENAMES_OPEN_FOLDERS",
    "become",
    "detached",
    "duplicate",
    "free",
    "host",
    "like_terminal",
    "lock",
    "open_private",
    "pread",
    "pwrite",
    "readable",
    "reserve",
    "user",
    "warm",
    "writable",
]
