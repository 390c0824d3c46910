"""Files of runs: listed page by page, and written into a folder and to no place outside it."""

from __future__ import annotations

import hashlib
import json
import os
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, unquote, urlsplit

import pytest

from kymogram import query

RUN = "01M8085QWFDWZV5BG25CTV21D2"
TEXTS = {"output.log": b"lines\n", "media/a b#1?.png": b"pixels" * 100_000, "media/50%/ü": b""}


class Server(ThreadingHTTPServer):
    listed: dict[str, bytes]
    sent: dict[str, bytes]
    fetched: list[str]


class Handler(BaseHTTPRequestHandler):
    server: Server

    def do_GET(self) -> None:
        asked = urlsplit(self.path)
        base = f"/api/v1/runs/{RUN}"
        if asked.path == "/api/v1/resolve" or asked.path == base:
            self.answer(json.dumps({"id": RUN}).encode())
        elif asked.path == f"{base}/files":
            self.answer(json.dumps(self.page(parse_qs(asked.query))).encode())
        else:
            name = unquote(asked.path.removeprefix(f"{base}/files/"))
            self.server.fetched.append(name)
            self.answer(self.server.sent[name])

    def page(self, options: dict[str, list[str]]) -> dict[str, Any]:
        prefix = options.get("prefix", [""])[0]
        names = sorted(name for name in self.server.listed if name.startswith(prefix))
        at = int(options.get("cursor", ["0"])[0])
        found = []
        for name in names[at : at + 1]:  # a page of one, however many are asked for
            text = self.server.listed[name]
            digest = hashlib.sha256(text).hexdigest()
            one = {"name": name, "size": len(text), "content_type": "x", "sha256": digest}
            found.append({**one, "md5": "", "changed_ns": 5, "url": "elsewhere"})
        return {"files": found, "next": str(at + 1) if at + 1 < len(names) else None}

    def answer(self, body: bytes) -> None:
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 - the base's word
        pass


@pytest.fixture
def server() -> Iterator[Server]:
    found = Server(("127.0.0.1", 0), Handler)
    found.listed, found.sent, found.fetched = dict(TEXTS), dict(TEXTS), []
    thread = threading.Thread(target=found.serve_forever)
    thread.start()
    yield found
    found.shutdown()
    thread.join()
    found.server_close()


def run_of(server: Server) -> query.Run:
    return query.Client(f"http://127.0.0.1:{server.server_address[1]}", "key").run(RUN)


def test_files_are_listed_and_downloaded(server: Server, tmp_path: Path) -> None:
    run = run_of(server)
    files = list(run.files())
    assert [one.name for one in files] == sorted(TEXTS)
    assert [one.name for one in run.files("media/", limit=1)] == ["media/50%/ü"]
    for one in files:
        assert (one.size, one.changed_ns, one.md5) == (len(TEXTS[one.name]), 5, "")
        assert one.read() == TEXTS[one.name]
        target = one.download(tmp_path / "out")
        assert target == tmp_path / "out" / one.name
        assert target.read_bytes() == TEXTS[one.name]
        if os.name == "posix":
            assert target.stat().st_mode & 0o777 == 0o644
    before = len(server.fetched)
    for one in files:
        one.download(str(tmp_path / "out"))
    assert len(server.fetched) == before  # they were there
    assert "_fetch" not in repr(files[0])


def test_other_bytes_are_neither_overwritten_nor_kept(server: Server, tmp_path: Path) -> None:
    log = next(iter(run_of(server).files("output")))
    (tmp_path / "output.log").write_bytes(b"mine")
    with pytest.raises(query.QueryError, match="other bytes") as refused:
        log.download(tmp_path)
    assert refused.value.code == "conflict"
    assert (tmp_path / "output.log").read_bytes() == b"mine"
    server.sent["output.log"] = b"line"
    with pytest.raises(query.QueryError, match="cut on its way"):
        log.download(tmp_path / "new")
    assert list((tmp_path / "new").iterdir()) == []


@pytest.mark.parametrize("name", ["../x", "/x", "a/../../x", "a//x", "..", "a\\..\\x", "a\0"])
def test_names_that_lead_elsewhere(server: Server, tmp_path: Path, name: str) -> None:
    server.listed = server.sent = {name: b"evil"}
    one = next(iter(run_of(server).files()))
    with pytest.raises(query.QueryError) as refused:
        one.download(tmp_path / "in")
    assert refused.value.code == "invalid_argument"
    assert not (tmp_path / "x").exists()


@pytest.mark.skipif(os.name != "posix", reason="links need a right elsewhere")
def test_links_that_lead_elsewhere(server: Server, tmp_path: Path) -> None:
    inside, outside = tmp_path / "in", tmp_path / "out"
    inside.mkdir()
    outside.mkdir()
    (inside / "media").symlink_to(outside)
    for one in run_of(server).files("media/"):
        with pytest.raises(query.QueryError, match="leads out"):
            one.download(inside)
    assert list(outside.iterdir()) == []
