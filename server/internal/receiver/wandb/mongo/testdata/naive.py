"""A second reading of doc.go: filters and orders over runs, written without the Go code.

Each line of the input is {"runs": [...], "filter": ...} or {"runs": [...], "order": "..."}; a run maps
fields to values. The answer is the list of the runs that fit, or all of them in order, by their index.
"""

import functools
import json
import re
import sys
from datetime import datetime, timezone

MISSING = object()
COLUMNS = {
    "display_name": "displayName",
    "displayName": "displayName",
    "name": "name",
    "state": "state",
    "group": "group",
    "job_type": "jobType",
    "jobType": "jobType",
    "tags": "tags",
    "created_at": "createdAt",
    "createdAt": "createdAt",
    "heartbeat_at": "heartbeatAt",
    "user": "username",
    "username": "username",
}
TIMES = {"createdAt", "heartbeatAt"}


def follow(v, parts):
    return descend(v, parts, follow) if parts else [v]


def unwrap(v, parts):
    if not isinstance(v, dict) or "value" not in v:
        return follow(v, parts)
    if parts[:1] == ["value"]:
        found = follow(v["value"], parts[1:])
        if found:
            return found
    return follow(v["value"], parts)


def descend(v, parts, go_on):
    if isinstance(v, list):
        if parts[0].isdigit():
            return follow(v[int(parts[0])], parts[1:]) if int(parts[0]) < len(v) else []
        found = []
        for e in v:
            if isinstance(e, dict):
                found += descend(e, parts, follow) or [MISSING]
        return found
    if isinstance(v, dict):
        for n in range(len(parts), 0, -1):
            key = ".".join(parts[:n])
            if key in v:
                found = go_on(v[key], parts[n:])
                if found:
                    return found
    return []


def values(run, path):
    """What a path leads to, and whether it is a time."""
    root, *parts = path.split(".")
    if root == "config":
        tree = run.get("config", {})
        if not parts:
            return ([tree] if "config" in run else []), False
        found = descend(tree, parts, unwrap)
        if not found and len(parts) > 1 and parts[-1] == "value":
            found = descend(tree, parts[:-1], unwrap)
        return found, False
    if root in ("summary_metrics", "summaryMetrics"):
        return follow(run["summaryMetrics"], parts) if "summaryMetrics" in run else [], False
    name = COLUMNS[root]
    return ([run[name]] if name in run else []), name in TIMES


def kind(v):
    for name, types in (("bool", bool), ("number", (int, float)), ("text", str), ("list", list), ("object", dict)):
        if isinstance(v, types):
            return name
    return "null"


def same(a, b):
    if kind(a) != kind(b):
        return False
    if isinstance(a, list):
        return len(a) == len(b) and all(map(same, a, b))
    if isinstance(a, dict):
        return a.keys() == b.keys() and all(same(a[k], b[k]) for k in a)
    return a == b or (a != a and b != b)


def when(v):
    if not isinstance(v, str) or len(v) < 10:
        return None
    try:
        t = datetime.fromisoformat(v.replace("Z", "+00:00"))
    except ValueError:
        return None
    return t if t.tzinfo else t.replace(tzinfo=timezone.utc)


def spread(found):
    """The values, and the elements of those that are lists."""
    for v in found:
        if v is not MISSING:
            yield v
            if isinstance(v, list):
                yield from v


def equals(found, want, timed):
    if want is None and (not found or any(v is MISSING for v in found)):
        return True
    if timed and when(want):
        return any(when(v) == when(want) for v in spread(found) if when(v))
    return any(same(v, want) for v in spread(found))


def compares(found, name, want, timed):
    if want is None:
        return name in ("$gte", "$lte") and equals(found, None, False)
    for v in spread(found):
        if kind(v) != kind(want) or v != v or want != want:
            continue
        a, b = (when(v), when(want)) if timed and when(v) and when(want) else (v, want)
        if isinstance(a, str):
            a, b = a.encode(), b.encode()
        if {"$gt": a > b, "$gte": a >= b, "$lt": a < b, "$lte": a <= b}[name]:
            return True
    return False


def texts(found):
    for v in found:
        if v is MISSING:
            continue
        yield v if isinstance(v, str) else json.dumps(v, ensure_ascii=False)
        if isinstance(v, list):
            yield from (e for e in v if isinstance(e, str))


def test(found, timed, name, want, flags):
    if name == "$eq":
        return equals(found, want, timed)
    if name == "$ne":
        return not equals(found, want, timed)
    if name == "$in":
        return any(equals(found, w, timed) for w in want)
    if name == "$nin":
        return not any(equals(found, w, timed) for w in want)
    if name == "$all":
        return bool(want) and all(equals(found, w, timed) for w in want)
    if name in ("$gt", "$gte", "$lt", "$lte"):
        return compares(found, name, want, timed)
    if name == "$exists":
        return any(v is not MISSING for v in found) == bool(want)
    if name == "$size":
        return any(isinstance(v, list) and len(v) == want for v in found)
    if name == "$contains":
        return any(want in t for t in texts(found))
    if name == "$regex":
        return any(re.search(want, t, flags) for t in texts(found))
    if name == "$not":
        return not tests(found, timed, want)
    if name == "$and":
        return all(tests(found, timed, w) for w in want)
    if name == "$or":
        return any(tests(found, timed, w) for w in want)
    if name == "$nor":
        return not any(tests(found, timed, w) for w in want)
    raise KeyError(name)


def tests(found, timed, want):
    if not isinstance(want, dict) or not any(k.startswith("$") for k in want):
        return equals(found, want, timed)
    flags = 0
    for c in want.get("$options", ""):
        flags |= {"i": re.I, "m": re.M, "s": re.S}[c]
    return all(test(found, timed, k, w, flags) for k, w in want.items() if k != "$options")


def fits(run, want):
    for name, w in want.items():
        if name == "$and":
            ok = all(fits(run, x) for x in w)
        elif name == "$or":
            ok = any(fits(run, x) for x in w)
        elif name == "$nor":
            ok = not any(fits(run, x) for x in w)
        elif name == "$not":
            ok = not fits(run, w)
        else:
            ok = tests(*values(run, name), w)
        if not ok:
            return False
    return True


def place(found, timed):
    """(unranked, rank, value) of what a path leads to first."""
    if not found or found[0] is MISSING:
        return 3, 0, 0
    v = found[0]
    if v is None:
        return 2, 0, 0
    if v != v:
        return 1, 0, 0
    if timed and when(v):
        return 0, 1, when(v)
    if isinstance(v, (list, dict)):
        v_text = json.dumps(v, ensure_ascii=False, separators=(",", ":")).encode()
        return 0, 4 if isinstance(v, list) else 3, v_text
    if isinstance(v, str):
        return 0, 2, v.encode()
    return 0, {"number": 0, "bool": 5}[kind(v)], v


def ordered(runs, order):
    def compare(i, j):
        for name in order.split(","):
            a, b = (place(*values(runs[n], name.lstrip("+-"))) for n in (i, j))
            if a == b:
                continue
            c = -1 if a < b else 1
            return -c if name[0] == "-" and a[0] == 0 and b[0] == 0 else c
        return i - j

    return sorted(range(len(runs)), key=functools.cmp_to_key(compare))


for line in sys.stdin:
    ask = json.loads(line)
    if "order" in ask:
        print(json.dumps(ordered(ask["runs"], ask["order"])))
    else:
        print(json.dumps([i for i, run in enumerate(ask["runs"]) if fits(run, ask["filter"])]))
