"""The vote: which of several validators' reports about one miner counts."""

from __future__ import annotations

import statistics
from collections.abc import Iterable, Mapping
from typing import Any


def pick_dominant_dict(reports: Iterable[Mapping[str, Any]]) -> dict[str, Any] | None:
    """Choose among reports about one miner.

    Those with score 0 do not count. Of the others the most frequent (hotkey, GPU, number of GPUs,
    score) wins, then the highest score, then the first. A report without gpu_specs takes part.

    Returns:
        What the winners say, with own_score set; None when none is left. reliability_score,
        created_at and allocated are of all of them together: the median, and of two halves that
        differ the number nearest to 0, the earlier time, and not allocated.

    """
    carriers: dict[tuple[Any, Any, Any, float], list[Mapping[str, Any]]] = {}
    for report in reports:
        if report["score"] == 0:
            continue
        specs = report.get("gpu_specs") or {}
        gpu, count = specs.get("gpu_name"), specs.get("num_gpus")
        claim = (report.get("hotkey"), gpu, count, float(report["score"]))
        carriers.setdefault(claim, []).append(report)
    if not carriers:
        return None
    best = max(carriers, key=lambda claim: (len(carriers[claim]), claim[3]))  # of equals the first

    winner = dict(carriers[best][0]) | _together(carriers[best])
    winner["own_score"] = True
    if "uid" in winner:
        winner["uid"] = int(winner["uid"])
    return winner


def _together(reports: list[Mapping[str, Any]]) -> dict[str, Any]:
    """What nobody votes on: none of the carriers alone chooses it."""
    together: dict[str, Any] = {}
    numbers = [float(report.get("reliability_score") or 0) for report in reports]
    if any(numbers):
        low, high = statistics.median_low(numbers), statistics.median_high(numbers)
        together["reliability_score"] = min(max(0.0, low), high)
    times = [report["created_at"] for report in reports if report.get("created_at")]
    if times:
        together["created_at"] = statistics.median_low(times)
    marks = [bool(report.get("allocated")) for report in reports]
    if any(marks):
        together["allocated"] = statistics.median_low(marks)
    return together
