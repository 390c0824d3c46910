"""The wheel carries the kymogram binary when it was copied to src/kymogram/_bin."""

from __future__ import annotations

import os
import sysconfig
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface


class BinaryHook(BuildHookInterface):  # type: ignore[type-arg]
    """Marks a wheel with a binary as made for its platform.

    KYMOGRAM_WHEEL_PLATFORM names the platform when it is not this machine's
    (tools/wheels); several are joined by dots, as PEP 425 has it.
    """

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Set the wheel's tag."""
        folder = os.path.join(self.root, "src", "kymogram", "_bin")
        if not any(os.path.exists(os.path.join(folder, n)) for n in ("kymogram", "kymogram.exe")):
            return
        own = sysconfig.get_platform().replace("-", "_").replace(".", "_")
        build_data["pure_python"] = False
        build_data["tag"] = f"py3-none-{os.environ.get('KYMOGRAM_WHEEL_PLATFORM') or own}"
