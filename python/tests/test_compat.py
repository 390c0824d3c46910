"""Names, orders and defaults of metrana 0.5.2, and the package itself where it installs."""

from __future__ import annotations

import importlib
import inspect
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import kymogram as metrana
import kymogram.utils.enums
import kymogram.utils.env_vars
import kymogram.utils.exceptions

from . import signatures_0_5_2 as real


def positional(function: Any) -> list[str]:
    parameters = inspect.signature(function).parameters.values()
    return [p.name for p in parameters if p.kind is p.POSITIONAL_OR_KEYWORD]


@pytest.mark.parametrize("name", real.FUNCTIONS)
def test_compat_positions(name: str) -> None:
    ours, theirs = positional(getattr(metrana, name)), real.FUNCTIONS[name].split()
    assert ours[: len(theirs)] == theirs


def test_compat_defaults() -> None:
    parameters = inspect.signature(metrana.init).parameters
    found = {name: parameters[name].default for name in real.DEFAULTS}
    # More environments than encoders make each frame wait for another's file.
    assert found == {**real.DEFAULTS, "rendering_max_concurrent_encoders": 16}
    assert inspect.signature(metrana.log).parameters["kill_timeout"].default == 3.0
    assert inspect.signature(metrana.close).parameters["close_timeout"].default == 15.0


@pytest.mark.parametrize("name", real.ENUMS)
def test_compat_enums(name: str) -> None:
    for kind in (getattr(metrana, name), getattr(kymogram.utils.enums, name)):
        for member, value in real.ENUMS[name].items():
            assert kind[member].value == value
            assert kind(value) is kind[member]
            if name != "StandardMetricScale":
                assert kind(member) is kind(value.upper()) is kind[member]


def test_compat_exceptions() -> None:
    for name in real.EXCEPTIONS:
        found = getattr(kymogram.utils.exceptions, name)
        assert issubclass(found, Exception)
        assert getattr(metrana, name) is found
    family = kymogram.utils.exceptions
    assert issubclass(
        family.MetranaOrchestrationIdMismatchError, family.MetranaRunAlreadyExistsError
    )


def test_compat_variables() -> None:
    for name in real.VARIABLES:
        assert getattr(kymogram.utils.env_vars, name) == name
    assert kymogram.utils.env_vars.get_event_queue_max_size() == 10_000
    assert kymogram.utils.env_vars.get_rendering_close_timeout() is None
    assert kymogram.utils.env_vars.get_skip_drain_render_on_close() is False


def test_compat_modules_by_attribute() -> None:
    """`except metrana.utils.exceptions.…` after nothing but `import metrana`; loaded then only."""
    code = """
import sys
import kymogram as metrana
assert not {"kymogram.query", "kymogram.utils.exceptions", "kymogram.metrics"} & {*sys.modules}
for path in (
    "utils.exceptions.MetranaValidationError", "utils.enums.BackpressureStrategy",
    "utils.env_vars.METRANA_API_KEY", "utils.git_utils.get_git_sha", "utils.logging.warn",
    "utils.orchestration.resolve_orchestration_id", "logger.api.log", "types.Histogram",
    "query.Client", "metrics.put_metric", "RenderingUploadMode.Triggered",
):
    found = metrana
    for name in path.split("."):
        assert name in dir(found) or hasattr(found, name), path
        found = getattr(found, name)
assert not hasattr(metrana, "nothing") and not hasattr(metrana.utils, "nothing")
"""
    environment = {**os.environ, "PYTHONPATH": str(Path(kymogram.__file__).parents[1])}
    subprocess.run([sys.executable, "-c", code], check=True, env=environment)


def test_compat_modules() -> None:
    for name in ("logger.api", "types.histogram", "utils.git_utils", "utils.orchestration"):
        importlib.import_module("kymogram." + name)
    api = importlib.import_module("kymogram.logger.api")
    for name in (*real.FUNCTIONS, "LogLevel", "ErrorStrategy", "NoMetranaApiKeyError"):
        assert getattr(api, name) is getattr(metrana, name)
    logging = importlib.import_module("kymogram.utils.logging")
    logging.configure_logging("OFF")
    assert issubclass(logging.MetranaWarning, UserWarning)


def test_compat_metrics(run: metrana.Run) -> None:
    assert set(real.METRICS) <= set(metrana.get_metrics().as_dict())


def test_compat_orchestration(monkeypatch: pytest.MonkeyPatch) -> None:
    module = importlib.import_module("kymogram.utils.orchestration")
    assert module.resolve_orchestration_id("mine") == ("mine", "explicit")
    monkeypatch.setenv("SLURM_JOB_ID", "77")
    assert module.resolve_orchestration_id(None) == ("77", "SLURM_JOB_ID")
    monkeypatch.setenv("TORCHELASTIC_RUN_ID", "elastic")
    assert module.resolve_orchestration_id(None)[0] == "elastic"
    module.propagate_orchestration_id("handed")
    assert os.environ["METRANA_ORCHESTRATION_ID"] == "handed"
    assert module.resolve_orchestration_id(None)[0] == "handed"
    monkeypatch.delenv("METRANA_ORCHESTRATION_ID")


PROBE = """
import enum, inspect, json
import metrana, metrana.utils.env_vars as v, metrana.utils.exceptions as e
names = [n for n in metrana.__all__ if inspect.isfunction(getattr(metrana, n))]
plain = inspect.Parameter.POSITIONAL_OR_KEYWORD
print(json.dumps({
    "functions": {n: " ".join(p.name for p in inspect.signature(getattr(metrana, n)).parameters
                              .values() if p.kind is plain) for n in names},
    "enums": {n: {m.name: m.value for m in getattr(metrana, n)} for n in metrana.__all__
              if inspect.isclass(getattr(metrana, n))},
    "exceptions": sorted(n for n in dir(e) if n.endswith("Error")),
    "variables": sorted(n for n in dir(v) if n.startswith("METRANA_")),
    "defaults": {p.name: p.default for p in inspect.signature(metrana.init).parameters.values()
                 if isinstance(p.default, (int, float)) and not isinstance(p.default, bool)},
}))
"""


@pytest.mark.skipif(
    "COMPAT_PYTHON" not in os.environ,
    reason="COMPAT_PYTHON names no interpreter with metrana 0.5.2: `make compat` makes one",
)
def test_compat_with_the_package_itself(tmp_path: Path) -> None:
    python = os.environ["COMPAT_PYTHON"]
    done = subprocess.run(
        [python, "-c", PROBE], capture_output=True, text=True, timeout=60, cwd=tmp_path
    )
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    assert found["functions"] == real.FUNCTIONS
    assert found["enums"] == real.ENUMS
    assert found["exceptions"] == sorted(real.EXCEPTIONS)
    assert found["variables"] == sorted(real.VARIABLES)
    assert found["defaults"] == real.DEFAULTS
