"""KymogramLogger in a real Trainer of PyTorch Lightning."""

from __future__ import annotations

import importlib
import os
import pickle
import subprocess
import sys
import textwrap
from pathlib import Path
from typing import Any

import pytest

import kymogram

from ..rig import Served

torch = pytest.importorskip("torch", reason="make test-frameworks")
lightning = pytest.importorskip("lightning.pytorch", reason="make test-frameworks")


HERE = Path(__file__).resolve().parents[2]


def program(folder: Path, code: str, *arguments: str) -> str:
    """What a program prints that runs with the package and these tests at hand."""
    file = folder / "program.py"
    file.write_text(textwrap.dedent(code))
    places = os.pathsep.join((str(HERE / "src"), str(HERE)))
    done = subprocess.run(
        [sys.executable, str(file), *arguments],
        capture_output=True,
        text=True,
        timeout=120,
        cwd=folder,
        env={**os.environ, "PYTHONPATH": places},
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


class Model(lightning.LightningModule):  # type: ignore[misc,name-defined]
    def __init__(self, lr: float = 0.1, fail_at: int = -1) -> None:
        super().__init__()
        self.save_hyperparameters()
        self.layer = torch.nn.Linear(1, 1)
        self.seen: list[tuple[int, float]] = []
        self.validated: list[float] = []

    def training_step(self, batch: Any, index: int) -> Any:
        if self.global_step == self.hparams.fail_at:
            raise RuntimeError("broken")
        loss = self.layer(batch[0]).square().mean()
        self.log("loss", loss)
        self.seen.append((self.global_step, float(loss.detach())))
        return loss

    def validation_step(self, batch: Any, index: int) -> None:
        self.log("val/loss", self.layer(batch[0]).abs().mean())

    def on_validation_epoch_end(self) -> None:
        self.validated.append(float(self.trainer.callback_metrics["val/loss"]))

    def test_step(self, batch: Any, index: int) -> None:
        self.log("test/loss", self.layer(batch[0]).abs().mean())

    def configure_optimizers(self) -> Any:
        return torch.optim.SGD(self.parameters(), self.hparams.lr)


def data() -> Any:
    rows = torch.utils.data.TensorDataset(torch.linspace(0, 1, 8).reshape(-1, 1))
    return torch.utils.data.DataLoader(rows, batch_size=2)


def trainer(logger: Any, folder: Path, **more: Any) -> Any:
    quiet = {"enable_progress_bar": False, "enable_model_summary": False}
    return lightning.Trainer(
        logger=logger,
        accelerator="cpu",
        default_root_dir=folder,
        log_every_n_steps=1,
        **quiet,
        **more,
    )


def logger(**arguments: Any) -> Any:
    return importlib.import_module("kymogram.lightning").KymogramLogger(**arguments)


def test_fit_then_test(served: Served, tmp_path: Path) -> None:
    found = logger(run_name="fit", project_name="digits")
    model, work = Model(), trainer(found, tmp_path, max_epochs=3)
    work.fit(model, data(), data())
    work.test(model, data(), verbose=False)
    found.close()
    run = served.only("default/digits")
    assert (run.name, run.status) == ("fit", "finished")
    assert served.values("loss", run) == {
        step: pytest.approx(loss, rel=1e-6) for step, loss in model.seen
    }
    assert list(served.values("val/loss", run).values()) == pytest.approx(model.validated[1:])
    assert sorted(served.values("epoch", run)) == [*range(12), 12]
    assert run.points("test/loss").rows == 1
    assert run.config == {"lr": 0.1, "fail_at": -1}
    assert (tmp_path / "digits" / "fit" / "checkpoints").is_dir()


def test_an_exception_makes_the_run_a_failed_one(served: Served, tmp_path: Path) -> None:
    found = logger(run_name="broken")
    model = Model(fail_at=5)
    with pytest.raises(RuntimeError, match="broken"):
        trainer(found, tmp_path, max_epochs=3).fit(model, data())
    run = served.only()
    assert run.status == "failed"
    assert len(served.values("loss", run)) == 5


def test_resume_from_a_checkpoint(served: Served, tmp_path: Path) -> None:
    first = logger(run_name="long")
    work = trainer(first, tmp_path, max_epochs=2)
    work.fit(Model(), data())
    saved = work.checkpoint_callback.best_model_path
    first.experiment.log("loss", 99.0, step=10)  # what a life logged beyond its checkpoint
    first.close()
    served.sync()
    second = logger(run_name="long", resume_strategy="allow", resume_from_step=8)
    model = Model()
    trainer(second, tmp_path, max_epochs=4).fit(model, data(), ckpt_path=saved)
    second.close()
    run = served.only()
    found = served.values("loss", run)
    assert sorted(found) == list(range(16))
    assert found[10] == pytest.approx(dict(model.seen)[10], rel=1e-6)
    assert run.detail()["attempts"][-1]["number"] == 2


def test_another_trainer_goes_on_behind_the_first(served: Served, tmp_path: Path) -> None:
    first, seen = logger(run_name="folds"), []
    for found in (first, first, logger()):
        model, work = Model(), trainer(found, tmp_path, max_epochs=1)
        work.fit(model, data(), data())
        assert [step for step, _ in model.seen] == list(range(4))
        seen += [loss for _, loss in model.seen]
        trainer(found, tmp_path).test(model, data(), verbose=False)
    first.close()
    run = served.only()
    hidden = {one.metric: one.superseded for one in run.series("loss|val")}
    assert hidden == {"loss": 0, "val/loss": 0, "test/loss": 0}
    losses = served.values("loss", run)
    assert list(losses.values()) == pytest.approx(seen, rel=1e-6)
    assert list(losses) == sorted(set(losses))
    assert run.points("val/loss").rows == run.points("test/loss").rows == 3


def test_a_logger_joins_the_open_run_and_pickles(served: Served, tmp_path: Path) -> None:
    with kymogram.init(run_name="mine") as run:
        found = pickle.loads(pickle.dumps(logger(run_name="other")))
        trainer(found, tmp_path, max_steps=2).fit(Model(), data())
        assert (found.version, found.name) == ("mine", "kymogram")
        found.close()
        run.log("after", 1.0)
    assert len(served.values("loss")) == 2


def test_beside_another_logger_and_without_training(served: Served, tmp_path: Path) -> None:
    from argparse import Namespace

    from lightning.pytorch.loggers import CSVLogger

    found = logger(run_name="checked")
    found.log_hyperparams(Namespace(a=1, b=Namespace(c=2, d={"e": [3, 4]})))
    work = trainer([CSVLogger(tmp_path), found], tmp_path)
    model = Model()
    work.validate(model, data(), verbose=False)
    work.test(model, data(), verbose=False)
    found.log_metrics({"top 5": 0.5}, step=1)
    found.close()
    run = served.only()
    own = {"lr": 0.1, "fail_at": -1}  # save_hyperparameters()
    assert run.config == {"a": 1, "b/c": 2, "b/d/e/0": 3, "b/d/e/1": 4, **own}
    assert list(served.values("val/loss", run).values()) == pytest.approx(model.validated)
    assert sorted(served.values("test/loss", run)) == [0]
    assert served.values("top_5", run, labels={"exact_name": "top 5"}) == {1: 0.5}
    # Lightning repeats the epoch with each of a step's logs: it is one point, without a warning.
    assert run.detail()["ledger"]["superseded"] == 0


def test_only_rank_0_of_a_ddp_job_logs(served: Served, tmp_path: Path) -> None:
    said = program(
        tmp_path,
        """
        import sys
        from tests.frameworks.test_lightning import Model, data, logger, lightning
        found = logger(run_name="ddp")
        work = lightning.Trainer(logger=found, accelerator="cpu", devices=2, strategy="ddp",
            max_epochs=2, log_every_n_steps=1, enable_progress_bar=False,
            enable_checkpointing=True, default_root_dir=sys.argv[1])
        model = Model()
        work.fit(model, data())
        print("RANK", work.global_rank, len(model.seen), flush=True)
        """,
        str(tmp_path),
    )
    assert "RANK 0 4" in said
    run = served.only()
    assert len(run.detail()["writers"]) == 1
    assert sorted(served.values("loss", run)) == [0, 1, 2, 3]


def test_pytorch_lightning_by_its_old_name(served: Served, tmp_path: Path) -> None:
    program(
        tmp_path,
        """
        import pytorch_lightning as pl, torch
        from kymogram.lightning import KymogramLogger
        class Model(pl.LightningModule):
            def __init__(self):
                super().__init__()
                self.layer = torch.nn.Linear(1, 1)
            def training_step(self, batch, index):
                self.log("loss", self.global_step / 2)
                return self.layer(batch).mean()
            def configure_optimizers(self):
                return torch.optim.SGD(self.parameters(), 0.1)
        rows = torch.utils.data.DataLoader(torch.zeros(4, 1), batch_size=2)
        pl.Trainer(logger=KymogramLogger(run_name="old"), accelerator="cpu", max_epochs=2,
            log_every_n_steps=1, enable_progress_bar=False, enable_checkpointing=False
        ).fit(Model(), rows)
        """,
    )
    assert served.values("loss") == {0: 0.0, 1: 0.5, 2: 1.0, 3: 1.5}
