"""The vote: which of several validators' reports about one miner counts."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any


def pick_dominant_dict(reports: Iterable[Mapping[str, Any]]) -> dict[str, Any] | None:
    """Choose among reports about one miner.

    Those with score 0 do not count. Of the others the most frequent (GPU, number of GPUs, score)
    wins, then the highest score, then the first. A report without gpu_specs takes part.

    Returns:
        The first report of the winners with own_score set, None when none is left.

    """
    votes: dict[tuple[Any, Any, float], int] = {}
    first: dict[tuple[Any, Any, float], Mapping[str, Any]] = {}
    for report in reports:
        if report["score"] == 0:
            continue
        specs = report.get("gpu_specs") or {}
        claim = (specs.get("gpu_name"), specs.get("num_gpus"), float(report["score"]))
        votes[claim] = votes.get(claim, 0) + 1
        first.setdefault(claim, report)
    if not votes:
        return None
    best = max(votes, key=lambda claim: (votes[claim], claim[2]))  # of equals the first
    winner = dict(first[best])
    winner["own_score"] = True
    if "uid" in winner:
        winner["uid"] = int(winner["uid"])
    return winner
