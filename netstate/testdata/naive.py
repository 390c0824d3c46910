"""get_stats_allocated as its specification's words say it, without any thought of speed.

One case a line: {"own_score_only", "weights", "payloads": [JSON text of a config section, …]}, in the
order of the votes; out comes {uid: [gpu_name, num_gpus, score, hotkey]}.
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


def specs_of(one):
    specs = one.get("gpu_specs")
    if not isinstance(specs, dict):
        return None
    name, count = specs.get("gpu_name"), specs.get("num_gpus")
    if not isinstance(name, str) or type(count) is not int or abs(count) >= 1 << 63:
        return None
    return (name, count)


def reports_of(case):
    """Everything that anybody says, as (uid, weight, specs, score, hotkey)."""
    for text, weight in zip(case["payloads"], case["weights"]):
        for key, one in stats_of(text).items():
            if not isinstance(one, dict) or key not in UIDS:
                continue
            score = number(one.get("score"))
            own, allocated = one.get("own_score") is True, one.get("allocated") is True
            if score is not None and score != 0 and own and (allocated or case["own_score_only"]):
                hotkey = one.get("hotkey")
                hotkey = hotkey if isinstance(hotkey, str) else ""
                yield int(key), weight, specs_of(one), score, hotkey


def winners(case):
    everything = list(reports_of(case))
    out = {}
    for uid in {report[0] for report in everything}:
        said = [report for report in everything if report[0] == uid]

        def votes(report):
            return sum(other[1] for other in said if other[2:] == report[2:])

        most = max(votes(report) for report in said)
        best = [report for report in said if votes(report) == most]
        top = max(report[3] for report in best)
        _, _, specs, score, hotkey = next(report for report in best if report[3] == top)
        name, count = specs or (None, None)
        out[uid] = [name, count, score, hotkey]
    return out


for line in sys.stdin:
    print(json.dumps(winners(json.loads(line)), sort_keys=True), flush=True)
