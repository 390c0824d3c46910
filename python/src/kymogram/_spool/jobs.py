"""The index of writers by run and by job (docs/format/spool.md, jobs/).

An init asks for the writers of its own work, and looks at no other of the thousands
that may wait. A writer is named before its folder is there and forgotten after it is
gone: a name without a folder costs a look, a folder without a name is overlooked.
"""

from __future__ import annotations

import os
import stat
import time
from zlib import crc32

from .._platform import seams
from . import folders

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

_WHOLE = "whole"  # says that the writers of programs before the index are in it
_MOST = 1024  # names in one folder before the oldest of ended writers are taken out
_AGE_S = 3600.0  # a younger name's writer may still be made
_MAX_ENDED = 64
_PLACE = ("workspace", "project")
_WORK = ("run_name", "orchestration_id")


def folder(workspace: str, project: str, name: str) -> str:
    """The folder of jobs/ that lists the writers of a run or job."""
    return f"{crc32(chr(0).join((workspace, project, name)).encode()):08x}"


def add(root: str, opened: dict[str, Any]) -> None:
    """Name a writer. It is right to do so again."""
    for path in _lists(root, opened):
        _touch(path, _name(opened))


def remove(root: str, opened: dict[str, Any]) -> None:
    """Forget a writer; what stays costs only a look."""
    for path in _lists(root, opened):
        try:
            os.unlink(os.path.join(path, _name(opened)))
            os.rmdir(path)  # unless it lists others
        except OSError:
            pass


def ended(roots: list[str], request: dict[str, Any]) -> list[str]:
    """Writers of the spool that are of this run or job and whose processes are over, newest first.

    What cannot be read is passed over: a new run begins all the same.
    """
    over: list[str] = []
    root = next((one for one in roots if os.path.isdir(os.path.join(one, "writers"))), None)
    for name in _listed(root, request) if root else ():
        writer = name.partition("-")[2]
        path = os.path.join(root or "", "writers", writer)
        if folders.is_over(path) and _same_work(_opened(path), request):
            over.append(writer)
            if len(over) == _MAX_ENDED:
                break
    return over


def _same_work(a: dict[str, Any], b: dict[str, Any]) -> bool:
    if any(a.get(key) != b.get(key) for key in _PLACE):
        return False
    return any(a.get(key) == b.get(key) for key in _WORK)


def _opened(path: str) -> dict[str, Any]:
    found = folders.read_json(os.path.join(path, "open.json")).get("open")
    return found if isinstance(found, dict) else {}


def _listed(root: str, request: dict[str, Any]) -> list[str]:
    """The names of the writers of a run or job, newest first."""
    try:
        _index(root)
    except OSError:
        pass  # the next one tries again
    names: set[str] = set()
    for path in _lists(root, request):
        found = _names(path)
        names.update(found)
        if len(found) > _MOST:
            _thin(root, path, found[_MOST // 2 :])
    return sorted(names, reverse=True)


def _lists(root: str, opened: dict[str, Any]) -> set[str]:
    """The folders that name a writer of this open."""
    workspace, project = (str(opened.get(key) or "") for key in _PLACE)
    names = (folder(workspace, project, str(opened.get(key) or "")) for key in _WORK)
    return {os.path.join(root, "jobs", name) for name in names}


def _name(opened: dict[str, Any]) -> str:
    """What sorts by time, and ends in the writer's id."""
    return f"{int(opened.get('opened_ns') or 0):016x}-{opened.get('writer')}"


def _names(path: str) -> list[str]:
    """What a folder of the index names, newest first; nothing where it is absent."""
    try:
        return sorted(os.listdir(path), reverse=True)
    except OSError:
        return []


def _touch(path: str, name: str) -> None:
    """Make an empty file, and its folder as often as another removes it."""
    while True:
        try:
            os.makedirs(path, 0o700, exist_ok=True)
            os.close(seams.open_private(os.path.join(path, name), os.O_WRONLY | os.O_CREAT))
            return
        except FileNotFoundError:
            continue
        except FileExistsError:
            # It was there when it was to be made, and gone when makedirs looked for it. One look
            # tells: with two, it may come and go in between.
            try:
                found = os.lstat(path)
            except FileNotFoundError:
                continue
            if not stat.S_ISDIR(found.st_mode) and not os.path.isdir(path):
                raise


def _index(root: str) -> None:
    """List the writers that were here before there was an index."""
    index = os.path.join(root, "jobs")
    if os.path.exists(os.path.join(index, _WHOLE)):
        return
    for name in os.listdir(os.path.join(root, "writers")):
        opened = _opened(os.path.join(root, "writers", name))
        if not name.startswith(".") and opened.get("writer") == name:
            add(root, opened)
    _touch(index, _WHOLE)


def _thin(root: str, path: str, names: list[str]) -> None:
    """Take out writers that are over: an open names the newest only."""
    for name in names:
        writer = os.path.join(root, "writers", name.partition("-")[2])
        file = os.path.join(path, name)
        try:
            old = time.time() - os.stat(file).st_mtime >= _AGE_S
            if folders.is_over(writer) or (old and not os.path.exists(writer)):
                os.unlink(file)
        except OSError:
            pass  # another has
