"""What the page costs, beside TensorBoard on the same points: make bench-web; --sets A,B,C,D,K,H.

R (2,000 runs) and M (1,000,000 series) take minutes more, and are measured when they are named;
so are T, 100,000 runs that test/bench/scale makes.

A server and one TensorBoard a set get the points of web/test/measure/load.py, which come
from seeds. Then a real Chromium looks at both, one after the other, and prints a line a figure.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import pathlib
import re
import subprocess
import sys
import tempfile
from collections.abc import Iterator

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "test" / "peers"))
install = __import__("install")

LOAD = ROOT / "web" / "test" / "measure" / "load.py"
BESIDE = "ABC"  # of the larger ones TensorBoard keeps a sample of 1,000 points, or does not end


@contextlib.contextmanager
def served(command: list[str], ready: str, **options: object) -> Iterator[str]:
    """The address that a server prints on its output; it ends with the block."""
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, **options) as server:
        try:
            assert server.stdout is not None
            for line in server.stdout:
                if found := re.search(ready, line):
                    yield found[1]
                    return
            raise SystemExit(f"{command[0]} ended without an address")
        finally:
            server.kill()


def tensorboards(sets: str, folder: pathlib.Path, stack: contextlib.ExitStack) -> dict[str, str]:
    """One TensorBoard for each set that it can show."""
    if failed := install.install(["tensorboard"]):
        print("without TensorBoard:", failed["tensorboard"], file=sys.stderr)
        return {}
    python = str(install.python("tensorboard"))
    addresses = {}
    for name in sets:
        files = folder / f"tensorboard-{name}"
        print(f"set {name} for TensorBoard", file=sys.stderr, flush=True)
        subprocess.run([python, str(LOAD), name, "--tensorboard", str(files)], check=True)
        command = [python, "-m", "tensorboard.main", "--logdir", str(files), "--host", "127.0.0.1", "--port", "0"]
        addresses[name] = stack.enter_context(served(command, r"at (http://127\.0\.0\.1:\d+/)"))
    return addresses


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sets", default="A,B,C,D,K,H", help="of docs/design/targets.md (default all)")
    parser.add_argument("--alone", action="store_true", help="without TensorBoard")
    asked = parser.parse_args()
    sets = asked.sets.replace(",", "")
    with tempfile.TemporaryDirectory() as scratch, contextlib.ExitStack() as stack:
        folder = pathlib.Path(scratch)
        if "T" in sets:
            print("set T", file=sys.stderr, flush=True)
            scale = ["go", "run", "./test/bench/scale", "-binary", str(ROOT / "bin" / "kymogram"), "-table", "100000"]
            subprocess.run([*scale, "-folder", str(folder)], cwd=ROOT, check=True, stdout=subprocess.DEVNULL)
            sets = sets.replace("T", "")
        command = [str(ROOT / "bin" / "kymogram"), "serve", "--data", str(folder / "data"), "--http", "127.0.0.1:0"]
        address = stack.enter_context(served([*command, "--no-auth", "--log-level", "error"], r"ready http=(\S+)"))
        env = {**os.environ, "KYMOGRAM_SERVER": f"http://{address}", "KYMOGRAM_SPOOL_DIR": str(folder / "spool")}
        for name in sets:
            print(f"set {name}", file=sys.stderr, flush=True)
            subprocess.run([sys.executable, str(LOAD), name], check=True, env=env)
        beside = "" if asked.alone else "".join(s for s in sets if s in BESIDE)
        env["TENSORBOARD"] = json.dumps(tensorboards(beside, folder, stack))
        command = ["npx", "vitest", "run", "--dir", "test/measure", "--silent=false"]
        raise SystemExit(subprocess.run(command, cwd=ROOT / "web", env=env, check=False).returncode)


if __name__ == "__main__":
    main()
