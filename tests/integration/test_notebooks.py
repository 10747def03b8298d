"""The notebooks run from top to bottom, and carry no outputs of anybody's machine."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

NOTEBOOKS = sorted((Path(__file__).parents[2] / "notebooks").glob("*.ipynb"))

# What they import, and the model, is loaded once; each begins without the names of the one before.
# What a drawing raises in `display` ends no cell: IPython puts it among the outputs, and goes on.
IN_ONE_KERNEL = """
import sys
import nbformat
from nbclient import NotebookClient
notebooks = {path: nbformat.read(path, as_version=4).cells for path in sys.argv[1:]}
whole = nbformat.v4.new_notebook()
for cells in notebooks.values():
    whole.cells += [*cells, nbformat.v4.new_code_cell("%reset -f")]
NotebookClient(whole, timeout=600, startup_timeout=600).execute()
for path, cells in notebooks.items():
    outputs = [output for cell in cells for output in cell.get("outputs", [])]
    raised = [output["evalue"] for output in outputs if output["output_type"] == "error"]
    assert not raised, f"{path}: {raised}"
    drawn = [output for output in outputs if "image/svg+xml" in output.get("data", {})]
    assert drawn, f"{path}: no drawing"
"""


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_it_has_no_outputs(path: Path) -> None:
    cells = json.loads(path.read_text(encoding="utf-8"))["cells"]
    assert not any(cell.get("outputs") for cell in cells)


@pytest.mark.integration
def test_they_run_and_draw() -> None:
    """In a process of its own, as Jupyter's warnings are its own business, too."""
    done = subprocess.run(  # noqa: S603 -- our own arguments
        [sys.executable, "-c", IN_ONE_KERNEL, *map(str, NOTEBOOKS)],
        env=os.environ | {"PB_THREADS": "1"},  # beside other tests, more threads are slower
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-3000:]
