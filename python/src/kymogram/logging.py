"""A handler that keeps the records of Python's `logging` with the metrics.

>>> import logging
>>> from kymogram.logging import KymogramHandler
>>> logging.getLogger().addHandler(KymogramHandler(level=logging.WARNING))
"""

from __future__ import annotations

import logging
from threading import local

from ._exceptions import KymogramError
from ._points.current import current
from ._say import voice
from ._text import log_text

__all__ = ["KymogramHandler"]

_CUT = 64 << 10


class KymogramHandler(logging.Handler):
    """Logs each record as a text of the series `log`, with its level as the label `level`.

    The text is `NAME: MESSAGE` and a traceback if there is one; setFormatter
    changes it. It is cut at 64 KiB. Records come with their own time. Without an
    open run they are counted in `missed` and one warning says so; counted there
    are also records that cannot be formatted, and those that formatting another
    logs. The handler never raises and never logs by itself.
    """

    def __init__(self, level: int | str = logging.NOTSET, metric: str = "log") -> None:
        super().__init__(level)
        self.metric = metric
        self.missed = 0
        self.setFormatter(logging.Formatter("%(name)s: %(message)s"))
        self._inside = local()

    def emit(self, record: logging.LogRecord) -> None:
        """Log one record."""
        if getattr(self._inside, "busy", False):
            self.missed += 1
            return
        self._inside.busy = True
        try:
            self._emit(record)
        except Exception:
            self.missed += 1
            self.handleError(record)
        finally:
            self._inside.busy = False

    def _emit(self, record: logging.LogRecord) -> None:
        if current.run is None:
            return self._miss("no run is open")
        text = self.format(record).encode(errors="replace")[:_CUT].decode(errors="ignore")
        try:
            log_text(
                self.metric,
                text,
                labels={"level": record.levelname},
                timestamp=record.created * 1000,
            )
        except KymogramError as error:
            self._miss(str(error))
        return None

    def _miss(self, why: str) -> None:
        self.missed += 1
        voice.warn(f"log records are not kept: {why}", once=f"handler {why}")
