"""The child process that takes part: one JSON object a line, in and out."""

from __future__ import annotations

import contextlib
import json
import subprocess
import threading
from collections.abc import Callable, Mapping
from typing import Any

from .._delivery import agent
from .._exceptions import KymogramError

Sign = Callable[[bytes], bytes]


class NetstateError(KymogramError):
    """What the network's state refused, or what could not be reached.

    `code` is the reason in one word (state_refused, unavailable, not_found, …), `hint` says
    what to do about it.
    """

    def __init__(self, message: str, code: str = "failed", hint: str = "") -> None:
        super().__init__(f"{message} ({hint})" if hint else message)
        self.code = code
        self.hint = hint


class Participant:
    """`kymogram netstate`, for as long as this object is open. Calls wait for one another."""

    def __init__(self, sign: Sign | None = None) -> None:
        path = agent.binary()
        if path is None:
            raise NetstateError(agent.MISSING, "missing_binary")
        self._sign = sign
        self._lock = threading.Lock()
        self._calls = 0
        self._process = subprocess.Popen(
            [path, "netstate"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )

    def call(self, method: str, **params: Any) -> Any:
        """Ask for one thing, and sign what the answer needs signed."""
        with self._lock:
            self._calls += 1
            self._write({"id": self._calls, "method": method, "params": params})
            answer = self._read()
            while "sign" in answer:
                self._write({"signature": self._signature(bytes.fromhex(answer["sign"]))})
                answer = self._read()
        error = answer.get("error")
        if error:
            raise NetstateError(error["message"], error["code"], error.get("hint", ""))
        return answer["result"]

    def close(self, timeout: float = 30.0) -> None:
        """End the run and the process."""
        with self._lock:
            if self._process.poll() is None:
                try:
                    self._process.communicate(timeout=timeout)  # closes its stdin
                except subprocess.TimeoutExpired:
                    self._process.kill()
                    self._process.wait()
            for pipe in (self._process.stdin, self._process.stdout):
                if pipe is not None:
                    with contextlib.suppress(OSError):  # what was written last has no reader
                        pipe.close()

    def _signature(self, message: bytes) -> str:
        if self._sign is None:
            return ""
        try:
            return self._sign(message).hex()
        except Exception:  # the child waits for an answer: it refuses, and that is raised
            return ""

    def _write(self, document: Mapping[str, Any]) -> None:
        pipe = self._process.stdin
        text = json.dumps(document, allow_nan=False)
        try:
            if pipe is None or pipe.closed:
                raise OSError("it is closed")
            pipe.write(text + "\n")
            pipe.flush()
        except OSError as error:
            raise NetstateError(f"kymogram netstate has ended: {error}", "ended") from error

    def _read(self) -> dict[str, Any]:
        pipe = self._process.stdout
        line = pipe.readline() if pipe is not None else ""
        if not line:
            raise NetstateError("kymogram netstate has ended; it said why on stderr", "ended")
        answer: dict[str, Any] = json.loads(line)
        return answer
