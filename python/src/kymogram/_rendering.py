"""The error of renderings; pickles and tracebacks name it by this module."""

from __future__ import annotations

from ._exceptions import KymogramError


class KymogramRenderingError(KymogramError):
    """A video could not be encoded."""
