"""The cap, the memory behind it, and the three strategies."""

from __future__ import annotations

import errno
import os
import threading
import time
import tracemalloc
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import kymogram
from kymogram._platform import seams
from kymogram._points import current as _current
from kymogram._points import tables
from kymogram._points.logger import Logger
from kymogram._points.series import Starts
from kymogram._spool import count as _count
from kymogram._spool import folders
from kymogram._spool import segment as _segment
from kymogram._spool import writer as _writer
from kymogram._spool.segment import Segment
from kymogram._spool.writer import Writer

from . import reader

NAME = "44" * 16


@pytest.fixture
def root(tmp_path: Path) -> Iterator[Path]:
    found = tmp_path / "capped"
    folders.make_root(str(found))
    yield found
    _current.current.logger = None
    tables.forget()


def make(root: Path, **options: Any) -> Writer:
    document = {"format": 1, "server": "x", "open": {"writer": NAME, "opened_ns": 1}}
    writer = Writer(str(root), NAME, document, forget=tables.forget, **options)
    logger = Logger(writer, Starts())
    _current.current.logger = lambda: logger
    return writer


def test_past_the_cap_the_newest_are_dropped_and_counted(root: Path) -> None:
    writer = make(root, cap=600 << 10, ring=300_000)
    for i in range(30_000):
        kymogram.log("x", float(i))
    held, dropped = writer.held().floats, writer.dropped.floats
    stored = writer.counts().floats
    assert dropped > 0
    assert 300_000 // 64 < held <= 300_000 // 32
    assert stored + held + dropped == 30_000
    assert folders.used(str(root)) <= 600 << 10
    writer._cap, writer._retry_at = 1 << 30, 0.0  # the deliverer made room
    writer.tick()
    assert writer.held().floats == 0
    kymogram.log("x", -1.0)
    found = reader.records(reader.writers(root)[0])
    values = [p.value for p in reader.points(found)]
    assert values == [*range(stored + held), -1.0]
    report = [one for one in reader.updates(found) if one["op"] == "dropped"]
    assert [(one["count"], one["text"]) for one in report] == [(dropped, "spool_full")]


def test_memory_takes_64_bytes_a_point(root: Path) -> None:
    """Of what finds no room on the disk; calls of every size, in order, none twice."""
    writer = make(root, cap=300 << 10)
    for i in range(8_000):
        kymogram.log("x", float(i))
    held = writer.held().floats
    tracemalloc.start()
    for i in range(8_000, 208_000):
        kymogram.log("x", float(i))
    grown, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert writer.held().floats == held + 200_000
    assert grown <= 64 * 200_000
    kymogram.log_rl_environment_step("r", [[1.0, 2.0], [3.0, 4.0]], 1, env_id=["a", "b"])
    kymogram.log_text("t", "text")
    kymogram.log({"x": 208_000.0, "y": 1.0})
    kymogram.log("x", [208_001.0, 208_002.0])
    counts = writer.held()
    assert (counts.floats, counts.rl) == (held + 200_000 + 5, 4)
    writer._cap, writer._retry_at = 1 << 30, 0.0  # the deliverer made room
    writer.tick()
    assert (writer.held().floats, writer.held().records, writer.full) == (0, 0, False)
    found = reader.all_points(root)
    assert [p.value for p in found if p.metric == "x"] == list(range(208_003))
    assert [p.value for p in found if p.metric == "r"] == [1, 2, 3, 4]
    assert {p.metric for p in found} == {"x", "y", "r", "t"}


def test_updates_are_kept_however_full(root: Path) -> None:
    writer = make(root, cap=300 << 10, ring=1000)
    for i in range(10_000):
        kymogram.log("x", float(i))
    writer.append_update([{"op": "set_tags", "tags": ["late"]}])
    writer._cap = 1 << 30
    writer.end("finished")
    writer.close()
    found = reader.updates(reader.records(reader.writers(root)[0]))
    assert [one["op"] for one in found] == ["set_tags", "dropped", "close"]


def test_raise(root: Path) -> None:
    make(root, cap=300 << 10, ring=1000, backpressure="raise")
    with pytest.raises(kymogram.KymogramEventQueueFullError, match="memory are full"):
        for i in range(10_000):
            kymogram.log("x", float(i))


def test_block(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_writer, "_RETRY_S", 0.02)
    writer = make(root, cap=300 << 10, ring=1000, backpressure="block")
    done = threading.Event()

    def work() -> None:
        for i in range(10_000):
            kymogram.log("x", float(i))
        done.set()

    threading.Thread(target=work, daemon=True).start()
    assert not done.wait(0.5)
    writer._cap = 1 << 30
    assert done.wait(10)
    assert [p.value for p in reader.all_points(root)] == list(range(10_000))


def sizes_of(root: Path) -> list[int]:
    return [p.stat().st_size for p in sorted(reader.writers(root)[0].glob("*.seg"))]


def test_segments_double(root: Path) -> None:
    writer = make(root, cap=1 << 30)
    for _ in range(6000):
        kymogram.log("v", [0.0] * 200)
        writer.prepare()  # as the helper does in time
    sizes = sizes_of(root)
    assert sizes == [min((256 << 10) << n, 4 << 20) for n in range(len(sizes))]
    assert len(sizes) > 5
    writer.close()


def test_a_call_makes_no_large_segment(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where the helper is late a call brings at most 1 MiB into memory; the next is large."""
    writer, made = make(root, cap=1 << 30), []
    warm = seams.warm

    def watched(descriptor: int, size: int) -> None:
        made.append(size)
        warm(descriptor, size)

    monkeypatch.setattr(seams, "warm", watched)
    for _ in range(6000):
        kymogram.log("v", [0.0] * 200)
    assert len(made) > 5
    assert max(made) == 1 << 20
    writer.prepare()
    assert made[-1] == 4 << 20
    writer.close()


def test_a_rotation_counts_few_arrays(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    numpy = pytest.importorskip("numpy")
    writer, counted = make(root, cap=1 << 30), []
    count = _count.count

    def watched(region: memoryview) -> Any:
        found = count(region)
        counted.append(found.records)
        return found

    monkeypatch.setattr("kymogram._spool.segment.count", watched)
    for _ in range(3000):
        kymogram.log("v", numpy.zeros(1000, "f4"))
    assert max(counted) <= 258
    assert writer.sequence() == len(reader.records(reader.writers(root)[0]))
    writer.close()


def test_segments_of_large_calls_hold_many(root: Path) -> None:
    writer = make(root, cap=1 << 30)
    for _ in range(200):
        kymogram.log("v", [0.0] * 4_000)
    sizes = sizes_of(root)
    assert sizes[0] == 256 << 10
    assert sizes[1] >= 64 * 4_000 * 8
    assert max(sizes) <= 4 << 20
    writer.close()


def test_segments_stay_under_an_eighth_of_the_cap(root: Path) -> None:
    make(root, cap=16 << 20)
    for _ in range(80):
        kymogram.log("v", [0.0] * 20_000)
    sizes = sizes_of(root)
    assert max(sizes) == 2 << 20


@pytest.mark.parametrize("size", [256 << 10, 300 << 10])
def test_a_record_larger_than_the_next_segment(root: Path, size: int) -> None:
    make(root, cap=1 << 30, first_size=size)
    kymogram.log("v", [1.0] * 130_000)
    assert len(reader.all_points(root)) == 130_000


def test_written_by_pwrite_where_a_map_is_unsafe(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(_writer, "mappable", lambda path: False)
    writer = make(root)
    for i in range(20_000):
        kymogram.log("x", float(i))
        if i % 100 == 0:
            kymogram.log({"a": 1.0, "b": 2.0})
    assert writer.sequence() == len(reader.records(reader.writers(root)[0]))
    writer.close()
    found = [p for p in reader.all_points(root) if p.metric == "x"]
    assert [p.value for p in found] == list(range(20_000))


@pytest.mark.parametrize("mapped", [True, False])
def test_a_disk_that_refuses_for_a_while(
    root: Path, monkeypatch: pytest.MonkeyPatch, mapped: bool
) -> None:
    """No call hangs or raises; the points wait in memory, in order, and why is told."""
    monkeypatch.setattr(_writer, "mappable", lambda path: mapped)
    writer = make(root, cap=1 << 30)
    kymogram.log("x", 0.0)
    with monkeypatch.context() as broken:

        def refuse(*_: object) -> int:
            raise OSError(errno.EROFS, "Read-only file system")

        # First files that exist take no more, then no new ones can be made.
        for name in ("pwrite", "open_private"):
            broken.setattr(seams, name, refuse)
        for i in range(1, 10_000):
            kymogram.log("x", float(i))
            if i == 5_000 and not mapped:
                broken.undo()
                broken.setattr(seams, "pwrite", refuse)
        writer.tick()
        assert writer.held().floats > 0
        assert "read-only" in writer.why_full
        assert writer.held().floats + writer.counts().floats == 10_000
    writer._retry_at = 0.0
    writer.tick()
    assert writer.held().floats == 0
    assert [p.value for p in reader.all_points(root)] == list(range(10_000))


def test_a_write_that_is_cut_goes_on(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As pwrite may by its contract, on network file systems above all."""
    monkeypatch.setattr(_writer, "mappable", lambda path: False)
    whole = seams.pwrite
    monkeypatch.setattr(seams, "pwrite", lambda file, data, at: whole(file, data[:7], at))
    make(root)
    for i in range(1000):
        kymogram.log("x", float(i))
    assert [p.value for p in reader.all_points(root)] == list(range(1000))


def test_why_the_spool_takes_no_more(root: Path) -> None:
    writer = make(root, cap=600 << 10)
    assert "its share of the disk" in writer.why_full
    for number, told in (
        (errno.ENOSPC, "the disk is full"),
        (errno.EROFS, "its file system is read-only; mount it writable"),
        (errno.EIO, "the disk says Input/output error"),
    ):
        writer._refusal = OSError(number, os.strerror(number))
        assert told in writer.why_full
        assert told in writer.why_dropped


def test_a_link_to_another_file_system(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The mounts are looked up where the folder really lies."""
    monkeypatch.setattr(_segment, "_UNMAPPED", frozenset({"tmpfs"}))
    if _segment.mappable("/dev/shm") or not _segment.mappable(str(tmp_path)):
        pytest.skip("/dev/shm is no tmpfs here, or all is")
    (tmp_path / "link").symlink_to("/dev/shm")
    assert not _segment.mappable(str(tmp_path / "link" / "spool"))


def test_two_writers_share_the_cap(root: Path) -> None:
    first = make(root, cap=1 << 20)
    for i in range(20_000):
        kymogram.log("x", float(i))
    used = folders.used(str(root))
    assert used <= 1 << 20
    assert first.held().floats + first.counts().floats == 20_000
    assert time.monotonic() > 0


def test_close_waits_for_what_memory_holds(
    run: kymogram.Run, spool: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The disk is freed while close() waits: then all is on it, the end of the run last."""
    writer = _current.logger().writer
    writer._cap, writer._retry_at = 0, time.monotonic() + 3600
    for i in range(20_000):
        kymogram.log("x", float(i))
    assert writer.held().floats > 0
    press = writer.press

    def freed() -> int:
        writer._cap = 1 << 30
        return press()

    monkeypatch.setattr(writer, "press", freed)
    run.close(5)
    found = reader.records(reader.writers(spool)[0])
    assert [p.value for p in reader.points(found)] == [*range(20_000)]
    assert [one["op"] for one in reader.updates(found)][-1] == "close"


def test_a_segment_taken_into_use_is_not_made_again(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The helper looks while its segment is taken: a file cut under its map is a SIGBUS."""
    writer = make(root, cap=1 << 30)
    publish, sizes, helpers = Segment.publish, [], []

    def late(self: Segment, identity: bytes, first: int, created_ns: int) -> None:
        helpers.append(threading.Thread(target=writer.prepare))
        helpers[-1].start()
        helpers[-1].join(0.2)  # it may wait until the segment is in use
        sizes.append((self.size, os.stat(self._temporary).st_size))
        if len(set(sizes[-1])) == 1:
            publish(self, identity, first, created_ns)

    monkeypatch.setattr(Segment, "publish", late)
    for i in range(20_000):
        if i % 1000 == 0:
            while helpers:
                helpers.pop().join()
            writer.prepare()
        kymogram.log("x", float(i))
    writer.close()
    assert len(sizes) > 1
    assert [one for one in sizes if one[0] != one[1]] == []


def test_the_end_tells_of_what_found_no_room(root: Path) -> None:
    """The run ends and its ledger tells of the points lost, though the spool is at its cap."""
    writer = make(root, cap=600 << 10, ring=300_000)
    for i in range(30_000):
        kymogram.log("x", float(i))
    held, dropped = writer.held().floats, writer.dropped.floats
    assert held
    assert dropped
    writer.append_update([{"op": "set_tags", "tags": ["late"]}])
    writer.end("finished")
    writer.close()
    assert writer.dropped.floats == held + dropped
    found = reader.records(reader.writers(root)[0])
    said = reader.updates(found)
    assert [one["op"] for one in said][-3:] == ["dropped", "set_tags", "close"]
    assert sum(one.get("count", 0) for one in said) == held + dropped
    assert len(list(reader.points(found))) == 30_000 - held - dropped
    assert folders.used(str(root)) <= (600 << 10) + _writer._LAST_WORDS
