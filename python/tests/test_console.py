"""capture_console: the terminal gets the same bytes as without, and the run has the lines.

The oracle of the bytes is the same program without the argument; that of the lines is a
terminal emulator of this file, a grid of characters. Programs are real processes, on a real
pseudo-terminal or on pipes.
"""

from __future__ import annotations

import fcntl
import json
import os
import pty
import re
import select
import signal
import struct
import subprocess
import sys
import termios
import textwrap
import time
from collections.abc import Callable
from pathlib import Path
from urllib.request import urlopen

import pytest

from kymogram._delivery import console

from .conftest import closed_port
from .rig import BINARY, NO_BINARY, Served

pytestmark = [
    pytest.mark.skipif(BINARY is None, reason=NO_BINARY),
    pytest.mark.skipif(sys.platform != "linux", reason="the tests look into /proc"),
]

SOURCE = Path(__file__).resolve().parents[1] / "src"
HEAD = """
    import os, sys, time, subprocess, ctypes
    import kymogram
    CAPTURE = os.environ["TEST_CAPTURE"] == "1"
    run = kymogram.init(run_name="run", capture_console=CAPTURE, capture_system_metrics=False,
                        capture_environment=False, log_level="ERROR")
"""


class Program:
    """A program with and without the argument."""

    def __init__(self, body: str, served: Served, spool: Path, *, head: str = HEAD) -> None:
        self.text = textwrap.dedent(head) + textwrap.dedent(body)
        self.served, self.spool = served, spool

    def environment(self, capture: bool) -> dict[str, str]:
        """Its variables."""
        return {
            **{k: v for k, v in os.environ.items() if not k.startswith("KYMOGRAM_ATT")},
            "TEST_CAPTURE": "1" if capture else "0",
            "KYMOGRAM_SERVER": self.served.address,
            "KYMOGRAM_SPOOL_DIR": str(self.spool if capture else self.spool.parent / "other"),
            "KYMOGRAM_BINARY": str(BINARY),
            "KYMOGRAM_INIT_MODE": "online_only" if capture else "offline",
            "PYTHONPATH": str(SOURCE),
            "PYTHONUNBUFFERED": "",
            "TERM": "xterm",
        }

    def piped(self, capture: bool = True, **options: object) -> tuple[bytes, bytes, int]:
        """What it writes to two pipes, and how it ends."""
        done = subprocess.run(
            [sys.executable, "-c", self.text],
            env=self.environment(capture),
            capture_output=True,
            timeout=60,
            check=False,
            **options,  # type: ignore[call-overload]
        )
        return done.stdout, done.stderr, done.returncode

    def on_terminal(
        self, capture: bool = True, act: Callable[[int, int, bytes], None] | None = None
    ) -> tuple[bytes, int]:
        """What it writes to a terminal of 97 columns; `act` is called with what came so far."""
        pid, terminal = pty.fork()
        if pid == 0:
            os.execve(sys.executable, [sys.executable, "-c", self.text], self.environment(capture))
        fcntl.ioctl(terminal, termios.TIOCSWINSZ, struct.pack("4H", 31, 97, 0, 0))
        got = b""
        end = time.monotonic() + 60
        while time.monotonic() < end:
            if not select.select([terminal], [], [], 1)[0]:
                continue
            try:
                data = os.read(terminal, 1 << 16)
            except OSError:  # nobody has it open any more
                break
            got += data
            if act is not None:
                act(pid, terminal, got)
        os.close(terminal)
        return got, os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])


@pytest.fixture
def program(served: Served, spool: Path) -> Callable[..., Program]:
    """Makes programs."""
    return lambda body, **options: Program(body, served, spool, **options)


def kept(served: Served, stream: str, project: str = "default/default") -> list[str]:
    """The lines of a stream in the order of their numbers."""
    served.sync()
    lines = []
    for run in served.client.runs(project):
        text = served.cli("logs", run.id, "--json", "--stream", stream, "--server", served.address)
        lines += [json.loads(line) for line in text.splitlines()]
    return [line["text"] for line in sorted(lines, key=lambda one: one["step"])]


def settled(served: Served, stream: str, want: list[str]) -> None:
    """Wait until the relay of a process that was killed has kept its lines."""
    end = time.monotonic() + 10
    while (found := kept(served, stream)) != want and time.monotonic() < end:
        time.sleep(0.1)
    assert found == want


def emulate(data: bytes) -> list[str]:
    """What a terminal of endless width shows: a grid of cells, written for the tests."""
    grid: dict[tuple[int, int], str] = {}
    y = x = bottom = 0
    for token in re.findall(r"\x1b\[[0-9;?]*[A-Za-z]|[\s\S]", data.decode(errors="replace")):
        if token == "\n":
            y, x = y + 1, 0
        elif token == "\r":
            x = 0
        elif token == "\b":
            x = max(0, x - 1)
        elif token == "\t":
            x = (x // 8 + 1) * 8
        elif len(token) > 1:
            count = int(re.sub(r"\D", "", token) or 1)
            if token[-1] == "A":
                y = max(0, y - count)
            elif token[-1] == "K":
                for key in [k for k in grid if k[0] == y and (k[1] >= x or "2" in token)]:
                    del grid[key]
        else:
            grid[y, x] = token
            x += 1
        bottom = max(bottom, y)
    lines: list[dict[int, str]] = [{} for _ in range(bottom + 1)]
    for (row, column), text in grid.items():
        lines[row][column] = text
    rows = [
        "".join(cells.get(i, " ") for i in range(max(cells, default=-1) + 1)).rstrip()
        for cells in lines
    ]
    return rows if rows[-1] else rows[:-1]


MIXED = """
    print("plain", "\\x1b[31mred\\x1b[0m", "ünï", sys.stdout.isatty(), sys.stderr.isatty())
    sys.stdout.flush()
    for i in range(200):
        print("out", i, flush=True)
        print("err", i, file=sys.stderr)
    os.write(1, b"raw \\xff\\xfe bytes\\n")
    os.write(2, b"raw error\\n")
    libc = ctypes.CDLL(None)
    libc.puts(b"from puts"); libc.printf(b"from printf %d\\n", 7); libc.fflush(None)
    subprocess.run(["sh", "-c", "echo child; echo child error >&2"])
    for i in range(101):
        sys.stderr.write(f"\\r{i:3}%|{'#' * (i // 4):25}|"); sys.stderr.flush()
    sys.stderr.write("\\n")
    print("col\\tumn"); print("x" * 20_000); print("no end", end="", flush=True)
    kymogram.close()
"""


def test_pipes_get_the_same_bytes(program: Callable[..., Program], served: Served) -> None:
    with_it, without = program(MIXED).piped(True), program(MIXED).piped(False)
    assert with_it == without
    for stream, data in (("stdout", without[0]), ("stderr", without[1])):
        lines, want = kept(served, stream), emulate(data)
        long = [i for i, line in enumerate(want) if len(line) > 8192]
        for i in long:
            want[i] = f"{'x' * 8192}… [{len(want[i]) - 8192} more characters]"
        assert lines == want
        assert bool(long) == (stream == "stdout")


def test_terminal_gets_the_same_bytes(program: Callable[..., Program], served: Served) -> None:
    with_it, without = program(MIXED).on_terminal(True), program(MIXED).on_terminal(False)
    assert with_it == without
    assert b"True True" in without[0]
    out, err = kept(served, "stdout"), kept(served, "stderr")
    # Both go to one terminal, in order: what Python wrote to sys.stderr is known to be of it.
    assert [line for line in err if line.startswith("err")] == [f"err {i}" for i in range(200)]
    assert [line for line in out if line.startswith("out")] == [f"out {i}" for i in range(200)]
    assert {"from puts", "from printf 7", "child", "child error", "raw error"} <= set(out)
    both = served.cli("logs", "default/default/run", "--server", served.address).splitlines()
    told = [line for line in both if re.match(r"(out|err) \d", line)]
    assert told == [f"{name} {i}" for i in range(200) for name in ("out", "err")]


def test_size_follows(program: Callable[..., Program]) -> None:
    body = """
        import signal
        sizes = []
        signal.signal(signal.SIGWINCH, lambda *_: sizes.append(os.get_terminal_size(1).columns))
        print("ready", os.get_terminal_size(1).columns, os.get_terminal_size(2).lines, flush=True)
        end = time.monotonic() + 20
        while (not sizes or sizes[-1] != 61) and time.monotonic() < end: time.sleep(0.01)
        print("now", os.get_terminal_size(1).columns, os.get_terminal_size(2).lines)
        kymogram.close()
    """
    done: list[object] = []

    def act(_pid: int, terminal: int, got: bytes) -> None:
        if b"ready" in got and not done:
            done.append(fcntl.ioctl(terminal, termios.TIOCSWINSZ, struct.pack("4H", 17, 61, 0, 0)))

    got, code = program(body).on_terminal(True, act)
    assert (got, code) == (b"ready 97 31\r\nnow 61 17\r\n", 0)


NESTED = """
    for i in range(40):
        bars = [f"outer {i:2}/40", f"middle {i * 3:3}/120", f"inner {i * 7 % 40:2}/40"]
        for place, bar in enumerate(bars):
            sys.stderr.write("\\n" * place + "\\r" + bar + "\\x1b[K" + "\\x1b[A" * place)
            sys.stderr.flush()
        time.sleep(0.05)
    sys.stderr.write("\\n\\n\\n")
    kymogram.close()
"""


def test_nested_bars_are_a_line_each(program: Callable[..., Program], served: Served) -> None:
    _, err, _ = program(NESTED).piped()
    assert kept(served, "stderr") == emulate(err)
    assert len(emulate(err)) == 3
    (series,) = served.only().series("console")
    assert 3 < series.count + series.superseded <= 3 * 2 * 6  # of 120; at most twice a second


@pytest.mark.parametrize("terminal", [False, True])
@pytest.mark.parametrize(
    ("ending", "code"),
    [
        ("os.kill(os.getpid(), 9)", -signal.SIGKILL),
        ("os._exit(3)", 3),
        ("raise SystemExit(4)", 4),
        ("raise ValueError('a traceback')", 1),
        ("os.execv('/bin/sh', ['sh', '-c', 'echo from exec; exit 5'])", 5),
        ("os.abort()", -signal.SIGABRT),
    ],
)
def test_endings(
    program: Callable[..., Program], served: Served, terminal: bool, ending: str, code: int
) -> None:
    body = f"""
        for i in range(3_000): print("line", i)
        sys.stdout.flush(); os.write(1, b"the last")
        {ending}
    """
    made = program(body)
    with_it, without = (
        (made.on_terminal(capture) if terminal else made.piped(capture))
        for capture in (True, False)
    )
    assert with_it == without
    assert without[-1] == code
    if terminal:
        lines = [f"line {i}" for i in range(3_000)]
        end = time.monotonic() + 10
        while (found := kept(served, "stdout"))[:3_000] != lines and time.monotonic() < end:
            time.sleep(0.1)
        assert found[:3_000] == lines
        if "Value" in ending:
            assert kept(served, "stderr")[-1] == "ValueError: a traceback"
        return
    settled(served, "stdout", emulate(without[0]))
    settled(served, "stderr", emulate(without[1]))  # type: ignore[arg-type]


@pytest.mark.parametrize("how", ["fork", "spawn"])
def test_workers(program: Callable[..., Program], served: Served, tmp_path: Path, how: str) -> None:
    (tmp_path / "work.py").write_text(
        "import os, sys\n"
        "def work(i):\n"
        "    import kymogram\n"
        "    run = kymogram.init(run_name='run', capture_console=True, log_level='ERROR')\n"
        "    print('worker', i, flush=True); os.write(2, b'worker error\\n')\n"
    )
    body = f"""
        sys.path.insert(0, {str(tmp_path)!r})
        import multiprocessing, work
        if __name__ == "__main__":
            context = multiprocessing.get_context({how!r})
            for i in range(3):
                process = context.Process(target=work.work, args=(i,))
                process.start(); process.join()
            print("main goes on", flush=True)
            kymogram.close()
    """
    made = program(body)
    (tmp_path / "main.py").write_text(made.text)
    made.text = f"import runpy; runpy.run_path({str(tmp_path / 'main.py')!r}, run_name='__main__')"
    out, err, code = made.piped()
    assert (out, code) == (b"worker 0\nworker 1\nworker 2\nmain goes on\n", 0)
    assert kept(served, "stdout") == emulate(out)
    assert kept(served, "stderr") == emulate(err) == ["worker error"] * 3


def test_os_fork(program: Callable[..., Program], served: Served) -> None:
    body = """
        pid = os.fork()
        if pid == 0:
            print("in the child", flush=True)
            kymogram.log({"loss": 1.0})
            os._exit(0)
        os.waitpid(pid, 0)
        print("in the parent", flush=True)
    """
    out, _, code = program(body).piped()
    assert (out, code) == (b"in the child\nin the parent\n", 0)
    settled(served, "stdout", ["in the child", "in the parent"])


def test_descriptors_come_back(program: Callable[..., Program], served: Served) -> None:
    body = """
        def state():
            return [(os.fstat(i).st_ino, os.readlink(f"/proc/self/fd/{i}"), os.get_inheritable(i))
                    for i in (0, 1, 2)]
        before, objects = BEFORE, (sys.stdout, sys.stderr)
        assert state() != before
        kymogram.close()
        assert state() == before, (state(), before)
        for name in ("second", "third"):
            kymogram.init(run_name=name, capture_console=True, log_level="ERROR")
            again = kymogram.init(run_name="another", capture_console=True)
            print(name)
            kymogram.close()
        assert state() == before
        assert "KYMOGRAM_CONSOLE" not in os.environ
        left = [os.readlink(f"/proc/self/fd/{i}") for i in os.listdir("/proc/self/fd")
                if os.path.exists(f"/proc/self/fd/{i}")]
        print("after", len([one for one in left if one.startswith("pipe:")]))
    """
    head = """
        import os
        BEFORE = [(os.fstat(i).st_ino, os.readlink(f"/proc/self/fd/{i}"), os.get_inheritable(i))
                  for i in (0, 1, 2)]
    """
    head = textwrap.dedent(head) + textwrap.dedent(HEAD)
    out, err, code = program(body, head=head).piped()
    assert (out, code) == (b"second\nthird\nafter 2\n", 0), err
    assert sorted(kept(served, "stdout")) == ["second", "third"]


def test_reader_that_leaves(program: Callable[..., Program]) -> None:
    """As without the argument, a program whose reader is gone gets the error itself."""
    body = """
        for i in range(100_000): print("line", i, flush=True)
        time.sleep(2)
        for i in range(100_000): print("line", i, flush=True)
    """
    made = program(body)
    process = subprocess.Popen(
        [sys.executable, "-c", made.text],
        env=made.environment(True),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    assert process.stdout is not None and process.stderr is not None
    assert process.stdout.readline() == b"line 0\n"
    process.stdout.close()
    assert b"BrokenPipeError" in process.stderr.read()
    assert process.wait(30) != 0


@pytest.mark.parametrize("terminal", [False, True])
def test_relay_that_is_killed(program: Callable[..., Program], terminal: bool) -> None:
    body = """
        import signal
        for i in range(100): print("line", i, flush=True)
        time.sleep(0.5)
        for pid in filter(str.isdigit, os.listdir("/proc")):
            try:
                args = open(f"/proc/{pid}/cmdline", "rb").read().split(b"\\0")
                spool = f"KYMOGRAM_SPOOL_DIR={os.environ['KYMOGRAM_SPOOL_DIR']}".encode()
                if args[1:2] == [b"relay"] and spool in open(f"/proc/{pid}/environ", "rb").read():
                    os.kill(int(pid), signal.SIGKILL)
            except OSError:
                pass
        for i in range(100, 5_000): print("line", i, flush=True)
        kymogram.close()
    """
    made = program(body)
    out, code = made.on_terminal() if terminal else made.piped()[::2]
    assert code == 0
    numbers = [int(number) for number in re.findall(rb"line (\d+)\r?\n", out)]
    assert numbers[:100] == list(range(100)) and 4_999 in numbers
    assert len(numbers) == len(set(numbers))
    # What it had just read when it was killed is lost: one piece of at most 64 KiB.
    assert 10 * (5_000 - len(numbers)) < 1 << 16


def test_call_that_holds_the_gil(program: Callable[..., Program]) -> None:
    """A C call with the GIL that writes more than a pipe holds ends: the relay is a process."""
    body = """
        libc = ctypes.PyDLL(None)  # keeps the GIL
        for i in range(40_000): pass
        data = b"y" * 4_000_000
        assert libc.write(1, data, len(data)) > 0
        libc.puts(b""); libc.fflush(None)
        kymogram.close()
    """
    out, err, code = program(body).piped()
    assert (out.strip(b"\n"), code) == (b"y" * 4_000_000, 0), err


def test_secrets_are_masked(
    program: Callable[..., Program], served: Served, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MY_API_KEY", "correct-horse-battery")
    monkeypatch.setenv("DB_PASSWORD", "p4ss phrase!")
    monkeypatch.setenv("TOKENIZERS_PARALLELISM", "false-ish-value")
    monkeypatch.setenv("SHORT_TOKEN", "short")
    body = """
        key = os.environ["MY_API_KEY"]
        print("key", key, "and", os.environ["DB_PASSWORD"], flush=True)
        for char in "in pieces " + key + " end\\n":
            os.write(1, char.encode()); time.sleep(0.001)
        sys.stdout.flush()
        os.write(1, b"paused " + key[:12].encode()); time.sleep(1.2)
        os.write(1, key[12:].encode() + b"\\n")
        print("ghp_" + "a1B2" * 9, "Bearer abcdef123456.xyz", "https://me:hunter22@host/x")
        print("short", "false-ish-value")
        print("z" * 8185 + key)
        kymogram.close()
    """
    out, _, _ = program(body).piped()
    assert out.count(b"correct-horse-battery") == 4
    lines = kept(served, "stdout")
    assert lines[:5] == [
        "key **** and ****",
        "in pieces **** end",
        "paused ****",
        "**** Bearer **** https://me:****@host/x",
        "short false-ish-value",
    ]
    assert lines[5] == "z" * 8185 + "****"
    (run,) = served.client.runs("default/default")
    query = "metric=console&label.stream=stdout&attempt=all"  # also what was replaced
    with urlopen(f"{served.address}/api/v1/runs/{run.id}/points?{query}") as answer:
        text = answer.read().decode()
    assert "in pieces" in text
    assert "correct-hors" not in text


def test_secret_names() -> None:
    """Names tell secrets; values of fewer than 8 characters are found in any text."""
    given = {
        "A_KEY": "12345678",
        "B_TOKEN": "1234567",
        "HOME": "/home/someone",
        "pass_word": "x" * 9,
    }
    assert console.secrets({**given, "db_password": "y" * 9}, "our-key") == [
        "12345678",
        "our-key",
        "y" * 9,
    ]


@pytest.mark.parametrize(("given", "lines"), [(None, ["by variable"]), (False, [])])
def test_variable_switches_it_on(
    program: Callable[..., Program],
    served: Served,
    monkeypatch: pytest.MonkeyPatch,
    given: bool | None,
    lines: list[str],
) -> None:
    """The argument goes before the variable."""
    monkeypatch.setenv("KYMOGRAM_CAPTURE_CONSOLE", "1")
    head = f"""
        import kymogram
        kymogram.init(run_name="run", log_level="ERROR", capture_system_metrics=False,
                      capture_console={given})
        kymogram.log("loss", 0.5)
    """
    out, _, code = program("print('by variable'); kymogram.close()", head=head).piped()
    assert (out, code) == (b"by variable\n", 0)
    assert kept(served, "stdout") == lines


def test_a_run_that_goes_on_counts_on(program: Callable[..., Program], served: Served) -> None:
    head = HEAD.replace('run_name="run"', 'run_name="run", resume_strategy="allow"')
    for part in ("first", "second"):
        program(f"print('{part}'); kymogram.close()", head=head).piped()
        served.sync()
    assert kept(served, "stdout") == ["first", "second"]


def test_logs_of_other_writers(served: Served) -> None:
    """Lines of W&B have no stream, those of Go's handler have stream=log."""
    script = """
import kymogram
kymogram.init(run_name="run", log_level="ERROR", capture_system_metrics=False)
kymogram.log_text("console", "of W&B", step=0)
kymogram.log_text("console", "of the handler", step=0, labels={"stream": "log"})
kymogram.log_text("console", "of rank 1", step=0, labels={"stream": "stdout", "process": "1"})
kymogram.log_text("console", "twice", step=1)
kymogram.log_text("console", "replaced", step=1)
kymogram.close()
"""
    made = Program(script, served, served.spool, head="")
    _, err, code = made.piped()
    assert code == 0, err
    served.sync()
    to = ("--server", served.address)
    every = served.cli("logs", "default/default/run", *to)
    assert every == "of W&B\nof the handler\nof rank 1\nreplaced\n"
    only = served.cli("logs", "default/default/run", "--stream", "log", *to)
    assert only == "of the handler\n"
    assert served.cli("logs", "default/default/run", "--tail", "2", *to) == "of rank 1\nreplaced\n"
    assert served.cli("logs", "default/default/run", "--since", "1h", *to) == every
    assert served.cli("logs", "default/default/run", "--tail", "0", *to) == ""
    first = json.loads(served.cli("logs", "default/default/run", "--json", *to).splitlines()[2])
    assert first["process"] == "1" and first["stream"] == "stdout"


def test_logs_follow_over_a_restart(served: Served, tmp_path: Path, spool: Path) -> None:
    """Each line comes once, within a second, also when the server was away."""
    address = f"127.0.0.1:{closed_port()}"
    command = [str(BINARY), "serve", "--data", str(tmp_path / "again"), "--no-auth"]
    command += ["--http", address]

    def serve() -> subprocess.Popen[bytes]:
        server = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
        assert server.stdout is not None and server.stdout.readline().startswith(b"ready ")
        return server

    server = serve()
    made = Program("for line in sys.stdin: print(line, end='', flush=True)", served, spool)
    surroundings = made.environment(True) | {"KYMOGRAM_SERVER": "http://" + address}
    program = subprocess.Popen(
        [sys.executable, "-c", made.text],
        env=surroundings,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert program.stdin is not None and program.stdout is not None
    program.stdin.write("0\n")
    program.stdin.flush()
    assert program.stdout.readline() == "0\n"
    logs = subprocess.Popen(
        [str(BINARY), "logs", "default/default/run", "--follow", "--server", "http://" + address],
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    )
    assert logs.stdout is not None and logs.stdout.readline() == "0\n"
    late = []
    for i in range(1, 16):
        if i == 5:
            server.kill()
            server.wait()
        program.stdin.write(f"{i}\n")
        program.stdin.flush()
        if i == 8:
            server = serve()
        if not 5 <= i < 8:
            began = time.monotonic()
            while (line := logs.stdout.readline()) != f"{i}\n":
                assert int(line) in range(5, i)
            late.append(time.monotonic() - began)
    program.stdin.close()
    assert program.wait(30) == 0
    assert logs.wait(30) == 0  # the run has ended
    assert logs.stdout.read() == ""
    server.kill()
    server.wait()
    assert sorted(late)[-2] < 1  # but for the first after the restart


def test_logs_refuses(served: Served) -> None:
    """Wrong options are said."""
    for given in (["--stream", "x"], ["--since", "soon"], ["--tail", "-3"]):
        done = subprocess.run(
            [str(BINARY), "logs", "a/b/c", *given], capture_output=True, text=True, check=False
        )
        assert done.returncode == 2 and given[0] in done.stderr
