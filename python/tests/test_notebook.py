"""What a run shows of itself in a notebook, read by html.parser as a browser would."""

from __future__ import annotations

import math
import socket
import threading
import time
from html.parser import HTMLParser
from pathlib import Path

import kymogram
from kymogram._reading.card import Card

from .rig import Served

HOSTILE = [
    "__proto__",
    "zero\u200bwidth",
    "\u202ertl",
    "fill\u3164er",
    "a&lt;b'c",
    "日本語/損失",
]
_VOID = {"path"}
_KNOWN = {
    *"div style p a b bdi table thead tbody tr th td details summary svg path".split(),
}
_ATTRIBUTES = {
    *"class href target rel scope title viewbox preserveaspectratio aria-hidden d".split(),
}


class Page(HTMLParser):
    """The tags of a card, and what a reader sees of it."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.text, self.links = "", []  # type: tuple[str, list[str]]
        self.curves = 0
        self.feed(text)
        self.close()
        assert self.open == []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        assert tag in _KNOWN, tag
        assert {name for name, _ in attrs} <= _ATTRIBUTES, attrs
        self.links += [value or "" for name, value in attrs if name == "href"]
        self.curves += tag == "svg"
        if tag not in _VOID:
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        if tag not in _VOID:
            assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        if "style" not in self.open:
            self.text += data


def test_a_read_run_shows_itself(served: Served) -> None:
    with kymogram.init(run_name="shown", config={"lr": 0.1, "<b>": "<i>"}, tags=["<u>"]) as run:
        for name in HOSTILE:
            run.log(name, [1.5, math.nan, 2.5])
        run.log("big", [0.0, 1e308, -1e308, math.inf])
    served.sync()
    shown = served.client.run("default/default/shown")
    page = Page(shown._repr_html_())
    for word in [
        "shown",
        "default/default",
        "✓ finished",
        "lr",
        "0.1",
        "<i>",
        "<u>",
        "1 NaN",
        "1 Inf",
    ]:
        assert word in page.text, word
    for name in HOSTILE:
        for hidden in "\u200b\u202e\u3164":
            name = name.replace(hidden, "\ufffd")
        assert name in page.text
    assert page.links == [f"{served.address}/runs/{shown.id}"]
    assert page.curves == len(HOSTILE) + 1
    assert "finished" in repr(shown)
    (listed,) = served.client.runs("default/default")
    assert Page(listed._repr_html_()).curves == len(HOSTILE) + 1


def test_ten_thousand_metrics_stay_small(served: Served) -> None:
    with kymogram.init(run_name="wide", config={f"c{i}": i for i in range(1_000)}) as run:
        for _ in range(3):
            run.log({f"layers/{i:05}/{'x' * 500}": float(i) for i in range(10_000)})
    served.sync()
    text = served.client.run("default/default/wide")._repr_html_()
    assert len(text.encode()) <= 100_000
    assert "+9,960 more" in Page(text).text


def test_names_from_elsewhere_are_text() -> None:
    """Importers and other protocols take names that kymogram.log() refuses."""
    bad = '"><script>alert(1)</script><img src=x onerror=alert(2)>\x1b[31m\x00'
    row = {
        "metric": bad,
        "labels": {bad: bad},
        "kind": "text",
        "last": {"value": bad},
        "preview": {},
    }
    card = Card(bad, bad, bad, bad, bad, url="javascript:alert(3)", tags=[bad], config={bad: bad})
    card.rows, card.count, card.note = [row], 1, bad
    page = Page(card.html())
    assert page.links == [] and "<script>alert(1)</script>" in page.text
    assert "\x1b" not in page.text and "\x00" not in page.text
    card.url = "https://example.org/" + bad
    assert Page(card.html()).links == [
        "https://example.org/" + bad.replace("\x1b", "\ufffd").replace("\x00", "\ufffd")
    ]


def test_the_fullest_card_is_small() -> None:
    """Every cell as long as it may be: 40 curves of 48 buckets."""
    columns = {name: [10.0**i * (-1) ** i for i in range(48)] for name in ("min", "max", "mean")}
    columns |= {"lo": [2.0**60 + i * 2**50 for i in range(48)], "nan": [9] * 48}
    preview = {"x": "step", "columns": columns}
    row = {"kind": "float64", "labels": {}, "last": {"value": -1.2345e-300}, "preview": preview}
    rows = [{**row, "metric": "&" * 1024} for _ in range(10_000)]
    config = {"&" * 500 + str(i): "<" * 65536 for i in range(10_000)}
    card = Card("&" * 99, "&" * 99, "&" * 999, "i", "running", tags=["&" * 99] * 999, rows=rows)
    card.config, card.count = config, len(rows)
    text = card.html()
    assert len(text.encode()) <= 100_000
    assert Page(text).text.count("+9,960 more") == 1 and "+9,970 more" in Page(text).text


def test_a_live_run_shows_itself(served: Served) -> None:
    run = kymogram.init(run_name="live", config={"lr": 0.25}, tags=["t"])
    run.log("loss", [3.0, 2.0, 1.0])
    served.sync()
    page = Page(run._repr_html_())
    assert "● running" in page.text and "loss" in page.text and "0.25" in page.text
    assert page.curves == 1
    run.close()


def test_a_live_run_does_not_wait_for_a_server(spool: Path) -> None:
    """A server that takes a connection and is silent, and one that is away."""
    with socket.create_server(("127.0.0.1", 0)) as silent:
        held: list[socket.socket] = []
        thread = threading.Thread(target=lambda: held.append(silent.accept()[0]), daemon=True)
        thread.start()
        address = f"http://127.0.0.1:{silent.getsockname()[1]}"
        for server in (address, "http://127.0.0.1:1"):
            run = kymogram.init(
                run_name="away", server=server, init_mode="offline", config={"lr": 1}
            )
            run.log("loss", 2.0, step=41)
            begun = time.monotonic()
            page = Page(run._repr_html_())
            assert time.monotonic() - begun < 1.5
            for word in ["away", "running", "loss", "41", "lr", "Points wait on disk"]:
                assert word in page.text, word
            assert page.links == []
            run.close(0)
        for one in held:
            one.close()
