"""Reads pairs of lines, a row that was sent and what it reads back as, and says which differ."""

import json
import math
import sys


def same(a, b):
    """Compare values as Python's json module reads them; NaN is itself, and True is not 1."""
    if isinstance(a, bool) or isinstance(b, bool):
        return a is b
    if isinstance(a, (int, float)) and isinstance(b, (int, float)):
        return a == b or (isinstance(a, float) and isinstance(b, float) and math.isnan(a) and math.isnan(b))
    if type(a) is not type(b):
        return False
    if isinstance(a, dict):
        return a.keys() == b.keys() and all(same(a[k], b[k]) for k in a)
    if isinstance(a, list):
        return len(a) == len(b) and all(same(x, y) for x, y in zip(a, b))
    return a == b


for sent in sys.stdin:
    back = next(sys.stdin)
    if not same(json.loads(sent), json.loads(back)):
        print(f"sent {sent}back {back}")
