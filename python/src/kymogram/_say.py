"""What the client prints for a person: short lines on stderr, each at most once."""

from __future__ import annotations

import sys

_ORDER = ("TRACE", "DEBUG", "INFO", "SUCCESS", "WARNING", "ERROR", "CRITICAL", "OFF")


def printable(text: str) -> str:
    """The text with characters that a terminal obeys spelt out: a server may have sent them."""
    if text.isprintable():
        return text
    return "".join(c if c.isprintable() else repr(c)[1:-1] for c in text)


class Voice:
    """Writes lines of at least one level."""

    def __init__(self, level: str = "SUCCESS") -> None:
        self._least = _ORDER.index(level)
        self._said: set[str] = set()
        self.warnings = 0
        self.quiet = False  # error_strategy="silent"

    def line(self, text: str, level: str = "SUCCESS") -> None:
        """Say it."""
        if _ORDER.index(level) < self._least:
            return
        try:
            sys.stderr.write(f"kymogram: {printable(text)}\n")
            sys.stderr.flush()
        except (AttributeError, OSError, ValueError):
            pass  # stderr is closed or absent; a message never ends a training run

    def warn(self, text: str, once: str | None = None) -> None:
        """Say it as a warning; `once` is the name under which it is said once."""
        if once is not None:
            if once in self._said:
                return
            self._said.add(once)
        self.warnings += 1
        if not self.quiet:
            self.line(text, "WARNING")


voice = Voice()


def set_level(level: str) -> None:
    """Choose the least level that is written."""
    voice._least = _ORDER.index(level)


def taken(asked: object, name: object) -> str:
    """What is said of a run that got another name than was asked for."""
    return (
        f"the name {asked!r} was taken; the points go to the new run {name!r} "
        '(resume_strategy="allow" goes on with the run of that name)'
    )
