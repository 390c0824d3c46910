"""The same scalar loop through other loggers, in one run with ours. `make bench-peers` runs it.

Peers come from PyPI into an environment of their own and run without a network:
what is timed is the call in the training loop.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from pathlib import Path

HERE = Path(__file__).resolve().parent
VENV = HERE.parents[1] / ".venv-peers"
PACKAGES = ["tensorboardX==2.6.5", "wandb==0.31.0", "trackio==0.43.0"]
COUNT = 5_000

SETUP = {
    "tensorboardX": """
import tensorboardX
writer = tensorboardX.SummaryWriter("runs")
call = lambda i: writer.add_scalar("loss", 0.5, i)
""",
    "wandb, offline": """
import wandb
settings = wandb.Settings(silent=True, console="off", x_disable_stats=True)
run = wandb.init(mode="offline", project="bench", settings=settings)
call = lambda i: run.log({"loss": 0.5})
""",
    "trackio": """
import trackio
trackio.init(project="bench", embed=False)
call = lambda i: trackio.log({"loss": 0.5})
""",
}


def row(name: str, value: str) -> None:
    print(f"  {name:<24} {value}", flush=True)


def peer(python: str, setup: str, env: dict[str, str], folder: str) -> str:
    """One peer's µs a call, or how it failed."""
    code = f"""
import os, sys
sys.path.insert(0, {str(HERE)!r})
{setup}
from loops import timed
print("µs", timed(call, {COUNT}), flush=True)
os._exit(0)  # a peer may linger at its end; its loop is timed by now
"""
    done = subprocess.run([python, "-c", code], env=env, cwd=folder, capture_output=True, text=True, timeout=300)
    for line in done.stdout.splitlines():
        if line.startswith("µs "):
            return f"{float(line.split()[1]):9.2f} µs"
    return f"failed: {done.stderr.strip().splitlines()[-1:]}"


def main() -> int:
    if not VENV.exists():
        subprocess.run([sys.executable, "-m", "venv", str(VENV)], check=True)
    python = str(VENV / "bin" / "python")
    subprocess.run([python, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", *PACKAGES], check=True)
    with tempfile.TemporaryDirectory(prefix="kymogram-peers-") as folder:
        homes = {"HOME": folder, "TRACKIO_DIR": folder, "WANDB_DIR": folder, "KYMOGRAM_SPOOL_DIR": f"{folder}/spool"}
        env = {**os.environ, **homes}
        ours = [sys.executable, str(HERE / "loops.py"), "scalar", str(COUNT), "http://127.0.0.1:9"]
        micros = subprocess.check_output(ours, env=env, text=True, stderr=subprocess.DEVNULL)
        row("kymogram, server away", f"{float(micros):9.2f} µs")
        for name, setup in SETUP.items():
            row(name, peer(python, setup, env, folder))
    return 0


if __name__ == "__main__":
    sys.exit(main())
