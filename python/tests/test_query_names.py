"""A project alone is looked up, a full one is not."""

from __future__ import annotations

import json
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import TYPE_CHECKING

import pytest

from kymogram.query import Client, QueryError

if TYPE_CHECKING:
    from collections.abc import Iterator


class Server(ThreadingHTTPServer):
    asked: list[str]


class Handler(BaseHTTPRequestHandler):
    server: Server

    def do_GET(self) -> None:
        self.server.asked.append(self.path.partition("&")[0])
        status = 200
        answer: dict[str, object] = {
            "runs": [],
            "next": None,
            "workspace": "lab",
            "project": "first",
        }
        if self.path.endswith("=many"):
            status = 400
            answer = {"error": {"code": "ambiguous", "message": "m", "hint": "h"}}
        body = json.dumps(answer).encode()
        self.send_response(status)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        pass


@pytest.fixture
def server() -> Iterator[Server]:
    with Server(("127.0.0.1", 0), Handler) as made:
        made.asked = []
        thread = threading.Thread(target=made.serve_forever)
        thread.start()
        yield made
        made.shutdown()
        thread.join()


def test_projects(server: Server) -> None:
    client = Client(f"http://127.0.0.1:{server.server_port}")
    runs = "/api/v1/projects/lab/first/runs?limit=1000"
    assert list(client.runs("first")) == []
    assert server.asked == ["/api/v1/resolve?project=first", runs]
    server.asked.clear()
    assert list(client.runs("lab/first")) == []
    assert server.asked == [runs]
    with pytest.raises(QueryError, match="m") as caught:
        client.runs("many")
    assert caught.value.code == "ambiguous"
    with pytest.raises(QueryError, match="workspace/project"):
        client.runs("a/b/c")
