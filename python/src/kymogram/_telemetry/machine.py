"""Processor, memory and graphics card, as a point carries them.

The names and definitions are psutil's: used memory is the total less what is available. A call
reads two small files of the kernel, 30 µs: no call of a training loop waits for a program.
"""

from __future__ import annotations

import sys
from threading import Lock
from time import monotonic

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

_MIB = 1 << 20
_SHORTEST_S = 0.1  # two calls that follow closely have the same use of the processor


class Machine:
    """Reads use of the processor since the call before, and memory."""

    def __init__(self, proc: str = "/proc") -> None:
        self._proc = proc
        self._lock = Lock()
        self._at = self._busy = self._total = self._last = 0.0
        try:
            self._processor()  # what the first call counts from
        except (OSError, ValueError, IndexError):
            pass  # such as macOS: read() says so

    def read(self) -> dict[str, float]:
        """cpu_usage in percent, mem_used and mem_total in MiB."""
        used, total = self._memory()
        return {"cpu_usage": self._processor(), "mem_used": used, "mem_total": total}

    def _processor(self) -> float:
        with self._lock:
            now = monotonic()
            if self._at and now - self._at < _SHORTEST_S:
                return self._last
            with open(f"{self._proc}/stat", encoding="ascii") as file:
                ticks = [float(one) for one in file.readline().split()[1:9]]
            total, idle = sum(ticks), ticks[3] + ticks[4]  # guests are part of user time
            span, busy = total - self._total, total - idle - self._busy
            if self._at and span > 0:
                self._last = round(min(100.0, max(0.0, 100 * busy / span)), 1)
            self._at, self._total, self._busy = now, total, total - idle
            return self._last

    def _memory(self) -> tuple[float, float]:
        found = {}
        with open(f"{self._proc}/meminfo", encoding="ascii") as file:
            for line in file:
                name, _, rest = line.partition(":")
                if name in ("MemTotal", "MemAvailable"):
                    found[name] = int(rest.split()[0]) / 1024
                if len(found) == 2:
                    break
        total = found["MemTotal"]
        return max(0.0, total - found["MemAvailable"]), total


_here = Machine()


def get_system_metrics() -> dict[str, Any]:
    """cpu_usage (percent, since the call before), mem_used and mem_total (MiB)."""
    if sys.platform == "linux":
        return dict(_here.read())
    import psutil

    memory = psutil.virtual_memory()
    return {
        "cpu_usage": psutil.cpu_percent(),
        "mem_used": memory.used / _MIB,
        "mem_total": memory.total / _MIB,
    }


def get_gpu_metrics() -> dict[str, Any]:
    """What torch's allocator holds on the current graphics card, and which card that is.

    Raises RuntimeError without torch or without a card. torch is not imported for it.
    """
    torch = sys.modules.get("torch")
    if torch is None:
        raise RuntimeError("torch is not imported; its allocator is what GPU metrics are of")
    if not torch.cuda.is_available():
        raise RuntimeError("torch finds no graphics card")
    cuda = torch.cuda
    card = cuda.current_device()
    return {
        "gpu_mem_segments": cuda.memory_stats(card).get("segment.all.current", 0),
        "gpu_mem_allocated_mb": cuda.memory_allocated(card) / _MIB,
        "gpu_mem_cached_mb": cuda.memory_reserved(card) / _MIB,
        "gpu_mem_peak_mb": cuda.max_memory_allocated(card) / _MIB,
        "gpu_mem_total_mb": cuda.get_device_properties(card).total_memory / _MIB,
        "gpu_name": cuda.get_device_name(card),
        "gpu_id": card,
    }
