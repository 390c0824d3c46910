"""Tensors of PyTorch, JAX and TensorFlow, as the server has them.

Each library works in a process of its own, which has imported none of them when
it imports kymogram. What a float of few bits is comes from its definition: the
bits of the float32 next to it.
"""

from __future__ import annotations

import os
import struct
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from ..rig import Served

HERE = Path(__file__).resolve().parents[2]
TENSORFLOW = Path(sys.prefix) / "tensorflow"  # see the Makefile

# Halves, a tie, what no binary float has, the ends of float16's range, infinities.
NUMBERS = [0.5, -3.0, 0.1, 1.0 / 3.0, 65504.0, 6e-8, float("inf"), float("-inf"), float("nan")]


def bfloat16(value: float) -> float:
    """The upper half of a float32, rounded to even; value is finite or an infinity."""
    if value != value:
        return value
    (bits,) = struct.unpack("<I", struct.pack("<f", value))
    bits += 0x7FFF + (bits >> 16 & 1)
    (rounded,) = struct.unpack("<f", struct.pack("<I", bits & 0xFFFF0000))
    return float(rounded)


def as_kind(code: str, value: float) -> float:
    return float(struct.unpack(code, struct.pack(code, value))[0])


ROUND: dict[str, Callable[[float], float]] = {
    "float16": lambda value: as_kind("<e", value),
    "bfloat16": bfloat16,
    "float32": lambda value: as_kind("<f", value),
    "float64": float,
}

BEGIN = """
import sys
import kymogram

THEIRS = {"numpy", "torch", "jax", "jaxlib", "tensorflow", "ml_dtypes"}
assert not THEIRS & set(sys.modules), "kymogram imported one of them"
kymogram.init(run_name="values", log_level="OFF", close_timeout=0)
kymogram.log("plain", [0.5, 1.0])
assert not THEIRS & set(sys.modules), "kymogram imported one of them"
NUMBERS = eval(sys.argv[1], {"inf": float("inf"), "nan": float("nan")})
log = kymogram.log
"""

PROGRAMS = {
    "torch": """
import torch
for kind in ("float16", "bfloat16", "float32", "float64"):
    many = torch.tensor(NUMBERS, dtype=getattr(torch, kind))
    log(f"{kind}/array", many)
    for step, one in enumerate(many):
        log(f"{kind}/scalar", one, step=step)
        log(f"{kind}/one", one.reshape(1), step=step)
    log(f"{kind}/grad", many.clone().requires_grad_() * 1)
    log(f"{kind}/parameter", torch.nn.Parameter(many))
    log(f"{kind}/strided", torch.stack((many, -many), 1)[:, 0])
    log(f"{kind}/reversed", many.flip(0).flip(0).as_strided((len(NUMBERS),), (1,)))
log("int64/array", torch.tensor([1, 2**53 + 1]), dtype="int64")
log("bool/scalar", torch.tensor(True))
kymogram.log_rl_environment_step("reward", torch.tensor([[1.0, 2.0], [3.0, 4.0]]).T, rl_step=1,
    env_id=["a", "b"], episode=torch.tensor([5, 6]))
""",
    "jax": """
import jax, jax.numpy as jnp
jax.config.update("jax_enable_x64", True)
for kind in ("float16", "bfloat16", "float32", "float64"):
    many = jnp.asarray(NUMBERS, dtype=kind)
    log(f"{kind}/array", many)
    for step, one in enumerate(many):
        log(f"{kind}/scalar", one, step=step)
        log(f"{kind}/one", one.reshape(1), step=step)
    log(f"{kind}/jitted", jax.jit(lambda x: x + 0)(many))
    log(f"{kind}/strided", jnp.stack((many, -many), 1)[:, 0])
log("int64/array", jnp.asarray([1, 2**53 + 1]), dtype="int64")
log("bool/scalar", jnp.asarray(True))
kymogram.log_rl_environment_step("reward", jnp.asarray([[1.0, 2.0], [3.0, 4.0]]).T, rl_step=1,
    env_id=["a", "b"], episode=jnp.asarray([5, 6]))
""",
    "tensorflow": """
import tensorflow as tf
for kind in ("float16", "bfloat16", "float32", "float64"):
    many = tf.constant(NUMBERS, dtype=kind)
    log(f"{kind}/array", many)
    log(f"{kind}/variable", tf.Variable(many))
    for step, one in enumerate(many):
        log(f"{kind}/scalar", one, step=step)
        log(f"{kind}/one", tf.Variable([one]), step=step)
    log(f"{kind}/function", tf.function(tf.identity)(many))
    log(f"{kind}/strided", tf.stack((many, -many), 1)[:, 0])
log("int64/array", tf.constant([1, 2**53 + 1], tf.int64), dtype="int64")
log("bool/scalar", tf.constant(True))
kymogram.log_rl_environment_step("reward", tf.transpose(tf.constant([[1.0, 2.0], [3.0, 4.0]])),
    rl_step=1, env_id=["a", "b"], episode=tf.constant([5, 6]))
""",
}


@pytest.mark.parametrize("library", PROGRAMS)
def test_values(served: Served, tmp_path: Path, library: str) -> None:
    places = [str(HERE / "src")]
    if library == "tensorflow":
        if not TENSORFLOW.is_dir():
            pytest.skip("make test-frameworks")
        places.insert(0, str(TENSORFLOW))
    else:
        pytest.importorskip(library, reason="make test-frameworks")
    program = tmp_path / "program.py"
    program.write_text(BEGIN + PROGRAMS[library] + "\nkymogram.close()\n")
    done = subprocess.run(
        [sys.executable, str(program), repr(NUMBERS)],
        capture_output=True,
        text=True,
        timeout=300,
        # TensorFlow imports Keras, and that the back end that other tests choose.
        env={**os.environ, "PYTHONPATH": os.pathsep.join(places), "KERAS_BACKEND": "tensorflow"},
    )
    assert done.returncode == 0, done.stderr[-3000:]
    run = served.only()
    series = {one.metric for one in run.series("^b?float")}
    assert len(series) >= 20  # every kind in five shapes at least
    for metric in series:
        exact = [ROUND[metric.split("/")[0]](one) for one in NUMBERS]
        points = run.points(metric)
        assert list(points["step"]) == list(range(len(NUMBERS))), metric
        assert [repr(float(one)) for one in points["value"]] == [*map(repr, exact)], metric
    assert list(run.points("int64/array")["value"]) == [1, 2**53 + 1]
    assert served.values("bool/scalar", run) == {0: 1.0}
    rewards = {
        env: [float(one) for one in run.points("reward", labels={"env_id": env})["value"]]
        for env in ("a", "b")
    }
    assert rewards == {"a": [1.0, 3.0], "b": [2.0, 4.0]}
