"""Reads questions line by line, as JSON, and answers each with what Python's json module says."""

import json
import struct
import sys


def read(text):
    return json.loads(text, parse_float=float)


def shown(v):
    """One text for each value, whatever order its members have."""
    if v is None:
        return "n"
    if v is True:
        return "t"
    if v is False:
        return "f"
    if isinstance(v, int):
        return f"i{v}"
    if isinstance(v, float):
        return "d" + ("nan" if v != v else struct.pack(">d", v).hex())
    if isinstance(v, str):
        return "s" + v.encode("utf-8", "surrogatepass").hex()
    if isinstance(v, list):
        return "[" + "".join(shown(x) + "," for x in v) + "]"
    return "{" + "".join(sorted(shown(k) + ":" + shown(x) + "," for k, x in v.items())) + "}"


def same(a, b):
    if isinstance(a, bool) or isinstance(b, bool):
        return a is b
    if isinstance(a, list) and isinstance(b, list):
        return len(a) == len(b) and all(map(same, a, b))
    if isinstance(a, dict) and isinstance(b, dict):
        return a.keys() == b.keys() and all(same(a[k], b[k]) for k in a)
    return a == b or (isinstance(a, float) and isinstance(b, float) and a != a and b != b)


def answer(ask):
    try:
        if ask["do"] == "read":
            return shown(read(bytes.fromhex(ask["text"]).decode()))
        if ask["do"] == "same":
            return str(same(read(bytes.fromhex(ask["text"]).decode()), read(bytes.fromhex(ask["other"]).decode())))
        (f,) = struct.unpack(">d", bytes.fromhex(ask["other"]))
        return str(same(float("nan") if f != f else f, read(ask["text"])) and (f != 0 or str(f) == str(float(read(ask["text"])))))
    except (ValueError, RecursionError):
        return "wrong"


for line in sys.stdin:
    print(answer(json.loads(line)))
