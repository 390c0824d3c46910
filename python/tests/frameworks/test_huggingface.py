"""KymogramCallback in a real transformers.Trainer, on a model of 8 numbers."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import kymogram

from ..rig import Served

torch = pytest.importorskip("torch", reason="make test-frameworks")
transformers = pytest.importorskip("transformers", reason="make test-frameworks")


class Config(transformers.PretrainedConfig):  # type: ignore[misc,name-defined]
    model_type = "tiny"

    def __init__(self, width: int = 4, **more: Any) -> None:
        self.width = width
        super().__init__(**more)


class Model(transformers.PreTrainedModel):  # type: ignore[misc,name-defined]
    config_class = Config

    def __init__(self, config: Any) -> None:
        super().__init__(config)
        self.layer = torch.nn.Linear(config.width, 1)
        self.post_init()

    def forward(self, x: Any, labels: Any = None) -> Any:
        found = self.layer(x)
        return {"loss": (found - labels).square().mean(), "logits": found}


def rows() -> list[dict[str, Any]]:
    torch.manual_seed(0)
    return [{"x": torch.randn(4), "labels": torch.randn(1)} for _ in range(16)]


def trainer(folder: Path, callback: Any, **more: Any) -> Any:
    arguments = transformers.TrainingArguments(
        output_dir=str(folder / "out"),
        per_device_train_batch_size=4,
        logging_steps=1,
        eval_strategy="epoch",
        save_strategy="epoch",
        report_to=[],
        use_cpu=True,
        disable_tqdm=True,
        **more,
    )
    return transformers.Trainer(
        model=Model(Config(width=4)),
        args=arguments,
        train_dataset=rows(),
        eval_dataset=rows(),
        callbacks=[callback],
    )


def callback(**arguments: Any) -> Any:
    from kymogram.huggingface import KymogramCallback

    return KymogramCallback(**arguments)


def history(work: Any, name: str) -> dict[int, float]:
    return {one["step"]: one[name] for one in work.state.log_history if name in one}


def test_training_evaluation_and_prediction(served: Served, tmp_path: Path) -> None:
    found = callback(project_name="tiny")
    work = trainer(tmp_path, found, num_train_epochs=2, run_name="fine-tune", learning_rate=0.01)
    work.train()
    evaluated = work.evaluate()
    predicted = work.predict(rows())
    found.close()
    run = served.only("default/tiny")
    assert (run.name, run.status) == ("fine-tune", "finished")
    assert served.values("train/loss", run) == pytest.approx(history(work, "loss"))
    assert served.values("train/learning_rate", run) == pytest.approx(
        history(work, "learning_rate")
    )
    losses = served.values("eval/loss", run)
    assert sorted(losses) == [4, 8]
    assert losses[8] == pytest.approx(evaluated["eval_loss"])
    assert served.values("test/loss", run)[8] == pytest.approx(predicted.metrics["test_loss"])
    attributes = run.attributes()
    assert attributes["config/learning_rate"] == 0.01
    assert attributes["config/model/width"] == 4
    assert attributes["config/num_parameters"] == 5


def test_a_checkpoint_goes_on_as_a_new_attempt(served: Served, tmp_path: Path) -> None:
    first = callback(run_name="long")
    work = trainer(tmp_path, first, num_train_epochs=1)
    work.train()
    kymogram.log("train/loss", 99.0, step=6)  # a life that went on beyond its checkpoint
    first.close()
    served.sync()
    second = callback(run_name="long")
    again = trainer(tmp_path, second, num_train_epochs=2)
    again.train(resume_from_checkpoint=True)
    second.close()
    run = served.only()
    found = served.values("train/loss", run)
    assert sorted(found) == [1, 2, 3, 4, 5, 6, 7, 8]
    assert found == pytest.approx(history(again, "loss"))
    assert len(run.detail()["attempts"]) == 2
    state = json.loads((tmp_path / "out" / "checkpoint-8" / "trainer_state.json").read_text())
    assert state["global_step"] == 8


def test_another_train_goes_on_behind_the_first(served: Served, tmp_path: Path) -> None:
    found = callback(run_name="twice")
    work = trainer(tmp_path, found, num_train_epochs=1)
    work.train()
    first = history(work, "loss")
    work.train()
    both = {**first, **{4 + step: loss for step, loss in history(work, "loss").items()}}
    run = served.only()
    assert served.values("train/loss", run) == pytest.approx(both)
    assert run.detail()["ledger"]["superseded"] == 0
    # So does that of another Trainer, whose callback joins the open run.
    other = trainer(tmp_path / "other", callback(), num_train_epochs=1)
    other.train()
    third = {8 + step: loss for step, loss in history(other, "loss").items()}
    assert served.values("train/loss", served.only()) == pytest.approx({**both, **third})
    # A checkpoint of the second goes back: another attempt.
    work.args.num_train_epochs = 2
    work.train(resume_from_checkpoint=str(tmp_path / "out" / "checkpoint-4"))
    found.close()
    run = served.only()
    assert len(run.detail()["attempts"]) == 2
    resumed = served.values("train/loss", run)
    assert sorted(resumed) == [1, 2, 3, 4, 5, 6, 7, 8]
    again = history(work, "loss")
    assert {step: resumed[step] for step in (5, 6, 7, 8)} == pytest.approx(
        {step: again[step] for step in (5, 6, 7, 8)}
    )


@pytest.mark.parametrize("named", [True, False])
def test_a_trial_is_a_run(served: Served, tmp_path: Path, named: bool) -> None:
    pytest.importorskip("optuna", reason="make test-frameworks").logging.disable_default_handler()
    found = callback(project_name="search", **({"run_name": "best"} if named else {}))
    work = trainer(tmp_path, found, max_steps=2)
    work.model_init = lambda trial: Model(Config(width=4))
    losses: list[dict[int, float]] = []

    class Keep(transformers.TrainerCallback):  # type: ignore[misc,name-defined]
        def on_train_end(self, args: Any, state: Any, control: Any, **_: Any) -> None:
            losses.append({one["step"]: one["loss"] for one in state.log_history if "loss" in one})

    work.add_callback(Keep())
    work.hyperparameter_search(
        hp_space=lambda trial: {"learning_rate": trial.suggest_float("learning_rate", 1e-4, 1e-2)},
        n_trials=3,
        backend="optuna",
        hp_name=None if named else lambda trial: f"try{trial.number}",
    )
    found.close()
    served.sync()
    runs = sorted(served.client.runs("default/search"), key=lambda one: one.name)
    names = [f"best-trial-{n}" for n in (1, 2, 3)] if named else [f"try{n}" for n in (0, 1, 2)]
    assert [one.name for one in runs] == names
    for run, kept in zip(runs, losses, strict=True):
        assert run.status == "finished"
        assert served.values("train/loss", run) == pytest.approx(kept)
    assert len({run.config["learning_rate"] for run in runs}) == 3


def test_other_ranks_open_no_run(served: Served, tmp_path: Path) -> None:
    found = callback(run_name="r")
    state = transformers.TrainerState(is_world_process_zero=False)
    work = trainer(tmp_path, found, max_steps=1)
    found.on_train_begin(work.args, state, None, model=work.model)
    found.on_log(work.args, state, None, logs={"loss": 1.0})
    assert not kymogram.is_initialized()
    assert list(served.client.projects()) == []


# Every rank trains on its own half of the rows, so their losses differ; what the
# Trainer logs is its mean over the ranks.
RANK = """
import json, os, sys
from pathlib import Path
import kymogram
from tests.frameworks.test_huggingface import callback, rows, trainer

folder = Path(sys.argv[1])
found = callback(project_name="job")
work = trainer(folder, found, num_train_epochs=2, run_name="two", seed=1, ddp_backend="gloo")
work.train()
evaluated = work.evaluate()
predicted = work.predict(rows())
said = {"world": work.args.world_size, "opened": kymogram.is_initialized(),
        "steps": work.state.global_step, "history": work.state.log_history,
        "eval": evaluated["eval_loss"], "test": predicted.metrics["test_loss"]}
(folder / f"rank{os.environ['RANK']}.json").write_text(json.dumps(said))
found.close()
"""


def test_a_job_of_two_processes_logs_one_run_once(served: Served, tmp_path: Path) -> None:
    program = tmp_path / "rank.py"
    program.write_text(RANK)
    here = Path(__file__).resolve().parents[2]
    done = subprocess.run(
        [
            *(sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node=2"),
            *(str(program), str(tmp_path)),
        ],
        capture_output=True,
        text=True,
        timeout=300,
        env={
            **os.environ,
            "PYTHONPATH": os.pathsep.join((str(here / "src"), str(here))),
            "OMP_NUM_THREADS": "1",
        },
    )
    assert done.returncode == 0, done.stderr[-3000:]
    first, second = (json.loads((tmp_path / f"rank{n}.json").read_text()) for n in (0, 1))
    assert (first["world"], second["world"]) == (2, 2)
    assert (first["opened"], second["opened"]) == (True, False)
    assert first["steps"] == 4  # 16 rows, 4 a step on each of 2 ranks, twice
    run = served.only("default/job")
    assert (run.name, run.status) == ("two", "finished")
    (writer,) = run.detail()["writers"]
    assert (writer["rank"], writer["state"]) == (0, "finished")
    losses = {one["step"]: one["loss"] for one in first["history"] if "loss" in one}
    points = run.points("train/loss")
    assert list(points["step"]) == [1, 2, 3, 4]
    assert list(points["value"]) == pytest.approx(list(losses.values()))
    counts = {one.metric: one.count for one in run.series("^train/")}
    assert [counts[f"train/{name}"] for name in ("loss", "learning_rate", "epoch")] == [4, 4, 4]
    ledger = run.detail()["ledger"]
    # evaluate() logged step 4 once more, after the last epoch's evaluation.
    assert ledger["superseded"] == len(run.series("^eval/"))
    assert (ledger["dropped"], ledger["refused"]) == (0, 0)
    assert served.values("eval/loss", run)[4] == pytest.approx(first["eval"])
    assert served.values("test/loss", run)[4] == pytest.approx(first["test"])
    assert run.attributes()["config/model/width"] == 4
