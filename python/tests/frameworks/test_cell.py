"""A run as the last value of a cell, in a real notebook."""

from __future__ import annotations

from pathlib import Path

import pytest

import kymogram

from ..rig import Served
from ..test_notebook import Page

nbformat = pytest.importorskip("nbformat", reason="make test-adapters")
nbclient = pytest.importorskip("nbclient", reason="make test-adapters")
pytest.importorskip("ipykernel", reason="make test-adapters")


def test_a_notebook_shows_a_run(served: Served, tmp_path: Path) -> None:
    """A real notebook, run and turned into a page."""
    book = nbformat.v4.new_notebook()
    source = str(Path(kymogram.__file__).parents[1])
    lines = [
        f"import sys; sys.path.insert(0, {source!r})",
        "import kymogram",
        f"run = kymogram.init(run_name='cell', server={served.address!r})",
        "run.log('loss', [3.0, 2.0])",
        "run",
    ]
    book.cells = [
        nbformat.v4.new_code_cell("\n".join(lines)),
        nbformat.v4.new_code_cell("run.close()"),
    ]
    nbclient.NotebookClient(
        book, timeout=120, resources={"metadata": {"path": str(tmp_path)}}
    ).execute()
    (shown,) = [one for one in book.cells[0].outputs if one.output_type == "execute_result"]
    page = Page(shown["data"]["text/html"])
    assert "cell" in page.text and "loss" in page.text
    assert "kymogram.Run default/default/cell" in shown["data"]["text/plain"]
