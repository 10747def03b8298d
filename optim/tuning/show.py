"""Shows what a tuning left: prompts against the package's own, settings, and figures."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from difflib import SequenceMatcher
from typing import TYPE_CHECKING, Any

from rich.table import Table
from rich.text import Text

from optim.report.formatting import setting
from optim.tuning.artefact import changed, tuning_of
from optim.tuning.candidate import OWN
from optim.tuning.page import VERDICTS, before_and_after, facts_of, notes_on, proposals
from pb_graph.cli.display import safe
from pb_graph.planner.planner import Planner
from pb_graph.settings import Settings

if TYPE_CHECKING:
    from rich.console import RenderableType

    from optim.tuning.artefact import Tuning
    from pb_graph.program import PlannerProgram

_GONE, _NEW = "red", "green"
_KIN = 0.5  # below this share of common words, two texts are shown one after the other
_LONGEST = 4000  # words; comparing takes time that grows with their square
_BEST = 12  # candidates shown
_WORDS = {
    *("split", "program", "setting", "before", "default", "tuned"),
    *("candidate", "role", "other differences", "why it fell"),
}


def shown(program: PlannerProgram) -> Iterator[RenderableType]:
    """Everything a person wants to know of a planner program, piece by piece.

    Raises:
        PlannerProgramError: Its prompts do not fit this version.
    """
    prompts = _prompts(program)
    tuning = tuning_of(program)
    if tuning is not None:
        yield from _about(tuning)
        yield _grid(before_and_after(tuning))
        if notes := list(notes_on(tuning)):
            yield Text(" ".join(notes), "dim")
    changes = settings_changes(program, tuning)
    if changes:
        names = ("setting", "before" if tuning else "default", "tuned")
        values = ((name, *map(setting, pair)) for name, pair in changes.items())
        yield _grid([dict(zip(names, row, strict=True)) for row in values])
    for name, prompt in prompts.items():
        yield from _prompt(name, prompt)
    if tuning is not None and tuning.candidates:
        yield _grid(proposals(tuning, _BEST))


def document(program: PlannerProgram) -> dict[str, Any]:
    """The same as plain JSON: the whole file, with the prompts beside the package's own."""
    tuning = tuning_of(program)
    changes = {
        name: {"before": before, "after": after}
        for name, (before, after) in settings_changes(program, tuning).items()
    }
    whole = program.model_dump(mode="json", exclude={"state", "tuning"})
    whole["tuning"] = tuning.model_dump(mode="json") if tuning else None
    return whole | {"prompts": _prompts(program), "settings_changed": changes}


def settings_changes(
    program: PlannerProgram, tuning: Tuning | None
) -> Mapping[str, tuple[Any, Any]]:
    """Settings that differ from those before the tuning, else from the defaults, as plain JSON."""
    if program.settings is None:
        return {}
    base = tuning.settings_before if tuning else Settings()
    before = base.model_dump(mode="json")
    return {name: (before[name], after) for name, after in changed(program.settings, base).items()}


def prompt_diff(old: str, new: str) -> Text:
    """Show a text with what went ``[-like this-]`` and what came ``{+like this+}``, by words.

    Texts that have little in common are shown one after the other, which reads better.
    """
    a, b = re.findall(r"\s*\S+", old), re.findall(r"\s*\S+", new)
    if max(len(a), len(b)) > _LONGEST:
        return _in_turn(old, new)
    words = SequenceMatcher(
        None, [word.strip() for word in a], [word.strip() for word in b], autojunk=False
    )
    if words.ratio() < _KIN:
        return _in_turn(old, new)
    found = Text()
    for kind, a_from, a_to, b_from, b_to in words.get_opcodes():
        if kind == "equal":
            found.append_text(safe("".join(b[b_from:b_to])))
            continue
        if a_to > a_from:
            found.append_text(_marked("[-", a[a_from:a_to], "-]", _GONE))
        if b_to > b_from:
            found.append_text(_marked("{+", b[b_from:b_to], "+}", _NEW))
    return found


def _marked(opening: str, words: list[str], closing: str, style: str) -> Text:
    """The words in marks; the space before them stays outside."""
    first = words[0].lstrip()
    space = words[0][: len(words[0]) - len(first)]
    return safe(space) + safe(opening + "".join([first, *words[1:]]) + closing, style)


def _in_turn(old: str, new: str) -> Text:
    lines = [safe(f"- {line}\n", _GONE) for line in old.splitlines()]
    lines += [safe(f"+ {line}\n", _NEW) for line in new.splitlines()]
    found = Text().join(lines)
    found.rstrip()
    return found


def _prompts(program: PlannerProgram) -> dict[str, dict[str, Any]]:
    """Each predictor's instruction, the package's own and the program's, as plain JSON."""
    return {
        name: {
            "own": OWN[name],
            "tuned": (told := predictor.signature.instructions),
            "changed": told != OWN[name],
            "examples": len(predictor.demos),
        }
        for name, predictor in Planner().adopt(program).named_predictors()
    }


def _about(tuning: Tuning) -> Iterator[RenderableType]:
    style = "bold green" if tuning.verdict == "better" else "bold yellow"
    reason = safe(f" {tuning.reason}", "not bold default")
    yield Text(VERDICTS[tuning.verdict], style).append_text(reason)
    yield safe("\n".join(f"{name}: {value}" for name, value in facts_of(tuning).items()))


def _prompt(name: str, prompt: Mapping[str, Any]) -> Iterator[RenderableType]:
    examples = f", {prompt['examples']} examples" if prompt["examples"] else ""
    if not prompt["changed"]:
        yield Text(f"{name}: the package's own prompt{examples}", "dim")
        return
    yield Text(f"{name}, against the package's own prompt{examples}:", "bold")
    yield prompt_diff(prompt["own"], prompt["tuned"])


def _grid(rows: Sequence[Mapping[str, str]]) -> Table:
    """A table of rows that have the columns of the first; words stand left, figures right."""
    grid = Table(box=None, header_style="bold", pad_edge=False)
    for name in rows[0]:
        words = name in _WORDS
        grid.add_column(name, justify="left" if words else "right", no_wrap=not words)
    for row in rows:
        grid.add_row(*(safe(row.get(name, "")) for name in rows[0]))
    return grid
