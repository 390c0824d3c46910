"""KeyboardInterrupt within the package's calls: nothing returned is lost or doubled.

CPython looks for signals when a function begins, behind a call and at a jump back; these
places are cut. KYMOGRAM_INTERRUPT_STEP=1 takes every one of them, the default every 11th.
"""

from __future__ import annotations

import dis
import fcntl
import os
import sys
from collections import Counter
from collections.abc import Callable
from functools import partial
from pathlib import Path
from types import FrameType
from typing import Any

import pytest

import kymogram
from kymogram._points.current import current
from kymogram._spool import writer as _writer

from . import reader

np = pytest.importorskip("numpy")

STEP = int(os.environ.get("KYMOGRAM_INTERRUPT_STEP", "11"))
PACKAGE = str(Path(kymogram.__file__).parent)


class Interrupter:
    """Raises KeyboardInterrupt at the n-th place of a call in the package where a signal can."""

    def __init__(self, at: int) -> None:
        self.left = at
        self.raised = False
        self.last = ""  # the opcode that ran before

    def call(self, what: Callable[[], Any]) -> bool:
        """Whether the call returned."""
        before = sys.gettrace()
        sys.settrace(self.trace)
        try:
            what()
        except KeyboardInterrupt:
            return False
        finally:
            sys.settrace(before)
        return True

    def trace(self, frame: FrameType, event: str, argument: object) -> Any:
        """Follow the package's frames, bytecode by bytecode."""
        if not frame.f_code.co_filename.startswith(PACKAGE):
            return None
        frame.f_trace_opcodes, frame.f_trace_lines = True, False
        if event == "opcode" and not self.raised:
            behind, now = self.last, dis.opname[frame.f_code.co_code[frame.f_lasti]]
            self.last = now
            if now == "RESUME" or behind.startswith(("CALL", "JUMP_BACKWARD", "JUMP_ABSOLUTE")):
                self.left -= 1
                if self.left < 0:
                    self.raised = True
                    raise KeyboardInterrupt
        return self.trace


def tiny(monkeypatch: pytest.MonkeyPatch, size: int = 4096) -> None:
    """Segments that a few calls fill."""
    defaults: dict[str, Any] = _writer.Writer.__init__.__kwdefaults__ or {}
    monkeypatch.setitem(defaults, "first_size", size)
    monkeypatch.setattr(_writer, "LAST_SIZE", size)
    monkeypatch.setattr(_writer, "_LARGE_CALLS", 1)
    monkeypatch.setattr("kymogram._delivery.helper.PERIOD_S", 3600.0)
    monkeypatch.setattr(
        "kymogram._spool.folders.used", lambda root: 0
    )  # takes longer with each segment


CALLS: dict[str, Callable[[float], Any]] = {
    "scalar": lambda v: kymogram.log("x", v),
    "stepped": lambda v: kymogram.log("x", v, step=int(v)),
    "labels": lambda v: kymogram.log("x", v, labels={"a": "b"}),
    "mapping": lambda v: kymogram.log({"x": v, "y": 1.0}),
    "vector": lambda v: kymogram.log("x", np.array([v] + [0.25] * 90)),
    "list": lambda v: kymogram.log("x", [v] + [0.25] * 90),
    "mixed": lambda v: kymogram.log({"x": v, "y": [0.5] * 90}),
    "text": lambda v: kymogram.log_text("t", f"{v:<800}"),
    "episode": lambda v: kymogram.log_rl_episode("x", v, 0),
    "environments": lambda v: kymogram.log_rl_environment_step(
        "x", np.array([[v] + [0.25] * 40] * 2), 0, env_id=["a", "b"], episode=[int(v), 0]
    ),
}


@pytest.mark.parametrize(
    ("kind", "bounded"), [*((kind, False) for kind in CALLS), ("scalar", True), ("mapping", True)]
)
def test_an_interrupt_in_a_call(
    spool: Path, monkeypatch: pytest.MonkeyPatch, kind: str, bounded: bool
) -> None:
    """Calls are cut at one bytecode after the other, in segments that are nearly full."""
    tiny(monkeypatch)
    more: dict[str, Any] = {"backpressure_strategy": "raise", "queue_capacity": 10**9}
    run = kymogram.init(run_name="r", log_level="OFF", **(more if bounded else {}))
    writer = run.logger().writer
    call, value, at, whole = CALLS[kind], 0.0, 0, 0
    returned: list[float] = []
    cut: list[float] = []
    while whole < 3:
        longest = 0
        room = writer.segment.size - writer.segment.used() - 600
        if room > 0:  # most of it in one call
            kymogram.log("pad", np.zeros(room // 8))
        while longest == 0 or writer.segment.size - writer.segment.used() >= longest:
            before = writer.segment, writer.segment.used()
            value += 1
            call(value)
            returned.append(value)
            same = writer.segment is before[0]
            longest = max(longest, writer.segment.used() - before[1] if same else 40)
        value += 1
        interrupter = Interrupter(at)
        (returned if interrupter.call(partial(call, value)) else cut).append(value)
        whole = 0 if interrupter.raised else whole + 1
        at += STEP
    value += 1
    call(value)
    returned.append(value)
    counters = kymogram.get_metrics()
    kymogram.close(0)
    found = reader.all_points(spool)
    mine = [p for p in found if p.metric in "xt" and p.value != 0.25]
    seen = Counter(float(p.value) for p in mine if p.labels.get("env_id") != "b")
    assert sorted(seen - Counter(returned + cut)) == []
    assert sorted(set(returned) - set(seen)) == []
    assert counters.float_points_added + counters.rl_float_points_added == len(found)
    if kind != "environments":
        steps = Counter(p.axes["step"] for p in found if p.metric in "xt")
        assert max(steps.values()) == 1, steps.most_common(3)


@pytest.mark.parametrize("what", ["init", "close"])
def test_an_interrupt_in_init_and_close(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, what: str
) -> None:
    """Whatever was cut, the next init() opens a run, and the points of before are there."""
    options: dict[str, Any] = {"run_name": "r", "log_level": "OFF", "init_mode": "offline"}
    whole, at, held = 0, 0, []
    while whole < 2:
        spool = tmp_path / str(at)
        monkeypatch.setenv("KYMOGRAM_SPOOL_DIR", str(spool))
        interrupter = Interrupter(at)
        if what == "init":
            interrupter.call(partial(kymogram.init, **options))
        if not kymogram.is_initialized():
            kymogram.init(**options)
        kymogram.log("x", float(at))
        if what == "close":
            interrupter.call(partial(kymogram.close, 0))
        kymogram.close(0)
        if kymogram.is_initialized():  # cut where close() begins to let go
            held.append(spool)
            current.run._closing = False
            kymogram.close(0)
        assert [p.value for p in reader.all_points(spool)] == [float(at)]
        held += [folder for folder in reader.writers(spool) if not _free(folder)]
        whole = 0 if interrupter.raised else whole + 1
        at += STEP
    # Between a call of the system that takes or frees, and the line that says so.
    assert len(held) <= max(2, at // STEP // 30)


def _free(folder: Path) -> bool:
    with (folder / "lock").open() as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            return False
    return True
