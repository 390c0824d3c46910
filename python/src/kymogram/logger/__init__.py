"""The functions, under the names that programs written for Metrana import."""

from . import api

__all__ = ["api"]
