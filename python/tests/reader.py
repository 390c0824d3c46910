"""A small reader of the spool, written from docs/format/spool.md alone.

It shares no code with the package: the oracle of the tests.
"""

from __future__ import annotations

import contextlib
import json
import math
import struct
import zlib
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

AXES = {
    1: "step",
    2: "rl_step",
    3: "episode",
    4: "env_step",
    5: "window",
    6: "block",
    7: "global_step",
    8: "epoch",
    9: "batch",
    10: "tokens",
}


@dataclass
class Column:
    mode: int
    values: list[int]

    def at(self, series: int, row: int, rows: int) -> int:
        how, each = self.mode & 3, bool(self.mode & 4)
        if how == 2:
            return self.values[series * rows + row if each else row]
        base = self.values[series if each else 0]
        return base + row if how == 1 else base


@dataclass
class Record:
    seq: int
    payload: bytes
    type: int
    fields: dict[str, Any] = field(default_factory=dict)


@dataclass
class Point:
    seq: int
    metric: str
    scale: str
    labels: dict[str, str]
    kind: int
    axes: dict[str, int]
    relative: bool
    time_ns: int
    value: float | int | bytes

    def same(self, other: float) -> bool:
        return isinstance(self.value, (int, float)) and (
            self.value == other or (math.isnan(self.value) and math.isnan(other))
        )


class Damaged(Exception):
    pass


def parse(seq: int, payload: bytes) -> Record:
    record = Record(seq, payload, payload[0])
    put = record.fields
    if record.type == 1:
        put["kind"], put["series"] = payload[1], struct.unpack_from("<I", payload, 4)[0]
        put.update(json.loads(payload[8:]))
    elif record.type in (2, 5):
        put["kind"], put["flags"] = payload[1], payload[2]
        put["series"], put["step"], put["time_ns"] = struct.unpack_from("<Iqq", payload, 4)
        put["value"] = payload[24:]
        if record.type == 2:
            assert len(payload) == 32
    elif record.type == 3:
        _parse_block(payload, put)
    elif record.type == 4:
        assert payload[1:8] == bytes(7)
        put["updates"] = json.loads(payload[8:])
    else:
        raise Damaged(f"type {record.type}")
    return record


def _parse_block(payload: bytes, put: dict[str, Any]) -> None:
    kind, mode, axes, rows, series, width = struct.unpack_from("<BBBIII", payload, 1)
    assert width in (0, 4)
    at = 16
    declared = []
    for _ in range(axes):
        axis, axis_mode, pad, pad2 = struct.unpack_from("<BBHI", payload, at)
        assert (pad, pad2) == (0, 0)
        declared.append((axis, axis_mode))
        at += 8
    assert [axis for axis, _ in declared] == sorted({axis for axis, _ in declared})
    ids = list(struct.unpack_from(f"<{series}I", payload, at))
    at += (4 * series + 7) // 8 * 8

    def column(how: int) -> Column:
        nonlocal at
        if how & 3 == 3:
            assert how & 4
            assert how < 32
            (many,) = struct.unpack_from("<q", payload, at)
            firsts = struct.unpack_from(f"<{many}q", payload, at + 8)
            lengths = struct.unpack_from(f"<{many}I", payload, at + 8 + 8 * many)
            at += 8 + 8 * many + (4 * many + 7) // 8 * 8
            assert min(lengths) > 0
            assert sum(lengths) == series * rows
            assert payload[at - 4 : at] == bytes(4) or many % 2 == 0
            values = [
                first + (k if how & 16 else 0)
                for first, length in zip(firsts, lengths, strict=True)
                for k in range(length)
            ]
            return Column(2 | how & 12, values)
        count = (series if how & 4 else 1) * (rows if how & 3 == 2 else 1)
        values = list(struct.unpack_from(f"<{count}q", payload, at))
        at += 8 * count
        return Column(how, values)

    put.update(kind=kind, rows=rows, ids=ids, time=column(mode), width=width or 8)
    put["axes"] = [(axis, column(how)) for axis, how in declared]
    put["values"] = payload[at:]
    assert len(put["values"]) == put["width"] * rows * series, "a block of another length"


def segment(path: Path) -> tuple[dict[str, Any], list[Record]]:
    """The header and the whole records of a segment."""
    data = path.read_bytes()
    if len(data) < 64 or data[:8] != b"KYMSPOOL":
        raise Damaged("header")
    version, size, flags = struct.unpack_from("<HHI", data, 8)
    number, first, created, zero, crc = struct.unpack_from("<QQQII", data, 32)
    assert version in (1, 2, 3)
    assert (size, flags, zero) == (64, 0, 0)
    if zlib.crc32(data[:60]) != crc:
        raise Damaged("header CRC")
    header = {"writer": data[16:32].hex(), "number": number, "first": first, "created": created}
    records: list[Record] = []
    at, torn = 64, 0
    while at + 8 <= len(data):
        length, crc = struct.unpack_from("<II", data, at)
        if length == 0:
            break
        if length == 0xFFFFFFFF:
            assert data[at + 4 :] == bytes(len(data) - at - 4), "bytes behind the seal"
            header["sealed"] = True
            break
        if at + 8 + length > len(data):
            raise Damaged("length")
        payload = data[at + 8 : at + 8 + length]
        end = (at + 8 + length + 7) // 8 * 8
        if zlib.crc32(payload, zlib.crc32(data[at : at + 4])) == crc:
            assert data[at + 8 + length : end] == bytes(end - at - 8 - length)
            records.append(parse(first + len(records) + torn, payload))
        else:
            torn += 1
        at = end
    header["torn"] = torn
    header["next"] = first + len(records) + torn
    return header, records


def records(folder: Path) -> list[Record]:
    """All records of a writer; checks that the segments follow on one another."""
    found: list[Record] = []
    following, number = 1, 0
    for path in sorted(folder.glob("*.seg")):
        header, some = segment(path)
        assert header["writer"] == folder.name
        assert header["number"] == number, path
        assert header["first"] == following, (path, header, following)
        following, number = header["next"], number + 1
        known: set[int] = set()
        for record in some:  # a segment can be read alone
            if record.type == 1:
                known.add(record.fields["series"])
            for used in record.fields.get("ids", [record.fields.get("series")]):
                assert used is None or used in known, "a series that its segment does not define"
        found += some
    return found


def _number(kind: int, data: bytes) -> float | int:
    letter = {(1, 8): "d", (2, 8): "q", (1, 4): "f", (2, 4): "i"}[kind, len(data)]
    value: float | int = struct.unpack("<" + letter, data)[0]
    return value


def points(some: list[Record]) -> list[Point]:
    """The points of records, in order."""
    series: dict[int, dict[str, Any]] = {}
    found = []
    for record in some:
        f = record.fields
        if record.type == 1:
            series[f["series"]] = f
        elif record.type in (2, 5):
            key = series[f["series"]]
            axes = {"step": f["step"]} if f["flags"] & 1 else {}
            value = _number(f["kind"], f["value"]) if record.type == 2 else f["value"]
            found.append(_point(record, key, axes, bool(f["flags"] & 2), f["time_ns"], value))
        elif record.type == 3:
            for s, number in enumerate(f["ids"]):
                for r in range(f["rows"]):
                    axes = {AXES[a]: c.at(s, r, f["rows"]) for a, c in f["axes"]}
                    relative = any(c.mode & 8 for _, c in f["axes"])
                    at = f["width"] * (s * f["rows"] + r)
                    value = _number(f["kind"], f["values"][at : at + f["width"]])
                    when = f["time"].at(s, r, f["rows"])
                    found.append(_point(record, series[number], axes, relative, when, value))
    return found


def _point(
    record: Record,
    key: dict[str, Any],
    axes: dict[str, int],
    relative: bool,
    when: int,
    value: float | int | bytes,
) -> Point:
    kind = record.fields["kind"]
    return Point(
        record.seq,
        key["metric"],
        key["scale"],
        key["labels"],
        kind,
        axes,
        relative,
        when,
        value,
    )


def updates(some: list[Record]) -> list[dict[str, Any]]:
    """The updates of records, in order."""
    return [one for record in some if record.type == 4 for one in record.fields["updates"]]


def writers(root: Path) -> list[Path]:
    """The writers' folders, in the order of their opening; the agent may remove one meanwhile."""
    found: list[tuple[int, Path]] = []
    for path in (root / "writers").iterdir():
        if not path.name.startswith("."):
            with contextlib.suppress(FileNotFoundError):
                found.append((opened(path)["opened_ns"], path))
    return [path for _, path in sorted(found)]


def opened(folder: Path) -> dict[str, Any]:
    """The open of a writer's folder."""
    document = json.loads((folder / "open.json").read_text())
    assert document["format"] in (2, 3)
    found: dict[str, Any] = document["open"]
    return found


def all_points(root: Path) -> list[Point]:
    """The points of all writers."""
    return [point for folder in writers(root) for point in points(records(folder))]
