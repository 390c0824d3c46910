"""KymogramCallback in a real fit() of Keras, on the torch back end."""

from __future__ import annotations

import os
from typing import Any

import pytest

import kymogram

from ..rig import Served

os.environ.setdefault("KERAS_BACKEND", "torch")
keras = pytest.importorskip("keras", reason="make test-frameworks")
numpy = pytest.importorskip("numpy", reason="make test-frameworks")

X = numpy.linspace(0, 1, 32).reshape(-1, 1)


def model() -> Any:
    keras.utils.set_random_seed(1)
    found = keras.Sequential([keras.layers.Input((1,)), keras.layers.Dense(1)])
    found.compile(keras.optimizers.SGD(0.05), "mse", metrics=["mae"])
    return found


def callback(**arguments: Any) -> Any:
    from kymogram.keras import KymogramCallback

    return KymogramCallback(**arguments)


def test_fit_and_evaluate(served: Served) -> None:
    found, net = callback(run_name="fit", batch_frequency=2), model()
    past = net.fit(
        X, X, epochs=3, batch_size=8, validation_split=0.25, verbose=0, callbacks=[found]
    )
    scores = net.evaluate(X, X, verbose=0, callbacks=[found], return_dict=True)
    found.close()
    run = served.only()
    assert run.status == "finished"
    for name in ("loss", "mae", "val_loss", "val_mae"):
        assert served.values(name, run) == pytest.approx(dict(enumerate(past.history[name])))
    assert sorted(served.values("batch/loss", run)) == [2, 4, 6, 8]
    assert served.values("evaluate/loss", run) == pytest.approx({2: scores["loss"]})
    assert run.config["fit/epochs"] == 3
    assert run.config["model/parameters"] == 2
    assert run.config["optimizer/learning_rate"] == pytest.approx(0.05)


def test_a_second_life_goes_on_at_its_epoch(served: Served) -> None:
    first = callback(run_name="long")
    model().fit(X, X, epochs=3, verbose=0, callbacks=[first])
    first.close()
    served.sync()
    second = callback(run_name="long", resume_strategy="allow", resume_from_step=2)
    past = model().fit(X, X, initial_epoch=2, epochs=4, verbose=0, callbacks=[second])
    second.close()
    losses = served.values("loss")
    assert sorted(losses) == [0, 1, 2, 3]
    assert [losses[2], losses[3]] == pytest.approx(past.history["loss"])


def test_an_open_run_is_used(served: Served) -> None:
    with kymogram.init(run_name="mine"):
        model().fit(X, X, epochs=1, verbose=0, callbacks=[callback(run_name="other")])
        kymogram.log("after", 1.0)
    assert served.only().name == "mine"
    with pytest.raises(ValueError, match="batch_frequency"):
        callback(batch_frequency=-1)


def test_another_fit_goes_on_behind_the_first(served: Served) -> None:
    found, net = callback(run_name="loop", batch_frequency=1), model()
    losses = [
        one
        for _ in range(3)
        for one in net.fit(X, X, epochs=2, verbose=0, callbacks=[found]).history["loss"]
    ]

    class Fails(keras.callbacks.Callback):  # type: ignore[misc,name-defined]
        def on_train_batch_end(self, batch: int, logs: Any = None) -> None:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        net.fit(X, X, epochs=2, verbose=0, callbacks=[found, Fails()])
    scores = net.evaluate(X, X, verbose=0, callbacks=[found], return_dict=True)
    found.close()
    run = served.only()
    assert served.values("loss", run) == pytest.approx(dict(enumerate(losses)))
    assert served.values("evaluate/loss", run) == pytest.approx({5: scores["loss"]})
    assert run.detail()["ledger"]["superseded"] == 0


def test_other_models_go_on_behind_the_first(served: Served) -> None:
    first, losses = callback(run_name="folds", batch_frequency=1), []
    for found in (first, first, callback(run_name="not this one", batch_frequency=1)):
        fitted = model().fit(X, X, epochs=2, batch_size=4, verbose=0, callbacks=[found])
        losses += fitted.history["loss"]
    first.close()
    run = served.only()
    assert served.values("loss", run) == pytest.approx(dict(enumerate(losses)))
    assert run.points("batch/loss").rows == 3 * 2 * -(-len(X) // 4)
    assert run.detail()["ledger"]["superseded"] == 0
    model().fit(X, X, epochs=1, verbose=0, callbacks=[first])
    first.close()
    assert sorted(served.values("loss", served.client.run("default/default/folds"))) == [*range(6)]


def test_a_loop_of_ones_own(served: Served) -> None:
    found, net = callback(run_name="own", batch_frequency=1), model()
    found.set_model(net)
    seen = []
    for epoch in range(2):
        for batch in range(3):
            logs = net.train_on_batch(X, X, return_dict=True)
            seen.append(logs["loss"])
            found.on_train_batch_end(batch, logs)
        found.on_epoch_end(epoch, logs)
    found.close()
    run = served.only()
    assert list(served.values("batch/loss", run).values()) == pytest.approx(seen)
    assert served.values("loss", run) == pytest.approx({0: seen[2], 1: seen[5]})
