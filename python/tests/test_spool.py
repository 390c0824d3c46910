"""What the spool's folder takes."""

from __future__ import annotations

import errno
import os
import stat
from pathlib import Path

import pytest

import kymogram
from kymogram._spool import folders


def test_a_segment_made_ahead_counts_for_the_cap_only(tmp_path: Path) -> None:
    writer = tmp_path / "writers" / ("ab" * 16)
    writer.mkdir(parents=True)
    for name, size in {
        "00000000.seg.bad": 5,
        "00000001.seg": 10,
        "00000001.seg.bad": 0,
        ".00000002.next": 20,
        "status": 40,
    }.items():
        (writer / name).write_bytes(bytes(size))
    assert folders.used(str(tmp_path)) == 35
    assert folders.segments(str(writer)) == (2, 15)
    assert folders.used(str(tmp_path / "none")) == 0


def test_an_interrupt_behind_the_rename_leaves_no_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The moment between the folder's name and the line that says so."""
    folders.make_root(str(tmp_path))
    folder = folders.Folder(str(tmp_path), "ab" * 16, {})
    rename = os.rename

    def cut(old: str, new: str) -> None:
        rename(old, new)
        raise KeyboardInterrupt

    monkeypatch.setattr(os, "rename", cut)
    with pytest.raises(KeyboardInterrupt):
        folder.enter()
    folder.discard()
    assert os.listdir(tmp_path / "writers") == []
    with pytest.raises(OSError):
        os.fstat(folder.lock)


def test_a_folder_of_all_users_stays_open(
    tmp_path: Path, spool: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Root owns /tmp and /dev/shm and could close them to everybody else."""
    shared = tmp_path / "tmp"
    shared.mkdir()
    shared.chmod(0o1777)
    kymogram.init(run_name="r", disk=shared, log_level="OFF")  # as --tmpfs of a container
    kymogram.close(0)
    assert stat.S_IMODE(shared.stat().st_mode) & 0o777 == 0o700
    shared.chmod(0o1777)
    monkeypatch.setattr(folders, "_OF_ALL", ("/tmp", str(shared)))
    with pytest.raises(kymogram.KymogramSpoolUnavailableError, match="name a folder of its own"):
        kymogram.init(run_name="r", disk=shared, log_level="OFF")
    assert stat.S_IMODE(shared.stat().st_mode) == 0o1777
    kymogram.init(run_name="r", disk=shared / "kymogram", log_level="OFF")


def test_a_disk_that_is_full_at_the_start(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing of the folder stays: each try of each run would leave another."""

    def full(*_: object) -> int:
        raise OSError(errno.ENOSPC, "No space left on device")

    folders.make_root(str(tmp_path))
    monkeypatch.setattr(os, "write", full)
    with pytest.raises(OSError, match="No space"):
        folders.Folder(str(tmp_path), "ab" * 16, {})
    assert os.listdir(tmp_path / "writers") == []
