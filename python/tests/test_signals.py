"""SIGTERM and SIGINT: the run says so, and the process ends as it would without us."""

from __future__ import annotations

import os
import signal
import time

import pytest

from .rig import Served
from .test_process import start

INIT = "import kymogram, os, signal, sys, threading, time\n"
INIT += "run = kymogram.init(run_name='r', log_level='OFF')\n"
READY = "kymogram.log('x', 1.0)\nos.write(1, b'.')\n"
HANDLER = "import signal, sys\ndef stop(*_): sys.exit(7)\nsignal.signal(signal.SIGTERM, stop)\n"
ASYNC = """
import asyncio
async def main():
    stop = asyncio.Event()
    %s
    kymogram.log('x', 1.0)
    os.write(1, b'.')
    await stop.wait()
asyncio.run(main())
"""


def ended(served: Served, code: str, number: int) -> tuple[int, str, list[str], int]:
    """A program that gets a signal: its exit code, the run's status, by what, and its points."""
    process = start(code)
    assert process.stdout is not None
    assert process.stdout.read(1) == b".", process.communicate()[1].decode()
    time.sleep(0.05)
    began = time.monotonic()
    process.send_signal(number)
    process.communicate(timeout=60)
    assert time.monotonic() - began < 10
    run = served.only()
    by = [one["signal"] for one in run.detail()["writers"] if "signal" in one]
    return process.returncode, run.status, by, sum(one.count for one in run.series("^x$"))


@pytest.mark.parametrize(
    "work",
    [
        "time.sleep(60)",
        "while True: run.log('y', 1.0)",
        "sum(range(10**12))",  # the lock of the interpreter is never free
        "signal.signal(signal.SIGUSR1, print)\ntime.sleep(60)",
        "t = threading.Thread(target=time.sleep, args=(60,))\nt.start()\nt.join()",
        "assert signal.getsignal(signal.SIGTERM) is signal.SIG_DFL\ntime.sleep(60)",
        "run.close()\nrun = kymogram.init(run_name='r', resume_strategy='allow')\ntime.sleep(60)",
    ],
)
def test_the_default_action_of_sigterm(served: Served, work: str) -> None:
    again = "kymogram.log('x', 1.0)\n" if "close" in work else ""
    code = INIT + again + READY + work
    if again:  # the second run is the one that is ended
        code = INIT + work.replace("time.sleep", READY + "time.sleep")
    found = ended(served, code, signal.SIGTERM)
    assert found == (-signal.SIGTERM, "interrupted", ["SIGTERM"], 1)


def test_opened_by_a_thread(served: Served) -> None:
    """signal.signal is refused there."""
    work = "t = threading.Thread(target=lambda: exec(INIT)); t.start(); t.join()\n"
    code = f"import kymogram, threading, os, time\nINIT = {INIT!r}\n{work}{READY}time.sleep(60)"
    found = ended(served, code, signal.SIGTERM)
    assert found == (-signal.SIGTERM, "interrupted", ["SIGTERM"], 1)


@pytest.mark.parametrize(
    "code",
    [
        INIT + READY + "time.sleep(60)",
        INIT + "with run:\n    " + READY.replace("\n", "\n    ") + "time.sleep(60)",
        INIT + ASYNC % "",
        "import sys\nsys.excepthook = lambda *_: None\n" + INIT + READY + "time.sleep(60)",
        INIT + READY + "sys.excepthook = lambda *_: None\ntime.sleep(60)",
    ],
)
def test_ctrl_c(served: Served, code: str) -> None:
    assert ended(served, code, signal.SIGINT) == (-signal.SIGINT, "interrupted", ["SIGINT"], 1)


@pytest.mark.parametrize(
    ("code", "number", "exit_code", "status"),
    [
        (HANDLER + INIT + READY + "time.sleep(60)", signal.SIGTERM, 7, "finished"),
        (INIT + HANDLER + READY + "time.sleep(60)", signal.SIGTERM, 7, "finished"),
        (
            INIT + ASYNC % "asyncio.get_running_loop().add_signal_handler(15, stop.set)",
            signal.SIGTERM,
            0,
            "finished",
        ),
        (
            "import signal\nsignal.signal(15, signal.SIG_IGN)\n" + INIT + READY + "time.sleep(1)",
            signal.SIGTERM,
            0,
            "finished",
        ),
        (
            INIT + "signal.signal(15, signal.SIG_IGN)\n" + READY + "time.sleep(1)",
            signal.SIGTERM,
            0,
            "finished",
        ),
        (
            "import faulthandler\nfaulthandler.register(15)\n" + INIT + READY + "time.sleep(1)",
            signal.SIGTERM,
            0,
            "finished",
        ),
        (INIT + READY + "time.sleep(60)", signal.SIGKILL, -signal.SIGKILL, "lost"),
        (INIT + READY + "time.sleep(60)", signal.SIGUSR1, -signal.SIGUSR1, "lost"),
    ],
)
def test_what_is_no_interrupt(
    served: Served, code: str, number: int, exit_code: int, status: str
) -> None:
    """The program's own handlers, whenever they come, and signals that say nothing."""
    assert ended(served, code, number) == (exit_code, status, [], 1)


@pytest.mark.parametrize("logs", [False, True])
def test_a_child_that_is_terminated(served: Served, logs: bool) -> None:
    """The process that opened the run decides: also when it vanishes later without a word."""
    child = "kymogram.log('x', 1.0)\n    " if logs else ""
    work = f"""
pid = os.fork()
if pid == 0:
    {child}os.write(1, b'.')
    time.sleep(60)
time.sleep(0.3)
os.kill(pid, 15)
assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == -15
"""
    process = start(INIT + work)
    assert process.communicate(timeout=60)[1] == b""
    run = served.only()
    assert (process.returncode, run.status) == (0, "finished")
    assert all("signal" not in one for one in run.detail()["writers"])
    process = start(INIT.replace("'r'", "'r2'") + work + "os.kill(os.getpid(), 9)")
    process.communicate(timeout=60)
    served.sync()
    (run,) = served.client.runs("default/default", name="r2")
    assert (process.returncode, run.status) == (-9, "lost")


def test_a_child_with_a_run_of_its_own(served: Served) -> None:
    code = (
        INIT
        + f"""
kymogram.close()
pid = os.fork()
if pid == 0:
    kymogram.init(run_name='child', log_level='OFF')
    {READY.splitlines()[0]}
    os.kill(os.getpid(), 15)
assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == -15
"""
    )
    process = start(code)
    assert process.communicate(timeout=60)[1] == b""
    served.sync()
    found = {run.name: run.status for run in served.client.runs("default/default")}
    assert found == {"r": "finished", "child": "interrupted"}


def test_two_runs_at_once(served: Served) -> None:
    """A MetricsLogger's run is open beside the current one."""
    code = INIT + "from kymogram.telemetry import MetricsLogger\n"
    code += "beside = MetricsLogger()\nbeside.log('m', {}, {'v': 1.0})\n"
    process = start(code + READY + "os.kill(os.getpid(), 15)")
    out, err = process.communicate(timeout=60)
    assert (process.returncode, out) == (-15, b"."), err.decode()
    served.sync()
    for project in ("default/default", "tplr/tplr"):
        assert [run.status for run in served.client.runs(project)] == ["interrupted"]


def test_what_children_inherit(served: Served) -> None:
    """A program that is started has the default action, and one that is not told of the file."""
    work = """
import subprocess
def started(*command): return subprocess.check_output(command, close_fds=False, text=True)
blocked = [line for line in open('/proc/self/status') if line.startswith('SigBlk')]
lines = started('cat', '/proc/self/status').splitlines(True)
assert [line for line in lines if line.startswith('SigBlk')] == blocked
caught = [line.split()[1] for line in lines if line.startswith('SigCgt')]
assert int(caught[0], 16) >> 14 & 1 == 0
assert 'SIGTERM' not in started('ls', '-l', '/proc/self/fd')
"""
    if not os.path.exists("/proc/self/status"):
        pytest.skip("this system has no /proc")
    process = start(INIT + work)
    assert process.communicate(timeout=60)[1] == b""
    assert process.returncode == 0
    assert served.only().status == "finished"
