"""The job's identifier, under the names that programs written for Metrana import."""

from __future__ import annotations

import os
from typing import NamedTuple

from .._host import environment

EXPLICIT_SOURCE = "explicit"
GENERATED_SOURCE = "generated"

__all__ = [
    "EXPLICIT_SOURCE",
    "GENERATED_SOURCE",
    "OrchestrationIdResolution",
    "propagate_orchestration_id",
    "resolve_orchestration_id",
]


class OrchestrationIdResolution(NamedTuple):
    """The identifier, and the argument, variable or "generated" that it came from."""

    value: str
    source: str


def resolve_orchestration_id(explicit: str | None = None) -> OrchestrationIdResolution:
    """Find the identifier as init() does, without publishing it."""
    if explicit and explicit.strip():
        return OrchestrationIdResolution(explicit.strip(), EXPLICIT_SOURCE)
    for name in environment.JOBS:
        found = environment.first((name,))
        if found is not None:
            return OrchestrationIdResolution(found, name)
    return OrchestrationIdResolution(os.urandom(16).hex(), GENERATED_SOURCE)


def propagate_orchestration_id(value: str) -> None:
    """Hand the identifier to child processes."""
    environment.publish_orchestration_id(value)
