"""Values with a shape of their own, under the name that programs written for Metrana import."""

from .histogram import Histogram

__all__ = ["Histogram"]
