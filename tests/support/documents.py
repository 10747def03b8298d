"""The code of documents and notebooks, run as it stands; as a program, it stores outputs."""

from __future__ import annotations

import json
import re
import subprocess
import sys
import textwrap
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[2]
NOTEBOOKS = sorted((ROOT / "notebooks").glob("*.ipynb"))
KEPT = ("image/svg+xml", "text/html", "text/plain")
"""The kinds of output that are stored; of each output the first of them that there is."""
NOTEBOOK_PAGES = ROOT / "docs" / "notebooks"  # pages made of the notebooks, which run elsewhere
PAGES = sorted(
    page
    for page in [*ROOT.glob("docs/**/*.md"), ROOT / "skills" / "plan-and-budget" / "SKILL.md"]
    if page.parent != NOTEBOOK_PAGES
)
TEXTS = [
    *(
        ROOT / name
        for name in ("README.md", "AGENTS.md", "llms.txt", "CHANGELOG.md", "CONTRIBUTING.md")
    ),
    *PAGES,
    *NOTEBOOKS,
]
"""Everything that a user reads."""
ENDPOINT = "http://127.0.0.1:8000"
"""Where documents expect ``pb-graph serve``."""
SERVER = "http://127.0.0.1:2024"
"""Where they expect LangGraph Server."""

_FENCE = re.compile(r"^([ ]*)```(\w+)[^\n]*\n(.*?)^\1```[ ]*$", re.DOTALL | re.MULTILINE)


@dataclass(frozen=True)
class Snippet:
    """A block of code on a page, and the line on which it begins."""

    page: Path
    line: int
    language: str
    code: str

    def run(self, names: dict[str, Any], replaced: Mapping[str, str]) -> None:
        """Run Python with these names, to which it adds its own; errors tell page and line.

        Args:
            names: What the page's earlier snippets have defined.
            replaced: Addresses as the page has them, and those of the test.
        """
        code = self.code
        for theirs, ours in replaced.items():
            code = code.replace(theirs, ours)
        placed = "\n" * (self.line - 1) + code
        exec(compile(placed, str(self.page), "exec"), names)  # noqa: S102 -- our own code


def name_of(page: Path) -> str:
    """The page as a test is called after it."""
    return page.relative_to(ROOT).as_posix()


def text_of(page: Path) -> str:
    """Return the text of a page; of a notebook its cells in Markdown."""
    text = page.read_text("utf-8")
    if page.suffix != ".ipynb":
        return text
    cells = [cell for cell in json.loads(text)["cells"] if cell["cell_type"] == "markdown"]
    return "\n".join("".join(cell["source"]) for cell in cells)


def snippets(page: Path, language: str) -> Iterator[Snippet]:
    """The blocks of a language on a page, in order."""
    text = text_of(page)
    for found in _FENCE.finditer(text):
        if found[2] == language:
            line = text.count("\n", 0, found.start(3)) + 1
            yield Snippet(page, line, language, textwrap.dedent(found[3]))


# What they import is loaded once; each begins without the names of the one before. What a drawing
# raises in `display` ends no cell: IPython puts it among the outputs, and goes on.
_IN_ONE_KERNEL = """
import json, os, sys
import nbformat
from nbclient import NotebookClient
notebooks = {path: nbformat.read(path, as_version=4).cells for path in sys.argv[1:]}
whole = nbformat.v4.new_notebook()
drawn = (  # as pictures that need no script, and that are legible on dark pages
    "import altair, optim.reporting.charts;"
    "altair.renderers.enable('svg'); altair.theme.enable('plan_and_budget')"
)
whole.cells.append(nbformat.v4.new_code_cell(drawn))
for cells in notebooks.values():
    whole.cells += [*cells, nbformat.v4.new_code_cell("%reset -f")]
folder = {"metadata": {"path": os.path.dirname(sys.argv[1])}}
NotebookClient(whole, timeout=600, startup_timeout=600, resources=folder).execute()
outputs = {path: [cell.get("outputs", []) for cell in cells] for path, cells in notebooks.items()}
print(json.dumps(outputs))
"""


def run_notebooks(paths: Sequence[Path]) -> dict[Path, list[list[dict[str, Any]]]]:
    """Run notebooks in a process of its own, and return the outputs of each cell.

    Args:
        paths: The notebooks, which are left as they are.

    Raises:
        RuntimeError: A cell failed; with the end of what was said.
    """
    command = [sys.executable, "-c", _IN_ONE_KERNEL, *map(str, paths)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)  # noqa: S603
    if done.returncode:
        raise RuntimeError(done.stderr[-3000:])
    found: dict[str, list[list[dict[str, Any]]]] = json.loads(done.stdout.splitlines()[-1])
    return {Path(path): [_cleaned(outputs) for outputs in cells] for path, cells in found.items()}


def store(paths: Sequence[Path]) -> None:
    """Run notebooks and write their outputs into them."""
    for path, cells in run_notebooks(paths).items():
        notebook = json.loads(path.read_text(encoding="utf-8"))
        for cell, outputs in zip(notebook["cells"], cells, strict=True):
            if cell["cell_type"] == "code":
                cell["outputs"] = outputs
        text = json.dumps(notebook, indent=1, ensure_ascii=False)
        path.write_text(f"{text}\n", encoding="utf-8")


def printed(outputs: Sequence[dict[str, Any]]) -> str:
    """Return what a cell printed."""
    return "".join("".join(output["text"]) for output in outputs if output.get("name") == "stdout")


def _cleaned(outputs: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return the outputs of a cell without progress and logs, and what was printed as one."""
    text = printed(outputs)
    kept = [{"name": "stdout", "output_type": "stream", "text": text}] if text else []
    for output in outputs:
        is_drawing = output["output_type"] == "display_data" and KEPT[0] in output["data"]
        if is_drawing or output["output_type"] in {"execute_result", "error"}:
            kept.append(_plain(output))
    return kept


def _plain(output: dict[str, Any]) -> dict[str, Any]:
    """Return an output with the best of its kinds, and with ids that do not change."""
    if "data" not in output:
        return output
    kind = next(kind for kind in KEPT if kind in output["data"])
    ids: dict[str, str] = {}  # Vega numbers its own on from drawing to drawing
    data = re.sub(
        r'((?:id="|url\(#))(\w+)',
        lambda found: found[1] + ids.setdefault(found[2], f"n{len(ids)}"),
        output["data"][kind],
    )
    return (
        output
        | {"data": {kind: data}, "metadata": {}}
        | ({"execution_count": None} if "execution_count" in output else {})
    )


if __name__ == "__main__":
    store([path for path in NOTEBOOKS if path.stem in sys.argv[1:] or len(sys.argv) == 1])
