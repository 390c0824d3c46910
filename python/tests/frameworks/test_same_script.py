"""A training with a fixed name starts again: the same with the server up, away and slow."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import kymogram

from ..rig import Served
from ..test_same_script import starts_again

FRAMEWORK = "make test-frameworks"


def keras(_: Path, value: float) -> Any:
    """What ends the run of a fit()."""
    pytest.importorskip("keras", reason=FRAMEWORK)
    from .test_keras import X, callback, model

    found = callback(run_name="hello")
    model().fit(X, X, verbose=0, callbacks=[found])
    return found


def huggingface(folder: Path, value: float) -> Any:
    """What ends the run of a train()."""
    pytest.importorskip("transformers", reason=FRAMEWORK)
    from .test_huggingface import callback, trainer

    found = callback(run_name="hello")
    trainer(folder / str(value), found, max_steps=2).train()
    return found


def lightning(folder: Path, value: float) -> Any:
    """What ends the run of a fit()."""
    pytest.importorskip("lightning.pytorch", reason=FRAMEWORK)
    from .test_lightning import Model, data, logger, trainer

    found = logger(run_name="hello")
    trainer(found, folder / str(value), max_epochs=1).fit(Model(), data(), data())
    return found


def stable_baselines3(_: Path, value: float) -> Any:
    """What ends the run of a learn()."""
    pytest.importorskip("stable_baselines3", reason=FRAMEWORK)
    from kymogram.stable_baselines3 import KymogramCallback

    from .test_stable_baselines3 import learn

    found = KymogramCallback(run_name="hello")
    learn("PPO", 16, found, n_steps=8, batch_size=8)
    return found


@pytest.mark.parametrize("weather", ["up", "away", "slow"])
@pytest.mark.parametrize("framework", [keras, huggingface, lightning, stable_baselines3])
def test_the_same_outcome(
    served: Served, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, framework: Any, weather: str
) -> None:
    def script(value: float) -> None:
        found = framework(tmp_path, value)
        kymogram.log("mark", value, step=0)
        found.close()

    starts_again(served, monkeypatch, script, weather)
