"""Logging while the interpreter ends: exit handlers, __del__, daemon threads. Nothing is lost."""

from __future__ import annotations

import fcntl
import os
import sysconfig
from pathlib import Path

import pytest

import kymogram

from . import reader
from .test_process import INIT, ends, finish, no_agent, values

__all__ = ["no_agent"]  # a fixture of every test here


def free(folder: Path) -> bool:
    """Whether nobody holds the writer's lock: what the deliverer takes for its end."""
    descriptor = os.open(folder / "lock", os.O_RDWR)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        return False
    finally:
        os.close(descriptor)
    return True


with_modules = pytest.mark.skipif(
    bool(sysconfig.get_config_var("Py_GIL_DISABLED")),
    reason="free-threaded Python empties the modules before it ends what they hold",
)


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("import atexit\natexit.register(lambda: kymogram.log('x', 9.0))\n", ""),
        pytest.param(
            "class Late:\n    def __del__(self): kymogram.log('x', 9.0)\n",
            "late = Late()\nlate.me = late\nimport atexit, gc\natexit.register(gc.collect)\n",
            marks=with_modules,
        ),
        pytest.param(
            "class Late:\n    def __del__(self): kymogram.log('x', 9.0)\n",
            "late = Late()\n",
            marks=with_modules,
        ),
    ],
)
def test_what_is_logged_after_our_exit_handler(spool: Path, before: str, after: str) -> None:
    code = "import kymogram\n" + before + INIT + "kymogram.log('x', 1.0)\n" + after
    out, said = finish(code)
    assert (out, said) == ("", "")
    assert values(spool) == [1.0, 9.0]


@with_modules
def test_a_new_series_after_our_exit_handler(spool: Path) -> None:
    """The interpreter imports nothing any more."""
    late = "class Late:\n    def __del__(self): kymogram.log('new', 9.0, labels={'a': 'b'})\n"
    out, said = finish(
        "import kymogram\n" + late + INIT + "kymogram.log('x', 1.0)\nlate = Late()\n"
    )
    assert (out, said) == ("", "")
    assert values(spool, "new") == [9.0]


def test_daemon_threads_end_without_a_word(spool: Path) -> None:
    work = """
import threading, time
def work():
    while True:
        kymogram.log('x', 1.0)
        kymogram.log_rl_environment_step('y', [1.0, 2.0], 0, env_id=['a', 'b'])
        time.sleep(0)
for _ in range(3): threading.Thread(target=work, daemon=True).start()
time.sleep(0.2)
"""
    out, said = finish(INIT + work)
    assert (out, said) == ("", "")
    assert len(values(spool)) > 10


def test_close_in_a_later_exit_handler(spool: Path) -> None:
    """Registered before init(), so it runs behind our own."""
    code = """
import atexit, kymogram
def last():
    kymogram.log('x', 2.0)
    info = kymogram.close(0)
    print(info.metrics.float_points_added, kymogram.is_initialized())
atexit.register(last)
"""
    out, said = finish(code + INIT + "kymogram.log('x', 1.0)\n")
    assert (out, said) == ("2 False\n", "")
    assert values(spool) == [1.0, 2.0]
    assert ends(spool) == ["finished"]


def test_an_interrupted_close_lets_go(spool: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Ctrl-C in a notebook's close(): the deliverer sees that nobody writes here any more."""
    run = kymogram.init(run_name="r", log_level="OFF")
    kymogram.log("x", 1.0)

    def interrupt(*_: object) -> str:
        raise KeyboardInterrupt

    monkeypatch.setattr(run, "_wait", interrupt)
    with pytest.raises(KeyboardInterrupt):
        kymogram.close()
    assert not kymogram.is_initialized()
    assert free(reader.writers(spool)[0])
    kymogram.init(run_name="r2", log_level="OFF")
    assert kymogram.is_initialized()


def test_an_interrupted_look_lets_go(spool: Path) -> None:
    """The traceback of an interrupted close() still holds a view of the map."""
    run = kymogram.init(run_name="r", log_level="OFF")
    kymogram.log("x", 1.0)
    view = memoryview(run.logger().writer.segment._map)  # type: ignore[arg-type]
    kymogram.close(0)
    assert not kymogram.is_initialized()
    assert free(reader.writers(spool)[0])
    view.release()


def test_an_interrupted_init_lets_go(spool: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupt(_: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(kymogram.Run, "_announce", interrupt)
        with pytest.raises(KeyboardInterrupt):
            kymogram.init(run_name="r", log_level="OFF")
    assert not kymogram.is_initialized()
    assert free(reader.writers(spool)[0])


@pytest.mark.parametrize("gone", [False, True])
def test_a_spool_that_is_lost(run: kymogram.Run, spool: Path, gone: bool) -> None:
    """Its folder was moved away, or nobody may open a file there: close() says so and returns."""
    kymogram.log("x", 1.0)
    if gone:
        spool.rename(spool.with_name("elsewhere"))
    else:
        (spool / "agent.lock").unlink(missing_ok=True)
        (spool / "agent.lock").symlink_to("nowhere")  # O_NOFOLLOW: an error for root, too
    info = kymogram.close(0.2)
    assert info is not None
    assert info.has_undelivered_spool
