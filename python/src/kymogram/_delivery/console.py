"""stdout and stderr of this process, kept with a run (docs/console.md).

The descriptors 1 and 2 lead to `kymogram relay`, another process: it passes the bytes on
to where they went before, and keeps the lines. So no thread of this process, which may
wait for the GIL, stands between a print and the terminal.
"""

from __future__ import annotations

import io
import json
import os
import socket
import sys
import time
from threading import Event, Thread

from .._platform import seams
from .._say import voice
from . import agent

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

# The channels that processes of this run write to: what is kept already is not kept twice.
VARIABLE = "KYMOGRAM_CONSOLE"
_STREAMS = {1: "stdout", 2: "stderr"}
_START_S = 5.0
_END_S = 5.0  # a terminal that is stopped holds up close() no longer
_REST_S = 0.1
_AT_ONCE = 3_900  # bytes that a pipe takes as one, with their marks
_NAMES = ("KEY", "TOKEN", "SECRET", "PASSWORD")
_LEAST_SECRET = 8


def secrets(environ: dict[str, str] | os._Environ[str], key: str | None) -> list[str]:
    """What no kept line shows: the values of variables with telling names, and our key."""
    found = {key} if key else set()
    for name, value in environ.items():
        plain = name.upper().replace("TOKENIZ", "")
        if len(value) >= _LEAST_SECRET and any(word in plain for word in _NAMES):
            found.add(value)
    return sorted(found)


class Channel:
    """A pipe or pseudo-terminal in the place of one or two descriptors."""

    def __init__(self, descriptors: list[int]) -> None:
        self.descriptors = descriptors
        self.saved = {one: seams.duplicate(one) for one in descriptors}
        self.terminal = os.isatty(descriptors[0])
        self.source, self.end = seams.like_terminal(descriptors[0]) if self.terminal else os.pipe()
        self.identity = _identity(self.end)
        self.stream = _STREAMS[descriptors[0]]

    def document(self) -> dict[str, Any]:
        """What the relay is told of it."""
        target = self.saved[self.descriptors[0]]
        return {
            "source": self.source,
            "target": target,
            "stream": self.stream,
            "terminal": self.terminal,
        }

    def enter(self) -> None:
        """Take the descriptors' place."""
        for one in self.descriptors:
            os.dup2(self.end, one)
        os.close(self.end)

    def leave(self, mark: bytes = b"") -> bool:
        """Give the descriptors back, unless the program led them elsewhere; then write a mark."""
        last = -1
        for one, saved in self.saved.items():
            if _identity(one) == self.identity:
                if last < 0:
                    last = seams.duplicate(one)
                os.dup2(saved, one)
        if last < 0:
            return False
        try:
            return bool(mark and seams.writable(last, _END_S) and os.write(last, mark))
        except OSError:  # the relay is gone
            return False
        finally:
            os.close(last)

    def rest(self, *marks: bytes, wait: float = 0) -> None:
        """Write what a relay that died left behind."""
        try:
            while seams.readable(self.source, wait) and (data := os.read(self.source, 1 << 16)):
                for mark in marks:
                    data = data.replace(mark, b"")
                os.write(self.saved[self.descriptors[0]], data)
        except OSError:
            pass

    def close(self) -> None:
        """Close all that nobody else knows."""
        for one in (self.source, *self.saved.values()):
            os.close(one)


class Console:
    """The relay of this process, and the channels to it."""

    def __init__(
        self, run: str, descriptors: list[int], path: str, document: dict[str, Any]
    ) -> None:
        self.run = run
        begin = b"\x1b_kymogram:" + os.urandom(8).hex().encode() + b":"
        self._error, self._output, self._end = (
            begin + one + b"\x1b\\" for one in (b"e", b"o", b"z")
        )
        self._ends = 0
        self._over = Event()  # there is news of the relay
        self._alive = True
        self._stderr: Any = None
        self._closed = False
        self._control, theirs = socket.socketpair()
        self.channels = [Channel(some) for some in _together(descriptors)]
        try:
            document["marker"] = begin.split(b":")[1].decode()
            document["channels"] = [one.document() for one in self.channels]
            self._start(path, document, theirs)
        except BaseException:
            self._control.close()
            for one in self.channels:
                os.close(one.end)
                one.close()
            raise
        finally:
            theirs.close()
        self._enter()
        Thread(target=self._listen, name="kymogram-console", daemon=True).start()

    def _start(self, path: str, document: dict[str, Any], theirs: socket.socket) -> None:
        """Start the relay and wait until it is ready."""
        kept = [theirs.fileno()]
        for one in self.channels:
            kept += [one.source, one.saved[one.descriptors[0]]]
        command = [path, "relay", "--control", str(theirs.fileno())]
        agent.launch(document["spool"], command, tuple(kept))
        theirs.close()
        self._control.settimeout(_START_S)
        self._control.sendall(json.dumps(document).encode() + b"\n")
        answer = self._control.recv(64)
        if answer != b"ready\n":
            log = os.path.join(document["spool"], "agent.log")
            raise OSError(f"{path} relay did not start, see {log}; is it an older version?")
        self._control.settimeout(None)

    def _enter(self) -> None:
        _flush()
        for one in self.channels:
            one.enter()
            if one.descriptors == [1, 2]:
                self._mark_stderr(one)
        os.environ[VARIABLE] = ",".join(one.identity for one in self.channels)

    def _mark_stderr(self, channel: Channel) -> None:
        """Both streams are one: have what Python writes to stderr marked."""
        found = sys.stderr
        if type(found) is not io.TextIOWrapper or found.fileno() != 2:  # such as a notebook's
            return
        raw = Marked(channel.identity, self._error, self._output)
        self._stderr = io.TextIOWrapper(
            io.BufferedWriter(raw),
            encoding=found.encoding,
            errors=found.errors,
            newline="\n",
            line_buffering=found.line_buffering,
            write_through=found.write_through,
        )
        self._before, sys.stderr = found, self._stderr

    def _listen(self) -> None:
        """Hear what the relay says, to its end."""
        text = b""
        while True:
            try:
                data = self._control.recv(256)
            except OSError:
                data = b""
            *lines, text = (text + data).split(b"\n")
            for line in lines:
                self._ends += line == b"end"
                if line == b"gone" and not self._closed:
                    self._leave()  # the program meets the error itself
            if not data:
                self._alive = False
                self._over.set()
                break
            if b"end" in lines:
                self._over.set()
        if not self._closed:
            self._lost()

    def _lost(self) -> None:
        """The relay is gone: go on without one."""
        marks = (self._error, self._output, self._end)
        for one in self.channels:
            one.rest(*marks)
        self._leave()
        for one in self.channels:
            one.rest(*marks, wait=_REST_S)
        voice.warn(
            f"the relay of the console ended, see agent.log in the spool; from now on the run "
            f"{self.run!r} keeps no lines"
        )

    def _leave(self, mark: bytes = b"") -> int:
        """Give the descriptors back; how many channels have the mark."""
        global _active
        _active = None
        self._closed = True
        if os.environ.get(VARIABLE) == ",".join(one.identity for one in self.channels):
            del os.environ[VARIABLE]
        _flush()
        if self._stderr is not None and sys.stderr is self._stderr:
            sys.stderr = self._before
        return sum(one.leave(mark) for one in self.channels)

    def end(self) -> None:
        """Give the descriptors back, once the terminal has all that was written."""
        if self._closed:
            return
        marked = self._leave(self._end)
        deadline = time.monotonic() + _END_S
        while self._ends < marked and self._over.wait(max(deadline - time.monotonic(), 0)):
            if not self._alive:
                break
            self._over.clear()
        self._control.shutdown(socket.SHUT_RDWR)
        for one in self.channels:
            one.close()

    def forked(self) -> None:
        """In a forked child: the output goes on to the parent's relay; its ends are not ours."""
        global _active
        _active = None
        self._closed = True
        self._control.close()
        for one in self.channels:
            one.close()


class Marked(io.RawIOBase):
    """Descriptor 2 with marks around each write, as long as it leads to the relay."""

    name, mode = "<stderr>", "wb"

    def __init__(self, identity: str, begin: bytes, end: bytes) -> None:
        self._identity, self._begin, self._end = identity, begin, end

    def writable(self) -> bool:
        """It is."""
        return True

    def fileno(self) -> int:
        """The descriptor."""
        return 2

    def isatty(self) -> bool:
        """Whether it is a terminal."""
        return os.isatty(2)

    def write(self, data: Any) -> int:
        """Write a piece: as one with its marks, so that no other process comes between."""
        if _identity(2) != self._identity:
            return os.write(2, data)
        part = bytes(data[:_AT_ONCE])
        framed = self._begin + part + self._end
        while framed:
            framed = framed[os.write(2, framed) :]
        return len(part)


_active: Console | None = None


def begin(
    run: str, root: str, server: str, request: dict[str, Any], key: str | None
) -> Console | None:
    """Keep the lines of stdout and stderr with a run; None, said, where that cannot be."""
    global _active
    if _active is not None:
        voice.warn(
            f"the console goes to the run {_active.run!r}, not to {run!r}: close() that first"
        )
        return None
    kept = os.environ.get(VARIABLE, "").split(",")
    found = [one for one in _STREAMS if (_identity(one) or kept[0]) not in kept]
    if not found:  # the process that started this one keeps its lines
        return None
    path = agent.binary()
    if path is None:
        voice.warn(f"capture_console keeps no lines: {agent.MISSING}")
        return None
    document = {
        "spool": root,
        "server": server,
        "open": {name: value for name, value in request.items() if name != "initial"},
        "pid": os.getpid(),
        "secrets": secrets(os.environ, key),
    }
    try:
        _active = Console(run, found, path, document)
    except OSError as error:
        voice.warn(f"capture_console keeps no lines: {error}")
    return _active


def _together(descriptors: list[int]) -> list[list[int]]:
    """Descriptors that lead to the same place share a channel, which keeps their order."""
    same = len(descriptors) == 2 and _identity(descriptors[0]) == _identity(descriptors[1])
    return [descriptors] if same else [[one] for one in descriptors]


def _identity(descriptor: int) -> str:
    """Which file it is; "" for a closed descriptor."""
    try:
        found = os.fstat(descriptor)
    except OSError:
        return ""
    return f"{found.st_dev}:{found.st_ino}"


def _flush() -> None:
    for one in (sys.stdout, sys.stderr):
        try:
            one.flush()
        except (AttributeError, OSError, ValueError):  # None, or closed
            pass
