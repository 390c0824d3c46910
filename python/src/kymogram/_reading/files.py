"""Files of runs: what a server lists, and its bytes in a folder."""

from __future__ import annotations

import hashlib
import os
import tempfile
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, BinaryIO
from urllib import parse

from .frames import QueryError

_CHUNK = 1 << 20

# Hands the bytes of an answer to a function, as a file that is read.
Fetch = Callable[[str, Callable[[Any], Any]], Any]


@dataclass(frozen=True)
class File:
    """A file of a run, as the server knew it when it was listed."""

    name: str
    """A relative path with slashes."""
    size: int
    """In bytes."""
    content_type: str
    sha256: str
    """In hexadecimal."""
    md5: str
    """In base64, or empty."""
    changed_ns: int
    _path: str = field(repr=False, compare=False)
    _fetch: Fetch = field(repr=False, compare=False)

    def read(self) -> bytes:
        """Its bytes."""
        return bytes(self._fetch(self._path, lambda answer: answer.read()))

    def download(self, folder: str | os.PathLike[str] = ".") -> Path:
        """Write it under its name into a folder, and return where it is.

        The bytes are compared with their SHA-256. A file that is there with the same
        bytes is not fetched again; one with others is never overwritten. Nothing is
        written outside the folder.
        """
        target = _inside(Path(folder), self.name)
        if target.exists():
            with target.open("rb") as there:
                if _digest(there) == self.sha256:
                    return target
            raise QueryError(f"{target} is there with other bytes", "conflict")
        target.parent.mkdir(parents=True, exist_ok=True)
        number, temporary = tempfile.mkstemp(prefix=".kymogram-", dir=target.parent)
        try:
            with os.fdopen(number, "wb") as to:
                found = self._fetch(self._path, lambda answer: _digest(answer, to))
            if found != self.sha256:
                text = f"{self.name} was changed meanwhile, or cut on its way. List the files again"
                raise QueryError(text, "unavailable")
            os.chmod(temporary, 0o644)
            os.replace(temporary, target)
        finally:
            Path(temporary).unlink(missing_ok=True)
        return target


def of_run(run: str, document: dict[str, Any], fetch: Fetch) -> File:
    """A file of a list."""
    path = f"/api/v1/runs/{run}/files/{parse.quote(document['name'])}"
    name, size, kind = document["name"], document["size"], document["content_type"]
    return File(
        name, size, kind, document["sha256"], document["md5"], document["changed_ns"], path, fetch
    )


def _inside(folder: Path, name: str) -> Path:
    """Where a file is in a folder, also where that has links."""
    parts = name.split("/")
    odd = any(part in ("", ".", "..") or "\\" in part or "\0" in part for part in parts)
    if odd or (os.name == "nt" and ":" in name):
        raise QueryError(f"this system cannot have a file named {name!r}", "invalid_argument")
    target = folder.joinpath(*parts)
    if folder.resolve() not in target.resolve().parents:
        raise QueryError(f"{target} leads out of {folder}", "invalid_argument")
    return target


def _digest(data: Any, to: BinaryIO | None = None) -> str:
    """The SHA-256 of what a file yields, which is written to another."""
    found = hashlib.sha256()
    while chunk := data.read(_CHUNK):
        found.update(chunk)
        if to is not None:
            _write(to, chunk)
    return found.hexdigest()


def _write(to: BinaryIO, chunk: bytes) -> None:
    """Write, so that a full disk is not taken for a server that does not answer."""
    try:
        to.write(chunk)
    except OSError as trouble:
        raise QueryError(f"cannot write the file: {trouble}", "disk_full") from trouble
