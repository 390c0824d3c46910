"""Train a small network in NumPy on scikit-learn's digits and log it to Kymogram.

One call is one run::

    python examples/demo/digits.py --lr 0.3 --seed 1

The learning rate warms up to ``--lr`` over half of the training, so a rate that
is too high looks fine until some step and then breaks: the gradient norms climb,
the loss leaves the chart and becomes NaN, and the run ends as failed.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Iterator
from itertools import pairwise

import numpy as np
import numpy.typing as npt
from sklearn.datasets import load_digits
from sklearn.model_selection import train_test_split

import kymogram
import oracle

Array = npt.NDArray[np.float64]
Labels = npt.NDArray[np.int64]

LAYERS = (64, 96, 48, 10)
BATCH = 32
LEAK = 0.1
EVAL_EVERY = 20
# Training goes on this long after the loss stopped being a number, as an
# unattended one would: the page must show it.
STEPS_AFTER_NAN = 25


class Network:
    """A multi-layer perceptron with leaky ReLU, trained on the squared error to one-hot targets."""

    def __init__(self, rng: np.random.Generator) -> None:
        pairs = list(pairwise(LAYERS))
        self.weights = [rng.normal(0, np.sqrt(2 / n), (n, m)) for n, m in pairs]
        self.biases = [np.zeros(m) for _, m in pairs]
        self.velocity = [np.zeros_like(p) for p in self.parameters()]

    def parameters(self) -> list[Array]:
        return [*self.weights, *self.biases]

    def forward(self, x: Array) -> tuple[list[Array], Array]:
        """The input of every layer, and the output."""
        inputs = []
        for w, b in zip(self.weights, self.biases, strict=True):
            inputs.append(x)
            x = x @ w + b
            if len(inputs) < len(self.weights):
                x = np.maximum(x, LEAK * x)
        return inputs, x

    def gradients(self, x: Array, y: Labels) -> tuple[float, float, list[Array]]:
        """Loss, accuracy, and the gradient of every parameter."""
        inputs, output = self.forward(x)
        delta = (output - np.eye(LAYERS[-1])[y]) / len(y)
        weights: list[Array] = []
        biases: list[Array] = []
        for i in reversed(range(len(self.weights))):
            weights.insert(0, inputs[i].T @ delta)
            biases.insert(0, delta.sum(axis=0))
            delta = (delta @ self.weights[i].T) * np.where(inputs[i] > 0, 1, LEAK)
        return *scores(output, y), [*weights, *biases]

    def descend(self, gradients: list[Array], lr: float, momentum: float = 0.9) -> None:
        for p, v, g in zip(self.parameters(), self.velocity, gradients, strict=True):
            v *= momentum
            v -= lr * g
            p += v


def scores(output: Array, y: Labels) -> tuple[float, float]:
    """Squared error and accuracy."""
    error = output - np.eye(LAYERS[-1])[y]
    return float((error**2).sum(axis=1).mean() / 2), float((output.argmax(axis=1) == y).mean())


def batches(x: Array, y: Labels, rng: np.random.Generator) -> Iterator[tuple[Array, Labels]]:
    order = rng.permutation(len(x))
    for start in range(0, len(x) - BATCH + 1, BATCH):
        rows = order[start : start + BATCH]
        yield x[rows], y[rows]


def train(args: argparse.Namespace) -> bool:
    """Train and log; False when the loss stopped being a number."""
    rng = np.random.default_rng(args.seed)
    images, digits = load_digits(return_X_y=True)
    x, x_eval, y, y_eval = train_test_split(images / 16, digits, test_size=0.25, random_state=0)
    network = Network(rng)
    steps = args.epochs * (len(x) // BATCH)
    step = broken = 0
    for _epoch in range(args.epochs):
        for batch, labels in batches(x, y, rng):
            lr = args.lr * min(1.0, 2 * (step + 1) / steps)
            loss, accuracy, gradients = network.gradients(batch, labels)
            kymogram.log({"train/loss": loss, "train/accuracy": accuracy, "train/lr": lr}, step=step)
            norms = {f"layers/{i}/grad_norm": float(np.linalg.norm(gradients[i])) for i in range(len(network.weights))}
            kymogram.log(norms, step=step)
            if step % EVAL_EVERY == 0 or step == steps - 1:
                loss_eval, accuracy_eval = scores(network.forward(x_eval)[1], y_eval)
                kymogram.log({"eval/loss": loss_eval, "eval/accuracy": accuracy_eval}, step=step, evaluation=True)
            network.descend(gradients, lr)
            step += 1
            broken += not np.isfinite(loss)
            if broken > STEPS_AFTER_NAN:
                return False
            if args.pace:
                time.sleep(1 / args.pace)
    return True


def main() -> int:
    parser = argparse.ArgumentParser(description="Train a small network on the digits and log it.")
    parser.add_argument("--lr", type=float, default=0.3, help="the learning rate after warm-up")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--epochs", type=int, default=40)
    parser.add_argument("--pace", type=float, default=0, help="at most so many steps a second, to watch it")
    parser.add_argument("--server", help="default: $KYMOGRAM_SERVER, else http://127.0.0.1:7070")
    parser.add_argument("--project", default="digits")
    parser.add_argument("--suffix", default="", help="ends the run's name, for a second training of the same kind")
    parser.add_argument("--oracle", help="write every point that was logged to this file, as JSON lines")
    args = parser.parse_args()

    name = f"lr{args.lr:g}-seed{args.seed}{args.suffix}"
    kymogram.init(
        workspace_name="demo",
        project_name=args.project,
        run_name=name,
        server=args.server,
        tags=["digits", f"lr={args.lr:g}"],
        description="A 64-96-48-10 network on scikit-learn's digits, plain SGD with momentum and warm-up.",
        config={"lr": args.lr, "seed": args.seed, "epochs": args.epochs, "batch": BATCH, "layers": list(LAYERS)},
    )
    if args.oracle:
        oracle.watch(kymogram, args.oracle, f"demo/{args.project}/{name}")
    # A diverging run overflows, which is what it is there to show.
    with np.errstate(over="ignore", invalid="ignore", divide="ignore"):
        sound = train(args)
    if not sound:
        # Uncaught on purpose: the run is then marked as failed.
        raise FloatingPointError(f"the loss of {name} is not a number any more")
    kymogram.close()
    return 0


if __name__ == "__main__":
    sys.exit(main())
