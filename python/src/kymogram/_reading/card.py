"""A run as a card of HTML for notebooks: its facts, its configuration, its curves.

The card is self-contained: one style sheet and SVG, no script, no address that is loaded.
Everything that others chose is escaped. What does not fit is counted.
"""

from __future__ import annotations

import math
import re
import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timezone
from html import escape
from typing import Any, TypeVar

ROWS = 40  # metrics
BUCKETS = 40  # of a curve
_SETTINGS = 30  # entries of a configuration, and tags
_WIDE, _HIGH = 240, 48  # units of a curve
_NAME = _VALUE = 48
_WHOLE = 96  # a name where the mouse rests
_SYMBOLS = {
    "running": "●",
    "finished": "✓",
    "failed": "✕",
    "interrupted": "■",
    "lost": "◌",
    "silent": "○",
}

_MARK = "[\\u0300-\\u036f\\u0483-\\u0489\\u1ab0-\\u1aff\\u20d0-\\u20ff]"
_BLANK = "\u034f\u115f\u1160\u17b4\u17b5\u2800\u3164\uffa0"  # letters that leave no ink
_PILE = re.compile(f"({_MARK}{{4}}){_MARK}+")

_Answer = TypeVar("_Answer")

_STYLE = """
.kymogram-run{--page:#fff;--line:#e3e6eb;--text:#1b1f24;--muted:#5b6470;--curve:#3666d5;
--warn:#9a5b00;background:var(--page);color:var(--text);border:1px solid var(--line);
border-radius:6px;padding:12px 16px;max-width:880px;overflow-x:auto;
font:13px/18px system-ui,"Segoe UI",Roboto,sans-serif;font-variant-numeric:tabular-nums}
@media (prefers-color-scheme:dark){.kymogram-run{--page:#0f1317;--line:#232a31;--text:#e6e9ed;
--muted:#98a2ad;--curve:#57a8ff;--warn:#e3b341}}
.kymogram-run a{color:inherit;font-weight:600;font-size:15px}
.kymogram-run b{font-size:15px}
.kymogram-run p{margin:2px 0;color:var(--muted)}
.kymogram-run p:first-of-type{color:var(--text)}
.kymogram-run summary{cursor:pointer;color:var(--muted);padding:4px 0}
.kymogram-run table{border-collapse:collapse;width:100%;margin:4px 0;background:none;border:0;
font-size:12px}
.kymogram-run th,.kymogram-run td{padding:2px 12px 2px 0;border:0;background:none;
border-top:1px solid var(--line);color:var(--text);text-align:right;vertical-align:middle;
white-space:nowrap}
.kymogram-run thead th,.kymogram-run thead td{border-top:0;color:var(--muted);font-weight:400}
.kymogram-run tbody tr,.kymogram-run tbody tr:hover{background:none}
.kymogram-run tbody th,.kymogram-run th:first-child,.kymogram-run td.l{text-align:left;
font-weight:400}
.kymogram-run details table{width:auto}
.kymogram-run td.w{color:var(--warn)}
.kymogram-run svg{display:block;width:160px;height:24px}
.kymogram-run path{fill:none;stroke:var(--curve);stroke-width:1.25px;
vector-effect:non-scaling-stroke}
.kymogram-run path.band{fill:var(--curve);fill-opacity:.18;stroke:none}
"""


@dataclass
class Card:
    """What a card shows. `rows` are series as the API lists them, with their previews."""

    workspace: str
    project: str
    name: str
    id: str
    status: str
    url: str = ""
    tags: Sequence[str] = ()
    config: Mapping[str, Any] = field(default_factory=dict)
    created_ns: int = 0
    duration_ms: int = 0
    points: int | None = None
    rows: Sequence[Mapping[str, Any]] = ()
    count: int = 0  # of all series
    note: str = ""

    def with_rows_of(self, known: Card) -> Card:
        """Add the metrics that the process knows and the server does not have yet."""
        here = {one["metric"] for one in self.rows}
        self.rows = [*self.rows, *(one for one in known.rows if one["metric"] not in here)]
        self.count = max(self.count, known.count)
        return self

    def html(self) -> str:
        """The card."""
        parts = [f"<style>{_STYLE}</style>", self._head(), self._table(), self._settings()]
        if self.note:
            parts.append(f"<p>{_text(self.note, 300)}</p>")
        return f'<div class="kymogram-run">{"".join(parts)}</div>'

    def _head(self) -> str:
        name = f"<bdi>{_text(self.name, 120)}</bdi>"
        if self.url.startswith(("http://", "https://")):
            address = escape(_plain(self.url))
            name = f'<a href="{address}" target="_blank" rel="noopener">{name}</a>'
        else:
            name = f"<b>{name}</b>"
        status = f"{_SYMBOLS.get(self.status, '')} {self.status}".strip()
        facts = [f"<bdi>{_text(f'{self.workspace}/{self.project}', 160)}</bdi>", _text(self.id, 40)]
        if self.created_ns:
            facts.append(_when(self.created_ns))
        if self.duration_ms:
            facts.append(_duration(self.duration_ms))
        if self.points is not None:
            facts.append(f"{self.points:,} points")
        if self.count:
            facts.append(f"{self.count:,} metrics")
        lines = [f"<p>{name} &nbsp;{_text(status, 40)}</p>", f"<p>{' · '.join(facts)}</p>"]
        if self.tags:
            shown = " · ".join(f"<bdi>{_text(tag, 40)}</bdi>" for tag in self.tags[:_SETTINGS])
            lines.append(f"<p>{shown}{_more(len(self.tags) - _SETTINGS)}</p>")
        return "".join(lines)

    def _table(self) -> str:
        if not self.rows:
            return ""
        curves = any("preview" in one for one in self.rows)
        titles = ["last", "min", "max", ""] if curves else ["step"]
        head = '<th scope="col">metric</th>' + ('<td class="l"></td>' if curves else "")
        head += "".join(
            f'<th scope="col">{title}</th>' if title else "<td></td>" for title in titles
        )
        body = "".join(_row(one, curves) for one in self.rows[:ROWS])
        table = f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"
        return table + _more(max(self.count, len(self.rows)) - ROWS, "<p>", "</p>")

    def _settings(self) -> str:
        if not self.config:
            return ""
        names = sorted(self.config)
        body = "".join(
            f'<tr><th scope="row"><bdi>{_text(name, _NAME)}</bdi></th>'
            f'<td class="l">{_text(str(self.config[name]), _VALUE)}</td></tr>'
            for name in names[:_SETTINGS]
        )
        more = _more(len(names) - _SETTINGS, "<p>", "</p>")
        table = f"<table><tbody>{body}</tbody></table>{more}"
        return f"<details><summary>config ({len(names):,})</summary>{table}</details>"


def within(seconds: float, ask: Callable[[], _Answer]) -> _Answer | None:
    """What ask() gives, None when it takes longer. It may go on then, and nobody waits."""
    found: list[_Answer] = []
    thread = threading.Thread(target=lambda: found.append(ask()), daemon=True)
    thread.start()
    thread.join(seconds)
    return found[0] if found else None


def _row(one: Mapping[str, Any], curves: bool) -> str:
    labels = ",".join(f"{name}={value}" for name, value in sorted(one.get("labels", {}).items()))
    name = f"{one['metric']}{{{labels}}}" if labels else str(one["metric"])
    cells = [f'<th scope="row"><bdi title="{_text(name, _WHOLE)}">{_text(name, _NAME)}</bdi></th>']
    if not curves:
        return f"<tr>{cells[0]}<td>{_number(one.get('step'))}</td></tr>"
    columns = (one.get("preview") or {}).get("columns") or {}
    low = [_float(value) for value in columns.get("min", ())]
    high = [_float(value) for value in columns.get("max", ())]
    finite = [value for value in (*low, *high) if math.isfinite(value)]
    last = (one.get("last") or {}).get("value")
    last = _text(last, 24) if one.get("kind") == "text" else _number(last)
    curve = _curve(columns, low, high) if columns else _waiting(one)
    cells.append(f'<td class="l">{curve}</td><td>{last}</td>')
    for limit in (min(finite, default=None), max(finite, default=None)):
        cells.append(f"<td>{_number(limit)}</td>")
    cells.append(f'<td class="w">{_marks(columns)}</td>')
    return f"<tr>{''.join(cells)}</tr>"


def _waiting(one: Mapping[str, Any]) -> str:
    step = one.get("step")
    return "" if step is None else f"step {step:,} is on its way"


def _marks(columns: Mapping[str, Any]) -> str:
    nans = sum(columns.get("nan", ()))
    infinite = sum(columns.get("pos_inf", ())) + sum(columns.get("neg_inf", ()))
    words = [f"{nans:,} NaN"] if nans else []
    return " ".join(words + ([f"{infinite:,} Inf"] if infinite else []))


def _curve(columns: Mapping[str, Any], low: list[float], high: list[float]) -> str:
    """The mean as a line over the band from the least to the greatest value."""
    x = [_float(value) for value in columns.get("lo", ())]
    mean = [_float(value) for value in columns.get("mean", ())]
    good = [i for i in range(len(x)) if math.isfinite(low[i]) and math.isfinite(mean[i])]
    if not good:
        return ""
    first, wide = x[0], (x[-1] - x[0]) or 1.0
    bottom, top = min(low[i] for i in good), max(high[i] for i in good)
    tall = top / 2 - bottom / 2 or 0.5  # halves: the range of float64 is no float64

    def at(i: int, value: float) -> str:
        height = (value / 2 - bottom / 2) / tall if top > bottom else 0.5
        return f"{round((x[i] - first) / wide * _WIDE)} {round(_HIGH - 2 - height * (_HIGH - 4))}"

    band = [at(i, high[i]) for i in good] + [at(i, low[i]) for i in reversed(good)]
    line = [at(i, mean[i]) for i in good]
    if len(line) == 1:
        line.append(line[0].replace(line[0].split()[0], str(_WIDE), 1))
    return (
        f'<svg viewBox="0 0 {_WIDE} {_HIGH}" preserveAspectRatio="none" aria-hidden="true">'
        f'<path class="band" d="M{"L".join(band)}Z"/><path d="M{"L".join(line)}"/></svg>'
    )


def _float(value: Any) -> float:
    """A number of the API: NaN and the infinities are text, what is missing is null."""
    try:
        return float(value)
    except (TypeError, ValueError):
        return math.nan


def _number(value: Any) -> str:
    """Four significant digits; whole numbers keep theirs up to a million."""
    if value is None or isinstance(value, (dict, list)):
        return "–"
    number = _float(value)
    if not math.isfinite(number):
        return _text(str(value), 12)
    if number == int(number) and abs(number) < 1e6:
        return f"{int(number):,}"
    return f"{number:.4g}"


def _plain(text: str) -> str:
    """Without what is invisible, turns the direction of writing, or piles up over other lines."""
    seen = "".join("\ufffd" if one in _BLANK or not one.isprintable() else one for one in text)
    return _PILE.sub(r"\1", seen)


def _text(text: Any, most: int) -> str:
    """Escaped, and cut in its middle."""
    plain = _plain(str(text)[: 64 * most])
    if len(plain) > most:
        plain = f"{plain[: most // 2]}…{plain[-(most // 2) :]}"
    return escape(plain)


def _more(left: int, before: str = " ", after: str = "") -> str:
    return f"{before}+{left:,} more{after}" if left > 0 else ""


def _when(ns: int) -> str:
    return datetime.fromtimestamp(ns / 1e9, timezone.utc).strftime("%Y-%m-%d %H:%M UTC")


def _duration(ms: int) -> str:
    seconds = ms // 1000
    days, hours, minutes = seconds // 86400, seconds // 3600 % 24, seconds // 60 % 60
    if days:
        return f"{days}d {hours}h"
    if hours:
        return f"{hours}h {minutes}min"
    return f"{minutes}min {seconds % 60}s" if minutes else f"{ms / 1000:.1f}s"
