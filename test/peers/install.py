"""The environments of the peers: one each, because their dependencies contradict one another."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
VENVS = ROOT / ".venv-peers"
PACKAGES = {
    "metrana-1.11": ["metrana[query]==1.11.0", "numpy"],
    # 0.5.2 works with this engine only: with later ones `import metrana` fails.
    "metrana-0.5.2": ["metrana==0.5.2", "metrana-logging-engine==0.0.4", "numpy"],
    "wandb": ["wandb==0.31.0", "numpy"],
    "tensorboard": ["tensorboard==2.21.0", "numpy"],
    "trackio": ["trackio==0.43.0", "numpy"],
    "mlflow": ["mlflow-skinny==3.17.2", "sqlalchemy", "alembic", "numpy"],
}


def python(name: str) -> Path:
    """The interpreter that has the logger."""
    if name == "kymogram":
        return Path(sys.executable)
    return VENVS / name / "bin" / "python"


def install(names: list[str]) -> dict[str, str]:
    """Make what is missing; the answer names those that could not be installed, with why."""
    failed = {}
    for name in names:
        done = VENVS / name / ".installed"
        wanted = "\n".join(PACKAGES[name])
        if done.exists() and done.read_text() == wanted:
            continue
        print(f"installing {name}: {', '.join(PACKAGES[name])}", file=sys.stderr, flush=True)
        pip = [str(python(name)), "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
        try:
            subprocess.run([sys.executable, "-m", "venv", str(VENVS / name)], check=True)
            subprocess.run([*pip, *PACKAGES[name]], check=True, capture_output=True, text=True)
            done.write_text(wanted)
        except subprocess.CalledProcessError as error:
            failed[name] = (error.stderr or str(error)).strip().splitlines()[-1]
    return failed


def wheel_bytes(name: str) -> int:
    """The size of what the logger's own wheels install, without their dependencies."""
    own = {
        "metrana-1.11": ["metrana", "metrana_logging_engine"],
        "metrana-0.5.2": ["metrana", "metrana_logging_engine"],
    }
    folder = next((VENVS / name / "lib").glob("python3*/site-packages"))
    roots = [folder / package for package in own.get(name, [name])]
    return sum(file.stat().st_size for root in roots for file in root.rglob("*") if file.is_file())
