"""What differs between operating systems; docs/platforms.md has the table."""

import sys

if sys.platform == "win32":
    from .windows import (
        PROGRAM,
        RENAMES_OPEN_FOLDERS,
        become,
        detached,
        free,
        host,
        lock,
        open_private,
        pread,
        pwrite,
        reserve,
        user,
        warm,
    )
else:
    from .posix import (
        PROGRAM,
        RENAMES_OPEN_FOLDERS,
        become,
        detached,
        free,
        host,
        lock,
        open_private,
        pread,
        pwrite,
        reserve,
        user,
        warm,
    )

__all__ = [
    "PROGRAM",
    "RENAMES_OPEN_FOLDERS",
    "become",
    "detached",
    "free",
    "host",
    "lock",
    "open_private",
    "pread",
    "pwrite",
    "reserve",
    "user",
    "warm",
]
