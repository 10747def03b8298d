"""The code that documents show: found, and run as it stands there, on a test's servers."""

from __future__ import annotations

import json
import re
import textwrap
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[2]
NOTEBOOKS = ROOT / "docs" / "notebooks"  # pages made of the notebooks, which run elsewhere
PAGES = sorted(
    page
    for page in [*ROOT.glob("docs/**/*.md"), ROOT / "skills" / "plan-and-budget" / "SKILL.md"]
    if page.parent != NOTEBOOKS
)
TEXTS = [
    *(
        ROOT / name
        for name in ("README.md", "AGENTS.md", "llms.txt", "CHANGELOG.md", "CONTRIBUTING.md")
    ),
    *PAGES,
    *sorted(ROOT.glob("notebooks/*.ipynb")),
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
