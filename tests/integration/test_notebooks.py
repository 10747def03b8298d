"""The notebooks run from top to bottom, and what they print is what is stored in them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.support.notebooks import KEPT, NOTEBOOKS, printed, run


def outputs_of(path: Path) -> list[list[dict[str, Any]]]:
    """Return the stored outputs of each cell of a notebook."""
    cells = json.loads(path.read_text(encoding="utf-8"))["cells"]
    return [cell.get("outputs", []) for cell in cells]


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_a_notebook_shows_a_drawing_and_nothing_of_a_machine(path: Path) -> None:
    stored = [output for outputs in outputs_of(path) for output in outputs]
    text = path.read_text(encoding="utf-8")
    assert any(KEPT[0] in output.get("data", {}) for output in stored)
    assert not [word for word in ("/root", "/home", "/tmp", "<script") if word in text]  # noqa: S108
    assert len(text) < 300_000


@pytest.mark.integration
def test_the_notebooks_run_and_print_what_is_stored() -> None:
    for path, cells in run(NOTEBOOKS).items():
        raised = [output for outputs in cells for output in outputs if "ename" in output]
        assert not raised, f"{path.name}: {raised}"
        told = f"{path.name}: python -m tests.support.notebooks {path.stem}"
        assert [*map(printed, cells)] == [*map(printed, outputs_of(path))], told
