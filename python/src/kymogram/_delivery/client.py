"""POST /api/v1/open: the one request that init() makes itself, within 0.8 s."""

from __future__ import annotations

from .._exceptions import (
    KymogramAuthError,
    KymogramLoggerInitError,
    KymogramOrchestrationIdMismatchError,
    KymogramValidationError,
    NoKymogramApiKeyError,
)
from .._say import printable

TYPE_CHECKING = False
if TYPE_CHECKING:
    from http.client import HTTPConnection
    from typing import Any

TIMEOUT_S = 0.8
_ANSWER_MAX = 64 << 20
_SDK = "python/0.1.0"


class Unreachable(Exception):
    """No answer in time, or none of a Kymogram server that can take the run now."""


def open_run(
    address: str, key: str | None, request: dict[str, Any], timeout: float = TIMEOUT_S
) -> dict[str, Any]:
    """The server's answer to the open; Unreachable when it has none in time.

    The work happens on a thread of its own, because looking up a host's name
    cannot be given a time limit.
    """
    import json

    body = json.dumps(request).encode()
    return _read(*_ask("POST", address + "/api/v1/open", key, body, timeout), key, address)


def answers(address: str, timeout: float) -> bool:
    """Whether a Kymogram server answers at all."""
    try:
        return _ask("GET", address + "/healthz", None, None, timeout) == (200, b"ok\n")
    except Unreachable:
        return False


def _ask(
    method: str, url: str, key: str | None, body: bytes | None, timeout: float
) -> tuple[int, bytes]:
    from queue import Empty, SimpleQueue
    from threading import Thread

    replies: SimpleQueue[tuple[int, bytes] | Exception] = SimpleQueue()

    def ask() -> None:
        try:
            replies.put(_exchange(method, url, key, body, timeout))
        except Exception as error:
            replies.put(error)

    try:
        Thread(target=ask, name="kymogram-ask", daemon=True).start()
        reply = replies.get(timeout=timeout)
    except Empty:
        raise Unreachable(f"no answer within {timeout:g} s") from None
    except RuntimeError as error:  # the interpreter ends: no new threads
        raise Unreachable(str(error)) from None
    if isinstance(reply, Exception):
        raise Unreachable(_reason(reply)) from None
    return reply


def _reason(error: Exception) -> str:
    text = str(error) or type(error).__name__
    if "CERTIFICATE_VERIFY_FAILED" in text:
        return f"{text}; name the server's CA in SSL_CERT_FILE"
    return text


def _exchange(
    method: str, url: str, key: str | None, body: bytes | None, timeout: float
) -> tuple[int, bytes]:
    headers = {"Content-Type": "application/json", "User-Agent": f"kymogram-{_SDK}"}
    if key:
        headers["Authorization"] = f"Bearer {key}"
    connection, target, more = _connect(url, timeout)
    try:
        connection.request(method, target, body, headers | more)
        response = connection.getresponse()
        elsewhere = response.getheader("Location")
        if 300 <= response.status < 400 and elsewhere:
            raise Unreachable(redirected(url, elsewhere))
        return response.status, response.read(_ANSWER_MAX)
    finally:
        connection.close()


def redirected(asked: str, location: str) -> str:
    """What is said of a redirect, in Go's words (internal/model/redirect.go).

    None is followed: the key goes to no host that nobody named, and what a
    proxy shows instead of the server is no answer of it.
    """
    from urllib.parse import urljoin, urlsplit

    own, to = urlsplit(asked), urlsplit(urljoin(asked, location))
    where = printable(f"{to.scheme}://{to.netloc.rpartition('@')[2]}{to.path}")
    at = max(own.path.find("/api/v1/"), 0)
    text = f"{own.scheme}://{own.netloc} redirects to {where}. "
    server = where.removesuffix(own.path[at:])
    if server not in (where, ""):
        return f"{text}Name {server} as the server (KYMOGRAM_SERVER)"
    return (
        f"{text}It looks like a proxy that asks for a sign-in, or another program. "
        "Name an address where Kymogram itself answers (KYMOGRAM_SERVER)"
    )


def _connect(url: str, timeout: float) -> tuple[HTTPConnection, str, dict[str, str]]:
    """A connection, what to ask it for and by which more headers: through the proxy, if any."""
    from http.client import HTTPConnection, HTTPSConnection

    scheme, _, rest = url.partition("://")
    host, slash, path = rest.partition("/")
    kind = HTTPSConnection if scheme == "https" else HTTPConnection
    proxy = _proxy(scheme, host)
    if not proxy:
        return kind(host, timeout=timeout), slash + path, {}
    user, _, proxy = proxy.rpartition("@")
    headers = {"Proxy-Authorization": _basic(user)} if user else {}
    connection = kind(proxy, timeout=timeout)
    if scheme == "https":
        connection.set_tunnel(host, headers=headers)
        return connection, slash + path, {}
    return connection, url, headers


def _basic(user: str) -> str:
    """NAME:PASSWORD of an address as a header's value."""
    from base64 import b64encode
    from urllib.parse import unquote_to_bytes

    return "Basic " + b64encode(unquote_to_bytes(user)).decode()


def _proxy(scheme: str, host: str) -> str | None:
    import os

    name = scheme + "_proxy"
    found = os.environ.get(name) or os.environ.get(name.upper())
    if (
        not found
        or host.partition(":")[0] in ("localhost", "127.0.0.1")
        or host.startswith("[::1]")
    ):
        return None
    from urllib import request

    if request.proxy_bypass(host):
        return None
    return found.partition("://")[2].partition("/")[0] or found


def _read(status: int, body: bytes, key: str | None, address: str) -> dict[str, Any]:
    import json

    try:
        document = json.loads(body)
    except (ValueError, RecursionError):
        document = None
    if not isinstance(document, dict):
        raise Unreachable(f"HTTP {status} and no JSON: is this a Kymogram server?")
    if 200 <= status < 300:
        return document
    detail = document.get("error")
    detail = detail if isinstance(detail, dict) else {}
    message = printable(
        ". ".join(str(detail[part]) for part in ("message", "hint") if detail.get(part))
    )
    # The server does not know by which address it was asked.
    message = message.replace("kymogram login ADDRESS", f"kymogram login {address}")
    raise _error(status, str(detail.get("code") or ""), message or f"HTTP {status}", key)


def _error(status: int, code: str, message: str, key: str | None) -> Exception:
    if status == 401 and not key:
        return NoKymogramApiKeyError(message)
    if status in (401, 403):
        return KymogramAuthError(message)
    if code == "run_exists":
        return KymogramOrchestrationIdMismatchError(message)
    if status == 400:
        return KymogramValidationError(message)
    if status in (409, 410, 413, 422):
        return KymogramLoggerInitError(message)
    return Unreachable(message)
