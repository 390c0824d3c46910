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
        Of the winners the report in the middle by reliability_score, with own_score set, None when
        none is left.

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

    def reliability(report: Mapping[str, Any]) -> float:
        return float(report.get("reliability_score") or 0)

    middle = statistics.median_low(map(reliability, carriers[best]))
    winner = dict(next(report for report in carriers[best] if reliability(report) == middle))
    winner["own_score"] = True
    if "uid" in winner:
        winner["uid"] = int(winner["uid"])
    return winner
