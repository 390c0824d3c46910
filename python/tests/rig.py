"""A real server for the tests that need one, and the delivery of what was logged."""

from __future__ import annotations

import socket
import subprocess
import threading
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

from kymogram import query

from .conftest import closed_port, real_binary

BINARY = real_binary()
NO_BINARY = "the kymogram binary is not built: make build, or set KYMOGRAM_BINARY"


class Served:
    """A real server, and how points come to it and back."""

    def __init__(self, folder: Path, spool: Path, *, keys: bool = False) -> None:
        self.folder, self.spool, self.keys = folder, spool, keys
        self.address = f"http://127.0.0.1:{closed_port()}"
        self.client = query.Client(self.address)

    def run(self) -> Iterator[Served]:
        """Start the server, and stop it at the end."""
        command = [str(BINARY), "serve", "--data", str(self.folder)]
        command += ["--http", self.address.removeprefix("http://")]
        command += [] if self.keys else ["--no-auth"]
        with (self.folder.parent / "server.log").open("w") as log:
            process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=log, text=True)
        assert process.stdout is not None
        assert process.stdout.readline().startswith("ready ")
        self.client = query.Client(self.address)  # with the key that the server has made
        yield self
        process.kill()
        process.wait()
        process.stdout.close()

    def sync(self) -> None:
        """Deliver the spool."""
        self.cli("sync", "--spool", str(self.spool), "--timeout", "30s")

    def cli(self, *arguments: str) -> str:
        """What a command of the binary prints."""
        done = subprocess.run(
            [str(BINARY), *arguments], capture_output=True, text=True, timeout=60, check=False
        )
        assert done.returncode == 0, done.stderr
        return done.stdout

    def only(self, project: str = "default/default") -> query.Run:
        """The one run of a project, delivered."""
        self.sync()
        (found,) = self.client.runs(project)
        return found

    def values(self, metric: str, run: query.Run | None = None, **options: Any) -> dict[int, Any]:
        """The value by step of one series."""
        points = (run or self.only()).points(metric, **options)
        return dict(zip(map(int, points["step"]), points["value"]))


class Proxy:
    """Between programs and a server: away at first, and then as late as `late` says."""

    def __init__(self, server: str, late: float = 0.0) -> None:
        host, _, port = server.removeprefix("http://").partition(":")
        self._to = (host, int(port))
        self.late = late
        self.reached = False  # whether connections lead to the server
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.address = f"http://127.0.0.1:{self._listener.getsockname()[1]}"
        threading.Thread(target=self._accept, daemon=True).start()

    def _accept(self) -> None:
        with suppress(OSError):  # closed
            while True:
                near, _ = self._listener.accept()
                try:
                    if not self.reached:
                        raise ConnectionRefusedError
                    far = socket.create_connection(self._to)
                except OSError:  # the server is away
                    near.close()
                    continue
                for a, b, late in ((near, far, False), (far, near, True)):
                    threading.Thread(target=self._pass, args=(a, b, late), daemon=True).start()

    def _pass(self, source: socket.socket, target: socket.socket, late: bool) -> None:
        with source, target, suppress(OSError):
            while data := source.recv(1 << 16):
                if late:
                    time.sleep(self.late)
                target.sendall(data)

    def close(self) -> None:
        """Take no connection any more."""
        self._listener.close()
