"""Servers that go away: toxiproxy between a logger and its server, and folders that cannot be written."""

from __future__ import annotations

import contextlib
import json
import os
import socket
import subprocess
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import urlsplit

ROOT = Path(__file__).resolve().parents[2]
SERVER = ROOT / "bin" / "tools" / "toxiproxy-server"
VERSION = "v2.12.0"


def install() -> None:
    """Build toxiproxy's server once; it is no dependency of the project."""
    if SERVER.exists():
        return
    env = {**os.environ, "GOBIN": str(SERVER.parent)}
    package = f"github.com/Shopify/toxiproxy/v2/cmd/server@{VERSION}"
    subprocess.run(["go", "install", package], env=env, cwd="/", check=True)
    (SERVER.parent / "server").rename(SERVER)


def free_port() -> int:
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        port: int = found.getsockname()[1]
        return port


class Proxy:
    """One proxy of a toxiproxy server."""

    def __init__(self, control: str, listen: str, upstream: str) -> None:
        self._control = control
        self.address = "http://" + listen
        self._call("/proxies", {"name": "p", "listen": listen, "upstream": upstream, "enabled": True})

    def _call(self, path: str, body: dict[str, object]) -> None:
        request = urllib.request.Request(self._control + path, json.dumps(body).encode(), method="POST")
        with urllib.request.urlopen(request, timeout=5):
            pass

    def enable(self, on: bool) -> None:
        """Refuse connections, and end those that are open; or take them again."""
        self._call("/proxies/p", {"enabled": on})

    def add(self, kind: str, **attributes: int) -> None:
        """Spoil both directions."""
        for stream in ("upstream", "downstream"):
            body = {"type": kind, "stream": stream, "name": f"{kind}-{stream}", "attributes": attributes}
            self._call("/proxies/p/toxics", body)

    def reset(self) -> None:
        """All as it was."""
        self._call("/reset", {})


@contextlib.contextmanager
def proxy(origin: str) -> Iterator[Proxy]:
    """A proxy before a server, given as http://HOST:PORT."""
    port = free_port()
    command = [str(SERVER), "-host", "127.0.0.1", "-port", str(port)]
    with subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as server:
        try:
            yield _connect(f"http://127.0.0.1:{port}", f"127.0.0.1:{free_port()}", urlsplit(origin).netloc)
        finally:
            server.terminate()


def _connect(control: str, listen: str, upstream: str) -> Proxy:
    deadline = time.monotonic() + 10
    while True:
        try:
            return Proxy(control, listen, upstream)
        except urllib.error.URLError:
            if time.monotonic() > deadline:
                raise
            time.sleep(0.02)


@contextlib.contextmanager
def read_only(folder: str) -> Iterator[None]:
    """The folder mounted read-only, which holds for root too."""
    subprocess.run(["mount", "--bind", folder, folder], check=True)
    try:
        subprocess.run(["mount", "-o", "remount,bind,ro", folder], check=True)
        yield
    finally:
        subprocess.run(["umount", "-l", folder], check=False)
