"""A small HTTP server that answers GET /metrics and nothing else.

It may face a network: it reads at most 8 KiB a request within 5 s, serves 16
connections at once and 20 scrapes a second, and ends each connection.
"""

from __future__ import annotations

import os
import socket
import threading
import time
import weakref

from ._exposition import OPENMETRICS, TEXT

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ._exposition import Exposition

CONNECTIONS = 16
REQUEST_BYTES = 8192
REQUEST_S = 5.0
SCRAPES_PER_S = 20.0

_REASONS = {
    200: "OK",
    400: "Bad Request",
    404: "Not Found",
    405: "Method Not Allowed",
    408: "Request Timeout",
    429: "Too Many Requests",
    431: "Request Header Fields Too Large",
}


class Endpoint:
    """Serves an exposition until it is closed."""

    def __init__(self, exposition: Exposition, host: str, port: int) -> None:
        self._exposition = exposition
        family = socket.AF_INET6 if ":" in host else socket.AF_INET
        self._socket = socket.create_server((host, port), family=family)
        self.host = host
        self.port: int = self._socket.getsockname()[1]
        self._slots = threading.BoundedSemaphore(CONNECTIONS)
        self._closed = False
        self._tokens = SCRAPES_PER_S
        self._filled = time.monotonic()
        self._thread = threading.Thread(target=self._accept, name="kymogram-endpoint", daemon=True)
        self._thread.start()
        if hasattr(os, "register_at_fork"):
            mine = weakref.WeakMethod(self._forked)
            os.register_at_fork(after_in_child=lambda: (found := mine()) and found())

    def _forked(self) -> None:
        """In a forked child: the port is the parent's."""
        self._socket.close()

    def close(self) -> None:
        """Stop serving."""
        self._closed = True
        try:
            self._socket.shutdown(socket.SHUT_RDWR)  # wakes the accept
        except OSError:
            pass
        self._socket.close()
        self._thread.join(1)

    def _accept(self) -> None:
        while True:
            try:
                connection, _ = self._socket.accept()
            except OSError:
                if self._closed:
                    return
                time.sleep(0.1)  # out of descriptors, for instance
                continue
            if not self._slots.acquire(blocking=False):
                connection.close()
                continue
            try:
                threading.Thread(target=self._serve, args=(connection,), daemon=True).start()
            except RuntimeError:  # no more threads
                self._slots.release()
                connection.close()

    def _serve(self, connection: socket.socket) -> None:
        try:
            with connection:
                connection.sendall(self._answer(connection))
                connection.shutdown(socket.SHUT_WR)
                connection.settimeout(0.2)
                connection.recv(4096)  # what is left unread would reset the answer
        except OSError:
            pass
        finally:
            self._slots.release()

    def _answer(self, connection: socket.socket) -> bytes:
        head, problem = _read_head(connection)
        if problem:
            return _response(problem, TEXT, "")
        lines = head.decode("latin-1").split("\r\n")
        parts = lines[0].split(" ")
        if len(parts) != 3 or not parts[2].startswith("HTTP/1."):
            return _response(400, TEXT, "")
        method, target, _ = parts
        if target.partition("?")[0] != "/metrics":
            return _response(404, TEXT, "only /metrics is here\n", method == "HEAD")
        if method not in ("GET", "HEAD"):
            return _response(405, TEXT, "")
        if not self._may():
            return _response(429, TEXT, "scraped too often\n", method == "HEAD")
        accept = "".join(line[7:] for line in lines[1:] if line.lower().startswith("accept:"))
        openmetrics = "application/openmetrics-text" in accept
        body = self._exposition.text(openmetrics)
        return _response(200, OPENMETRICS if openmetrics else TEXT, body, method == "HEAD")

    def _may(self) -> bool:
        """Take a token; they come back at the rate that is allowed."""
        now = time.monotonic()
        self._tokens += (now - self._filled) * SCRAPES_PER_S
        self._tokens = min(SCRAPES_PER_S, self._tokens)
        self._filled = now
        if self._tokens < 1:
            return False
        self._tokens -= 1
        return True


def _read_head(connection: socket.socket) -> tuple[bytes, int]:
    """The request's head, and the status of what is wrong with it."""
    deadline = time.monotonic() + REQUEST_S
    head = b""
    while b"\r\n\r\n" not in head:
        if len(head) > REQUEST_BYTES:
            return head, 431
        left = deadline - time.monotonic()
        if left <= 0:
            return head, 408
        connection.settimeout(left)
        try:
            part = connection.recv(4096)
        except TimeoutError:
            return head, 408
        if not part:
            return head, 400
        head += part
    connection.settimeout(REQUEST_S)
    return head.partition(b"\r\n\r\n")[0], 0


def _response(status: int, kind: str, body: str, head_only: bool = False) -> bytes:
    content = body.encode()
    lines = [
        f"HTTP/1.1 {status} {_REASONS[status]}",
        f"Content-Type: {kind}",
        f"Content-Length: {len(content)}",
        "Connection: close",
    ]
    if status == 405:
        lines.append("Allow: GET, HEAD")
    if status == 429:
        lines.append("Retry-After: 1")
    return ("\r\n".join(lines) + "\r\n\r\n").encode() + (b"" if head_only else content)
