"""The commit, under the name that programs written for Metrana import."""

from __future__ import annotations

from .. import _attributes, _spool


def get_git_sha() -> str | None:
    """The commit that is checked out where the program runs."""
    return _attributes.commit(_spool.full("."))
