"""No redirect is followed: the key leaves for no other host, and a sign-in is no answer."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

import kymogram
from kymogram import _client, query

from . import reader
from .conftest import REPOSITORY

TABLE = json.loads((REPOSITORY / "testdata" / "client" / "redirects.json").read_text())


@pytest.mark.parametrize("case", TABLE)
def test_words(case: dict[str, Any]) -> None:
    """Go's client reads the same table."""
    text = _client.redirected(case["from"], case["location"])
    assert text.startswith(case["says"] + ". ")
    assert "secret" not in text
    if case["server"]:
        assert text.endswith(f". Name {case['server']} as the server (KYMOGRAM_SERVER)")
    else:
        assert "a proxy that asks for a sign-in" in text


class Door:
    """A server that keeps what it was asked and answers with a redirect, or as if it were ours."""

    def __init__(self) -> None:
        self.asked: list[dict[str, str]] = []
        self.redirect: tuple[int, str] | None = None
        door = self

        class Handler(BaseHTTPRequestHandler):
            def answer(self) -> None:
                door.asked.append(dict(self.headers))
                self.rfile.read(int(self.headers.get("Content-Length") or 0))
                body = b'{"run": "01ARZ3NDEKTSV4RRFFQ69G5FAV", "projects": [], "next": null}'
                self.send_response(door.redirect[0] if door.redirect else 200)
                if door.redirect:
                    self.send_header("Location", door.redirect[1].replace("PATH", self.path))
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def do_GET(self) -> None:
                self.answer()

            def do_POST(self) -> None:
                self.answer()

            def log_message(self, *args: Any) -> None:
                pass

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.address = f"http://127.0.0.1:{self.server.server_address[1]}"
        threading.Thread(target=self.server.serve_forever, daemon=True).start()


@pytest.fixture
def doors() -> Iterator[tuple[Door, Door]]:
    """The one that is named, and the other that it redirects to."""
    named, other = Door(), Door()
    yield named, other
    for one in (named, other):
        one.server.shutdown()
        one.server.server_close()


@pytest.mark.parametrize("code", [301, 302, 303, 307, 308])
@pytest.mark.parametrize("path", ["PATH", "/login?next=PATH"])
def test_nobody_follows(
    doors: tuple[Door, Door],
    spool: Path,
    capsys: pytest.CaptureFixture[str],
    code: int,
    path: str,
) -> None:
    named, other = doors
    named.redirect = code, other.address + path
    told = f"Name {other.address} as the server" if path == "PATH" else "asks for a sign-in"
    with pytest.raises(query.QueryError, match="redirects to") as caught:
        list(query.Client(named.address, "k" * 40).projects())
    assert told in str(caught.value)
    kymogram.init(server=named.address, api_key="k" * 40, run_name="r")
    assert kymogram.is_offline()
    assert told in capsys.readouterr().err
    kymogram.log("loss", 0.5)
    kymogram.close(0)
    assert [point.value for point in reader.all_points(spool)] == [0.5]
    assert named.asked[0]["Authorization"] == "Bearer " + "k" * 40
    assert other.asked == []
