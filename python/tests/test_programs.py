"""Random programs against a naive model of seed 004, played by real processes to a real server.

KYMOGRAM_PROGRAMS=N plays N programs, KYMOGRAM_PROGRAM_SEED=S begins with seed S, and
KYMOGRAM_PROGRAM_EXTRA="torch pandas ml_dtypes" has values of these libraries among them.
"""

from __future__ import annotations

import contextlib
import copy
import json
import os
import random
import re
import signal
import subprocess
import sys
import time
from collections import defaultdict
from pathlib import Path
from typing import Any
from urllib import parse, request

import pytest

from .conftest import closed_port
from .rig import BINARY, NO_BINARY
from .seed_model import Key, Model, stored
from .seed_programs import Programs

np = pytest.importorskip("numpy")

SOURCE = Path(__file__).resolve().parents[1] / "src"
COUNT = int(os.environ.get("KYMOGRAM_PROGRAMS", "10"))
FIRST = int(os.environ.get("KYMOGRAM_PROGRAM_SEED", "1"))
EXTRA = tuple(os.environ.get("KYMOGRAM_PROGRAM_EXTRA", "").split())
_SHRINKS = 60
_AGREED = "added sent pending refused dropped".split()


class Wrong(AssertionError):
    """The program and the model differ."""


# programs


def program(seed: int) -> list[dict[str, Any]]:
    """The lives of one run: each is a process with its settings, steps and end."""
    rng = random.Random(seed)
    away = rng.random() < 0.25  # the server is away while the process lives
    count = rng.choice([1, 1, 2, 3])
    programs = Programs(rng, extra=EXTRA, known=not away or count == 1)
    lives = [_life(rng, programs, away) for _ in range(count)]
    for number, one in enumerate(lives):
        programs.rl_step = 0
        if number + 1 < len(lives) and rng.random() < 0.5:
            one["end"] = "kill"
    if rng.random() < 0.25:
        lives[-1]["alarm"] = rng.uniform(0.001, 0.05)
    return lives


def _life(rng: random.Random, programs: Programs, away: bool) -> dict[str, Any]:
    small = rng.random() < 0.6
    setup = {
        "agent": rng.random() < 0.3,
        "first_size": rng.choice([4096, 8192]) if small else 0,
        "last_size": rng.choice([8192, 65536]),
        "mapped": rng.random() < 0.85,
        "gil": rng.random() < 0.85,
        "switch": rng.choice([0, 0, 1e-6]),
        "gc": rng.random() < 0.2,
    }
    init: dict[str, Any] = {"resume_strategy": "allow", "run_name": "r", "log_level": "OFF"}
    init["init_timeout_secs"] = 1.0  # so long get_last_step waits where nobody answers
    if rng.random() < 0.25:
        init |= {"backpressure_strategy": rng.choice(["block", "raise", "drop_new"])}
        init |= {"queue_capacity": 10**9}
    if away:
        init["init_mode"] = rng.choice(["offline", "online_only"])
    steps = [_step(rng, programs, init, number) for number in range(rng.choice([5, 20, 60]))]
    return {
        "setup": setup,
        "init": init,
        "away": away,
        "steps": steps,
        "end": rng.choice(["close", "close", "return", "exit", "kill"]),
        "close_timeout": 0,
        "alarm": 0,
    }


def _step(
    rng: random.Random, programs: Programs, init: dict[str, Any], number: int
) -> dict[str, Any]:
    chance = rng.random()
    if chance < 0.02:
        names = [f"t{programs.turn()}/" for _ in range(rng.choice([2, 4]))]
        made = [Programs(rng, name, EXTRA) for name in names]
        return {"threads": [[one.step() for _ in range(15)] for one in made]}
    if chance < 0.04:
        child = Programs(rng, f"c{programs.turn()}/", EXTRA)
        end = rng.choice(["exit", "kill", "close"])
        return {"fork": [child.step() for _ in range(10)], "end": end}
    if chance < 0.05:
        return {"ask": "restart"}
    return programs.step()


def text_of(lives: list[dict[str, Any]]) -> str:
    """The program as one reads it."""
    lines = []
    for life in lives:
        lines.append(f"# {life['setup']} away={life['away']} alarm={life['alarm']}")
        lines.append(f"kymogram.init(**{life['init']})")
        for step in life["steps"]:
            for part in [*step.get("threads", []), step.get("fork", [])]:
                if part:
                    lines += ["# thread or fork", *("    " + one["line"] for one in part)]
            lines.append(step.get("line", f"# {list(step)}"))
        lines.append(f"# end: {life['end']}")
    return "\n".join(line if len(line) < 600 else f"{line[:600]} …" for line in lines)


# playing


class Stage:
    """A server, and the processes that log to it."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.address = f"http://127.0.0.1:{closed_port()}"
        self.server: subprocess.Popen[str] | None = None
        self.plays = 0
        self.spools: list[Path] = []

    def start(self) -> None:
        """Start the server, if it is not there."""
        if self.server is not None:
            return
        command = [str(BINARY), "serve", "--data", str(self.folder / "data"), "--no-auth"]
        command += ["--http", self.address.removeprefix("http://")]
        with (self.folder / "server.log").open("a") as log:
            self.server = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=log, text=True)
        assert self.server.stdout is not None
        assert self.server.stdout.readline().startswith("ready ")

    def kill(self) -> None:
        """Kill the server."""
        if self.server is not None:
            self.server.kill()
            self.server.communicate()
            self.server = None

    def end(self) -> None:
        """Kill the server and every agent."""
        self.kill()
        for spool in self.spools:
            self.end_agent(spool)

    def end_agent(self, spool: Path) -> None:
        """End the agent of a spool."""
        try:
            pid = int(json.loads((spool / "agent.json").read_text())["pid"])
            command = Path(f"/proc/{pid}/cmdline").read_bytes().decode()
            if str(spool) in command:
                os.kill(pid, signal.SIGKILL)
        except (OSError, KeyError, ValueError):
            pass

    def play(self, lives: list[dict[str, Any]]) -> None:
        """Play a program and compare what the server has with the model."""
        self.plays += 1
        self.project = f"p{self.plays}"
        spool = self.folder / f"spool{self.plays}"
        self.spools.append(spool)
        model, optional = Model(), None
        try:
            for life in lives:
                if life["away"]:
                    self.kill()
                else:
                    self.start()
                model.begin()
                optional = self._live(life, spool, model)
                self.start()
                self._sync(spool)
        finally:
            self.end_agent(spool)
        self._compare(model, optional)

    def _live(
        self, life: dict[str, Any], spool: Path, model: Model
    ) -> tuple[dict[str, Any], tuple[int, int]] | None:
        path = self.folder / "life.json"
        init = {**life["init"], "project_name": self.project, "server": self.address}
        init["capture_environment"] = False
        path.write_text(json.dumps({**life, "init": init}))
        environment = {**os.environ, "PYTHONPATH": str(SOURCE), "KYMOGRAM_SPOOL_DIR": str(spool)}
        environment |= {"KYMOGRAM_BINARY": str(BINARY), "PROGRAM_EXTRA": " ".join(EXTRA)}
        environment["KYMOGRAM_CAPTURE_SYSTEM_METRICS"] = "0"
        environment["PYTHONWARNINGS"] = "ignore"
        player = str(Path(__file__).parent / "seed_player.py")
        with (self.folder / "player.log").open("w+") as log:
            process = subprocess.Popen(
                [sys.executable, player, str(path)],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=log,
                env=environment,
                text=True,
                bufsize=1,
            )
            assert process.stdout is not None
            assert process.stdin is not None
            timer = time.monotonic()
            told: dict[tuple[int, ...], dict[str, Any]] = {}
            for line in process.stdout:
                one = json.loads(line)
                told[tuple(one["at"])] = one
                if "ask" in _at(life["steps"], one["at"]):
                    self.kill()
                    if not life["away"]:
                        self.start()
                    with contextlib.suppress(BrokenPipeError):  # killed by its alarm
                        process.stdin.write("\n")
            process.stdout.close()
            with contextlib.suppress(BrokenPipeError):
                process.stdin.close()
            code = process.wait(60)
            log.seek(0)
            said = log.read()
        allowed = {0, -9 if life["end"] == "kill" else 0, -14 if life["alarm"] else 0}
        if code not in allowed or (-1,) not in told:
            raise Wrong(
                f"the process ended with {code} after {time.monotonic() - timer:.1f} s: {said}"
            )
        return self._follow(life, told, model)

    def _follow(
        self, life: dict[str, Any], told: dict[tuple[int, ...], dict[str, Any]], model: Model
    ) -> tuple[dict[str, Any], tuple[int, int]] | None:
        """Do in the model what the process said it did; what it did not come back from."""
        answered, reachable = told[(-1,)]["answered"], not life["away"]
        for at, step in enumerate(life["steps"]):
            if "fork" in step:  # a writer of its own: the child's calls do not count here
                before = model.floats, model.rl, model.touched, model.placed
                model.touched, model.placed = set(), set()
                self._follow_all(step["fork"], (at, 0), told, model, (False, reachable))
                reachable = False  # what this child logged may wait in the spool
                model.floats, model.rl, model.touched, model.placed = before
            for number, lines in enumerate(step.get("threads", [])):
                self._follow_all(lines, (at, number), told, model, (answered, reachable))
            if (at,) not in told:
                if not life["alarm"]:
                    raise Wrong(f"step {at} did not come back: {step}")
                return step, (0, time.time_ns())
            if "line" in step:
                _check(step, told[(at,)], model, answered, reachable)
        counters = told[(-2,)]["counters"] if (-2,) in told else None
        if counters is not None:
            _check_counters(counters, model, life)
        return None

    def _follow_all(
        self,
        steps: list[dict[str, Any]],
        place: tuple[int, ...],
        told: dict[tuple[int, ...], dict[str, Any]],
        model: Model,
        server: tuple[bool, bool],
    ) -> None:
        for number, step in enumerate(steps):
            at = (*place, number)
            if at not in told:
                return
            _check(step, told[at], model, *server)

    def _sync(self, spool: Path) -> None:
        if not (spool / "writers").is_dir():
            return
        command = [str(BINARY), "sync", "--spool", str(spool), "--timeout", "30s"]
        done = subprocess.run(command, capture_output=True, text=True, timeout=60)
        if done.returncode != 0:
            raise Wrong(f"sync: {done.stderr}")

    # reading back

    def _get(self, path: str, **options: Any) -> Any:
        address = f"{self.address}{path}?{parse.urlencode(options)}"
        with request.urlopen(address, timeout=30) as answer:
            return json.loads(
                answer.read(), parse_int=lambda text: -0.0 if text == "-0" else int(text)
            )

    def _compare(
        self, model: Model, optional: tuple[dict[str, Any], tuple[int, int]] | None
    ) -> None:
        runs = self._get(f"/api/v1/projects/default/{self.project}/runs")["runs"]
        if len(runs) != 1:
            raise Wrong(f"{len(runs)} runs")
        run = runs[0]["id"]
        found: dict[Key, list[dict[str, Any]]] = {}
        kinds: dict[Key, str] = {}
        for one in self._get(f"/api/v1/runs/{run}/series", limit=1000)["series"]:
            key = one["metric"], one["scale"], tuple(sorted(one["labels"].items()))
            kinds[key] = one["kind"]
            found[key] = self._points(run, key, one["kind"], attempt="all")
        maybe = Model()
        if optional is not None and "do" in optional[0]:
            maybe.next = model.next
            maybe.attempt = model.attempt
            maybe.apply(optional[0]["do"], optional[1])
        wanted = {key: points for key, points in model.points.items() if points}
        some = {key: points for key, points in maybe.points.items() if points}
        if optional is not None and {"threads", "fork"} & optional[0].keys():
            return  # the last call of each may be there: what returned is looked at in test_process
        if missing := wanted.keys() - found.keys():
            raise Wrong(f"series are not there: {missing}")
        if more := found.keys() - wanted.keys() - some.keys():
            raise Wrong(f"series too many: {more}")
        for key, points in wanted.items():
            _same(key, points, found[key], some.get(key, []))
            if key[1] == "ML_STEP" and not some and kinds[key] in ("float64", "int64"):
                self._compare_curve(run, key, model, kinds[key])

    def _points(self, run: str, key: Key, kind: str, **options: Any) -> list[dict[str, Any]]:
        labels = {f"label.{name}": value for name, value in key[2]}
        path = f"/api/v1/runs/{run}/points"
        options |= {"metric": key[0], "scale": key[1], "limit": 1_000_000, **labels}
        page = self._get(path, **options)
        assert page["next"] is None
        columns = page["columns"]
        words = {"NaN": float("nan"), "Infinity": float("inf"), "-Infinity": float("-inf")}
        found = []
        for row, value in enumerate(columns["value"]):
            if kind == "float64":
                value = float(words.get(value, value))
            axes = {
                name: column[row]
                for name, column in columns.items()
                if name not in ("value", "time_ns", "attempt", "writer") and column[row] is not None
            }
            found.append({"axes": axes, "value": stored(value), "time": columns["time_ns"][row]})
        return found

    def _compare_curve(self, run: str, key: Key, model: Model, kind: str) -> None:
        curve = model.curve(key)
        if "/d/" in "/" + key[0]:
            return  # every process's points count
        found = self._points(run, key, kind)
        drawn = {point["axes"]["step"]: point["value"] for point in found}
        if drawn != curve or len(found) != len(curve):
            differing = {s for s in drawn.keys() | curve.keys() if drawn.get(s) != curve.get(s)}
            raise Wrong(f"the curve of {key} differs at {sorted(differing)[:9]}")


def _at(steps: list[dict[str, Any]], place: list[int]) -> dict[str, Any]:
    return steps[place[0]] if len(place) == 1 and place[0] >= 0 else {}


def _check(
    step: dict[str, Any], told: dict[str, Any], model: Model, answered: bool, reachable: bool
) -> None:
    """One call: what it raised or answered, and its effect on the model.

    `answered` and `reachable` say what the process knows of the server (Model.has_last_step).
    """
    line = step["line"]
    if "raises" in step:
        if "error" not in told:
            raise Wrong(f"no error: {line}")
        if "KymogramValidationError" not in told["mro"]:
            raise Wrong(f"{told['error']} ({told['text']}): {line}")
        if not re.search(step["raises"], told["text"]):
            raise Wrong(f"the message does not say {step['raises']!r}: {told['text']!r}: {line}")
        return
    if "last" in step and told.get("error") == "KymogramTimeoutError":
        if model.has_last_step(step["last"], answered=answered, reachable=reachable):
            raise Wrong(f"no answer, where there is one ({told['text']}): {line}")
        return
    if "error" in told:
        raise Wrong(f"{told['error']}: {told['text']}: {line}")
    if "do" in step:
        model.apply(step["do"], (told["lo"], told["hi"]))
    elif "last" in step:
        wanted: Any = model.last_step(step["last"])
        if told["answer"] != wanted:
            raise Wrong(f"{told['answer']}, not {wanted}: {line}")
    elif "env" in step:
        wanted = list(model.env.get(step["env"], (None, None)))
        if told["answer"] != wanted:
            raise Wrong(f"{told['answer']}, not {wanted}: {line}")


def _check_counters(counters: dict[str, int], model: Model, life: dict[str, Any]) -> None:
    for kind, number in (("float_points", model.floats), ("rl_float_points", model.rl)):
        added, sent, pending, _, dropped = (counters.get(f"{kind}_{w}", 0) for w in _AGREED)
        if added != number or dropped or added != sent + pending:
            raise Wrong(f"{kind}: {number} logged, added {added} sent {sent} pending {pending}")
        if life["setup"]["agent"] and not life["away"] and sent != number:
            raise Wrong(f"{kind}: {number} logged and flushed, sent {sent}")
    if counters["points_refused"]:
        raise Wrong(f"{counters['points_refused']} points were refused")


def _same(
    key: Key,
    wanted: list[dict[str, Any]],
    found: list[dict[str, Any]],
    maybe: list[dict[str, Any]],
) -> None:
    """The same points: axes and values exactly, a call's own time within the call."""
    groups: dict[Any, list[tuple[int, int]]] = defaultdict(list)
    times: dict[Any, list[int]] = defaultdict(list)
    for point in wanted:
        groups[_identity(point)].append((point["lo"], point["hi"]))
    for point in found:
        times[_identity(point)].append(point["time"])
    for point in maybe:
        one = _identity(point)
        if len(times[one]) > len(groups[one]):
            groups[one].append((point["lo"], point["hi"]))
    for one in groups.keys() | times.keys():
        windows, stamps = sorted(groups[one]), sorted(times[one])
        fits = all(lo <= stamp <= hi for (lo, hi), stamp in zip(windows, stamps))
        if len(windows) != len(stamps) or not fits:
            raise Wrong(f"{key} at {one}: found {stamps}, logged {windows}")


def _identity(point: dict[str, Any]) -> Any:
    value = point["value"]
    if isinstance(value, dict):
        value = json.dumps(
            {name: value[name] for name in sorted(value)}, default=float, sort_keys=True
        )
    return tuple(sorted(point["axes"].items())), value


# shrinking


def shrink(stage: Stage, lives: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """A shorter program that is still wrong."""
    for number in range(len(lives) if len(lives) > 1 else 0):
        shorter = lives[:number] + lives[number + 1 :]
        if _wrong(stage, shorter):
            return shrink(stage, shorter)
    tries = iter(range(_SHRINKS))
    lives = copy.deepcopy(lives)
    size = max(len(life["steps"]) for life in lives)
    while size := size // 2:
        for steps in _parts(lives):
            start = 0
            while start < len(steps):
                cut = steps[start : start + size]
                del steps[start : start + size]
                if next(tries, None) is None or not _wrong(stage, lives):
                    steps[start:start] = cut
                    start += size
    return lives


def _parts(lives: list[dict[str, Any]]) -> list[list[dict[str, Any]]]:
    """Every list of steps: the processes', their threads', their children's."""
    found = [life["steps"] for life in lives]
    for step in [step for steps in found for step in steps]:
        found += [*step.get("threads", []), *([step["fork"]] if "fork" in step else [])]
    return found


def _wrong(stage: Stage, lives: list[dict[str, Any]]) -> bool:
    try:
        stage.play(lives)
    except Wrong:
        return True
    return False


@pytest.fixture(scope="module")
def stage(tmp_path_factory: pytest.TempPathFactory) -> Any:
    """The server of all programs."""
    if BINARY is None:
        pytest.skip(NO_BINARY)
    found = Stage(tmp_path_factory.mktemp("programs"))
    yield found
    found.end()


@pytest.mark.parametrize("seed", range(FIRST, FIRST + COUNT))
def test_programs_leave_what_the_model_has(stage: Stage, seed: int) -> None:
    lives = program(seed)
    try:
        stage.play(lives)
    except Wrong as error:
        short = shrink(stage, lives)
        why = str(error)
        try:
            stage.play(short)
        except Wrong as again:
            why = str(again)
        pytest.fail(f"seed {seed}: {why}\n{text_of(short)}", pytrace=False)
