"""What the spool's folder takes."""

from __future__ import annotations

from pathlib import Path

from kymogram import _spool


def test_a_segment_made_ahead_counts_for_the_cap_only(tmp_path: Path) -> None:
    writer = tmp_path / "writers" / ("ab" * 16)
    writer.mkdir(parents=True)
    for name, size in {
        "00000000.seg.bad": 5,
        "00000001.seg": 10,
        ".00000002.next": 20,
        "status": 40,
    }.items():
        (writer / name).write_bytes(bytes(size))
    assert _spool.used(str(tmp_path)) == 35
    assert _spool.segments(str(writer)) == (2, 15)
    assert _spool.used(str(tmp_path / "none")) == 0
