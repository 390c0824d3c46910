"""The golden records of testdata/spool: read Go's, write the same with the package's encoder.

`pytest python/tests/test_golden.py --update` writes testdata/spool/python.seg.
"""

from __future__ import annotations

import json
import struct
from pathlib import Path
from typing import Any
from zlib import crc32

import pytest

from kymogram._points import series as _series
from kymogram._spool import records as _records
from kymogram._spool.records import Column
from kymogram._spool.segment import Segment

from . import reader
from .conftest import REPOSITORY

GOLDEN = REPOSITORY / "testdata" / "spool"


@pytest.fixture(scope="module")
def golden() -> dict[str, Any]:
    found: dict[str, Any] = json.loads((GOLDEN / "golden.json").read_text())
    return found


def columns(one: dict[str, Any]) -> Column:
    values = one["values"]
    return Column(one["mode"], struct.pack(f"<{len(values)}q", *values))


def bits(text: str) -> bytes:
    return int(text, 16).to_bytes(8, "little")


def stored(one: dict[str, Any]) -> bytes:
    """The values of a golden block as they lie in the spool."""
    wide, narrow = ("d", "f") if one["kind"] == 1 else ("q", "i")
    found = [bits(text) for text in one["values"]]
    if one.get("narrow"):
        found = [struct.pack("<" + narrow, *struct.unpack("<" + wide, value)) for value in found]
    return b"".join(found)


def encode(one: dict[str, Any]) -> bytes:
    """A golden record's payload, by the package's encoder."""
    kind, flags, step = one.get("kind", 0), one.get("flags", 0), one.get("step", 0)
    if one["type"] == 1:
        key = _series.key_json(one["metric"], one["scale"], one.get("labels", {}))
        return _records.series(kind, one["series"], key)
    if one["type"] in (2, 5):
        data = bits(one["bits"]) if one["type"] == 2 else bytes.fromhex(one["payload"])[24:]
        if kind == 3:
            data = one["text"].encode()
        first = _records.pack_point(one["type"], kind, flags, 0, one["series"])
        return first + struct.pack("<qq", step, one["time_ns"]) + data
    if one["type"] == 3:
        axes = [(axis["axis"], columns(axis)) for axis in one.get("axes", [])]
        width = 4 if one.get("narrow") else 8
        ((_, payload, points),) = _records.block(
            kind, one["rows"], one["ids"], columns(one["time"]), axes, stored(one), width
        )
        assert points == one["rows"] * len(one["ids"])
        return payload
    return _records.update(bytes.fromhex(one["payload"])[8:])


def test_payloads_are_the_same_bytes(golden: dict[str, Any]) -> None:
    for one in golden["records"]:
        assert encode(one).hex() == one["payload"], one["seq"]


def test_hot_path_templates_are_the_same_bytes() -> None:
    """The records that log() packs by template equal those of the encoder."""
    seed = _records.POINT_LENGTH_CRC
    first = _records.pack_point(2, 1, 3, 0, 7)
    body = _records.pack_float_body(5, 6, 0.5)
    hot = _records.pack_float_record(32, crc32(body, crc32(first, seed)), first, 5, 6, 0.5)
    assert hot == _records.record(first + body)


def write(golden: dict[str, Any], folder: Path) -> Path:
    segment = Segment(str(folder), golden["number"], golden["size"], True)
    segment.publish(bytes.fromhex(golden["writer"]), golden["first"], golden["created_ns"])
    for one in golden["records"]:
        segment.write(_records.record(encode(one)))
    assert segment.scan().records == len(golden["records"])
    segment.seal()
    segment.close()
    return folder / f"{golden['number']:08d}.seg"


def test_python_writes_gos_segment(
    golden: dict[str, Any], tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    written = write(golden, tmp_path).read_bytes()
    if request.config.getoption("--update"):
        (GOLDEN / "python.seg").write_bytes(written)
    assert written == (GOLDEN / "python.seg").read_bytes()


def test_stretches(golden: dict[str, Any], tmp_path: Path, request: pytest.FixtureRequest) -> None:
    """stretches.seg, which only Python writes; Go's tests say what is in it."""

    def pack(letter: str, *values: int) -> bytes:
        return struct.pack(f"<{len(values)}{letter}", *values)

    def axes(steps: Column, episodes: Column) -> list[tuple[int, Column]]:
        return [(1, steps), (2, Column(0, pack("q", 9))), (3, episodes), (4, steps)]

    most, least = (1 << 63) - 1, -(1 << 63)
    when = Column(0, pack("q", golden["created_ns"]))
    steps = _records.stretches(pack("q", 5, 0, 0), pack("I", 3, 1, 4), _records.RISING)
    episodes = _records.stretches(pack("q", 4, 5, 4), pack("I", 3, 1, 4))
    odd = _records.stretches(pack("q", most - 1, 0), pack("I", 1, 1), 16 | 8)
    ends = _records.stretches(pack("q", least, most), pack("I", 1, 1))
    doubles, floats = struct.pack("<8d", *range(8)), struct.pack("<2f", 0, 1)
    payloads = [
        _records.series(1, number, _series.key_json("reward", "ENVIRONMENT_STEP", {"env_id": env}))
        for number, env in ((1, "a"), (2, "b"))
    ]
    payloads += [
        p for _, p, _ in _records.block(1, 4, [1, 2], when, axes(steps, episodes), doubles)
    ]
    payloads += [p for _, p, _ in _records.block(1, 2, [2], when, axes(odd, ends), floats, 4)]
    segment = Segment(str(tmp_path), 0, 4096, True)
    segment.publish(bytes.fromhex(golden["writer"]), 1, golden["created_ns"])
    for payload in payloads:
        segment.write(_records.record(payload))
    assert segment.scan().rl == 10
    segment.seal()
    segment.close()
    written = (tmp_path / "00000000.seg").read_bytes()
    if request.config.getoption("--update"):
        (GOLDEN / "stretches.seg").write_bytes(written)
    assert written == (GOLDEN / "stretches.seg").read_bytes()
    found = reader.segment(GOLDEN / "stretches.seg")[1]
    each = reader.Column(6, [5, 6, 7, 0, 0, 1, 2, 3])
    assert found[2].fields["axes"][0] == (1, each)
    assert found[2].fields["axes"][2] == (3, reader.Column(6, [4, 4, 4, 5, 4, 4, 4, 4]))
    assert found[3].fields["axes"][3] == (4, reader.Column(14, [most - 1, 0]))


@pytest.mark.parametrize("name", ["go.seg", "python.seg"])
def test_the_reader_reads_both(golden: dict[str, Any], name: str) -> None:
    header, records = reader.segment(GOLDEN / name)
    assert header["writer"] == golden["writer"]
    assert (header["first"], header["created"]) == (golden["first"], golden["created_ns"])
    assert header["torn"] == 0
    assert [r.payload.hex() for r in records] == [one["payload"] for one in golden["records"]]
    for record, one in zip(records, golden["records"], strict=True):
        check(record, one)


def check(record: reader.Record, one: dict[str, Any]) -> None:
    found = record.fields
    assert (record.seq, record.type) == (one["seq"], one["type"])
    for name in ("kind", "series", "metric", "scale", "rows", "ids"):
        if name in one:
            assert found[name] == one[name]
    if one["type"] == 1:
        assert found["labels"] == one.get("labels", {})
    elif one["type"] == 3:
        assert found["time"] == reader.Column(one["time"]["mode"], one["time"]["values"])
        axes = [(a["axis"], reader.Column(a["mode"], a["values"])) for a in one.get("axes", [])]
        assert found["axes"] == axes
        assert found["values"] == stored(one)
    elif one["type"] == 2:
        assert found["value"] == bits(one["bits"])
        assert found["flags"] == one.get("flags", 0)
        assert (found["step"], found["time_ns"]) == (one.get("step", 0), one["time_ns"])
    elif one["type"] == 4:
        assert found["updates"] == one["updates"]
