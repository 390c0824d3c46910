"""Tags: which describe the process, which count steps, which are secrets."""

from __future__ import annotations

import re
from typing import NamedTuple

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from typing import Any

# Where they hold a natural number they are axes, by the number that the spool has for each.
AXES = {"step": 1, "window": 5, "block": 6, "global_step": 7, "epoch": 8, "batch": 9}
_STEPS = ("step", "global_step", "window", "block")  # the first that a point has is its step
_DIGITS = 18
REPLACED = "***"

_SECRET_NAME = re.compile(
    r"secret|passw(or)?d|passphrase|mnemonic|credential|private_?key|api_?key|access_?key"
    r"|(^|[_.-])(token|auth|pwd|seed_phrase)$",
    re.IGNORECASE,
)
_SECRET_VALUE = re.compile(
    r"(sk-|sk_|pk_|rk_|ghp_|gho_|ghu_|ghs_|github_pat_|glpat-|hf_|AKIA|ASIA|AIza|eyJ|ya29\."
    r"|-----BEGIN|npm_|pypi-|kym_).{16}|\w+://[^/@\s]*:[^/@\s]+@",
    re.DOTALL,
)


class Standard(NamedTuple):
    """What a MetricsLogger says of its process with every point."""

    uid: str = ""
    prefix: str = ""
    version: str = ""
    runtime_id: str = ""
    role: str = ""
    group: str = ""
    job_type: str = ""

    @property
    def run(self) -> str:
        """The run of the points."""
        return f"{self.role}-{self.uid}" if self.role and self.uid else "default"

    def tags(self) -> dict[str, str]:
        """Those that are not empty."""
        return {name: value for name, value in self._asdict().items() if value}

    def attributes(self) -> dict[str, str]:
        """Those that describe the process or name its run."""
        labels = self.labels()
        return {name: text for name, text in self.tags().items() if name not in labels}

    def labels(self) -> dict[str, str]:
        """Those that neither name the run nor describe the process."""
        if self.run != "default":
            return {}
        return {name: text for name, text in self.tags().items() if name in ("uid", "role")}


def config(given: object) -> Iterator[tuple[str, str]]:
    """The plain values at the top of a configuration, secrets replaced."""
    values: Any = given if hasattr(given, "items") else getattr(given, "__dict__", {})
    for key, value in dict(values).items():
        name = str(key)
        if name.startswith("_") or not isinstance(value, (str, int, float)):
            continue
        text = str(value)
        secret = _SECRET_NAME.search(name) or _SECRET_VALUE.match(text)
        yield name, REPLACED if secret and text else text


def axis(value: object) -> int | None:
    """The number of a tag that may be an axis, as it would be written; None keeps it a label."""
    if value.__class__ is int:
        number: int = value
        return number if 0 <= number < 10**_DIGITS else None
    text = str(value)
    plain = text.isascii() and text.isdigit() and len(text) <= _DIGITS
    return int(text) if plain and (text == "0" or text[0] != "0") else None


def split(tags: Mapping[str, Any]) -> tuple[dict[str, int], dict[str, str]]:
    """The axes and the labels of a point; empty tags are none, as in InfluxDB."""
    axes: dict[str, int] = {}
    labels: dict[str, str] = {}
    for key, value in tags.items():
        name = str(key)
        number = axis(value) if name in AXES else None
        if number is not None:
            axes[name] = number
        elif value is not None and (text := str(value)) and name:
            labels[name] = text
    return axes, labels


def step(axes: Mapping[str, int]) -> int | None:
    """The step that axes give: with an epoch and a batch alone there is none."""
    for name in _STEPS:
        if name in axes:
            return axes[name]
    if "epoch" in axes and "batch" in axes:
        return None
    return axes.get("epoch", axes.get("batch"))
