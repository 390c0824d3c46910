"""The commit, under the name that programs written for Metrana import."""

from __future__ import annotations

from .._input import attributes
from .._spool import folders


def get_git_sha() -> str | None:
    """The commit that is checked out where the program runs."""
    return attributes.commit(folders.full("."))
