"""Histogram, under the name that programs written for Metrana import."""

from .._documents import Histogram

__all__ = ["Histogram"]
