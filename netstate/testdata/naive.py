"""get_stats_allocated as its specification's words say it, without any thought of speed.

One case a line: {"own_score_only", "weights", "payloads": [JSON text of a config section, …]}, in the
order of the votes; out comes {uid: [gpu_name, num_gpus, score, hotkey, reliability, created_at,
allocated]}.
"""

import json
import math
import sys


UIDS = frozenset(map(str, range(65536)))


def refuse(word):
    raise ValueError(word)


def stats_of(text):
    try:
        found = json.loads(text, parse_constant=refuse).get("stats")
    except (ValueError, AttributeError, RecursionError):
        return {}
    return found if isinstance(found, dict) else {}


def number(value):
    if type(value) not in (int, float):
        return None
    try:
        value = float(value)
    except OverflowError:
        return None
    return value if math.isfinite(value) else None


WRONG = object()


def whole(value):
    """An integer, also one written as a float."""
    value = number(value)
    return int(value) if value is not None and value.is_integer() else None


def specs_of(one):
    specs = one.get("gpu_specs")
    if specs is None or specs == {}:
        return None
    if not isinstance(specs, dict):
        return WRONG
    name, count = specs.get("gpu_name"), whole(specs.get("num_gpus"))
    if not isinstance(name, str) or not 1 <= len(name.encode()) <= 128 or count is None or not 0 <= count <= 65535:
        return WRONG
    return (name, count)


def report_of(key, one, addresses):
    """An entry in the right form, else None."""
    if not isinstance(one, dict) or key not in UIDS:
        return None
    if one.get("uid") is not None and whole(one["uid"]) != int(key):
        return None
    score, specs, reliability = number(one.get("score")), specs_of(one), one.get("reliability_score")
    if score is None or not 0 <= score <= 100.000001 or specs is WRONG or one.get("hotkey") not in addresses:
        return None
    if reliability is not None and number(reliability) is None:
        return None
    if any(one.get(mark) not in (None, True, False) or isinstance(one.get(mark), (int, float)) and type(one[mark]) is not bool
           for mark in ("own_score", "allocated")):
        return None
    created = one.get("created_at")
    if created is not None and not (isinstance(created, str) and len(created.encode()) <= 64):
        return None
    return {
        "said": (specs, score, one["hotkey"]), "own": bool(one.get("own_score")), "allocated": bool(one.get("allocated")),
        "reliability": number(reliability) or 0.0, "created": created or "",
    }


def reports_of(case):
    """Everything that anybody says and that counts, as (uid, weight, report)."""
    addresses = set(case["addresses"])
    for text, weight in zip(case["payloads"], case["weights"]):
        for key, one in stats_of(text).items():
            found = report_of(key, one, addresses)
            if weight and found and found["said"][1] != 0 and found["own"] and (found["allocated"] or case["own_score_only"]):
                yield int(key), weight, found


def halves(values):
    """The lowest and the highest value that no more than half of the weight is above or below."""
    total = sum(weight for weight, _ in values)
    fair = [
        value for _, value in values
        if sum(w for w, v in values if v < value) <= total / 2 and sum(w for w, v in values if v > value) <= total / 2
    ]
    return min(fair), max(fair)


def winners(case):
    everything = list(reports_of(case))
    out = {}
    for uid in {report[0] for report in everything}:
        said = [(weight, report) for at, weight, report in everything if at == uid]

        def votes(claim):
            return sum(weight for weight, report in said if report["said"] == claim)

        most = max(votes(report["said"]) for _, report in said)
        best = [report["said"] for _, report in said if votes(report["said"]) == most]
        top = max(claim[1] for claim in best)
        claim = next(claim for claim in best if claim[1] == top)
        carriers = [(weight, report) for weight, report in said if report["said"] == claim]

        def values(name):
            return [(weight, report[name]) for weight, report in carriers]

        low, high = halves(values("reliability"))
        reliability = 0.0 if low <= 0 <= high else min(low, high, key=abs)
        allocated = halves(values("allocated"))[0]
        dated = [one for one in values("created") if one[1]]
        specs, score, hotkey = claim
        name, count = specs or (None, None)
        out[uid] = [name, count, score, hotkey, reliability, halves(dated)[0] if dated else "", allocated]
    return out


for line in sys.stdin:
    print(json.dumps(winners(json.loads(line)), sort_keys=True), flush=True)
