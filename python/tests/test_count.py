"""Counting by strides against counting one by one."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from kymogram._spool import records as _records
from kymogram._spool.count import count
from kymogram._spool.records import constant

records = st.one_of(
    st.tuples(st.just("point"), st.integers(1, 400), st.just(0)),
    st.tuples(st.just("update"), st.integers(1, 40), st.integers(0, 60)),
    st.tuples(st.just("block"), st.integers(1, 60), st.integers(1, 4)),
    st.tuples(st.just("rl"), st.integers(1, 60), st.integers(1, 4)),
)


@settings(deadline=None)
@given(st.lists(records, max_size=12), st.booleans())
def test_count(script: list[tuple[str, int, int]], sealed: bool) -> None:
    data, total, floats, rl = [], 0, 0, 0
    for kind, times, size in script:
        if kind == "point":
            payload = _records.pack_point(2, 1, 1, 0, 3) + bytes(24)
            floats += times
        elif kind == "update":
            payload = _records.update(b"[" + b" " * size + b"]")
        else:
            axes = [(1, constant(2))] + ([(2, constant(3))] if kind == "rl" else [])
            ids = list(range(size))
            ((_, payload, points),) = _records.block(1, 1, ids, constant(0), axes, bytes(8 * size))
            floats += times * points if kind == "block" else 0
            rl += times * points if kind == "rl" else 0
        data += [_records.record(payload)] * times
        total += times
    region = b"".join(data) + (_records.seal(64) if sealed else bytes(64))
    found = count(memoryview(region))
    assert (found.records, found.floats, found.rl) == (total, floats, rl)
