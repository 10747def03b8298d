"""``pb-optim show``: a tuned program as a person and as a script reads it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner, Result

from optim import cli
from optim.tuning.show import prompt_diff
from pb_graph.planner.planner import Planner
from pb_graph.settings import Settings
from tests.support.artefacts import (
    CANDIDATES,
    FRUGAL,
    artefact,
    candidate,
    measured,
    planner,
    tuning,
)

HOSTILE = "[red]x[/red] \x1b[2J<script>alert(1)</script>"


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "tuned.json"


def show(*arguments: object) -> Result:
    return CliRunner().invoke(cli.app, ["show", *map(str, arguments)])


def lines_with(result: Result, *words: str) -> list[str]:
    assert result.exit_code == 0, result.output
    return [line for line in result.stdout.splitlines() if all(word in line for word in words)]


def test_it_says_what_came_of_the_tuning_and_what_it_cost(path: Path) -> None:
    artefact(tuning=tuning(ended="the budget of 400 answers is spent")).save(path)
    shown = show(path)
    assert shown.stdout.startswith(
        "The tuned program is used, but it is undecided whether it is better. It is not worse"
    )
    for line in ("optimizer: gepa", "seed: 3", "solver: test:small", "date: 2026-11-21 12:00 UTC"):
        assert lines_with(shown, line)
    assert lines_with(shown, "answers: 400")
    assert lines_with(shown, "completion tokens: 123\N{NARROW NO-BREAK SPACE}456")
    assert lines_with(shown, "the search ended: the budget of 400 answers is spent")


def test_it_shows_before_and_after_with_intervals(path: Path) -> None:
    artefact().save(path)
    shown = show(path)
    assert lines_with(shown, "dev", "original", "50.0 (40.0–60.0)", "800 (640–960)")  # noqa: RUF001
    (after,) = lines_with(shown, "held out", "tuned")
    assert "500 (400–600)" in after  # noqa: RUF001
    assert "1.60 (1.28–1.92)" in after  # noqa: RUF001
    assert "0.50 (0.40–0.62)" in after  # noqa: RUF001 -- of tokens
    assert "0 of 40: accuracy undecided" in after
    assert "71 %" in after
    (dev,) = lines_with(shown, "dev", "tuned")
    assert "71 %" not in dev  # it was chosen by these questions
    assert lines_with(shown, "The winner was chosen by its dev questions, which flatter it.")
    assert not lines_with(shown, "biased upwards")


def test_few_questions_are_said_below_the_figures(path: Path) -> None:
    few = tuning().dev.model_copy(update={"before": measured(50, 800, questions=29)})
    artefact(tuning=tuning(dev=few)).save(path)
    assert lines_with(show(path), "E³ of fewer than 30 questions is biased upwards")


def test_it_shows_how_it_came_about(path: Path) -> None:
    about = {"command": "pb-optim tune --data mine.jsonl", "data": "mine.jsonl", "scorer": "math"}
    artefact(tuning=tuning(made_by=about)).save(path)
    for name, value in about.items():
        assert lines_with(show(path), f"{name}: {value}")


def test_a_kept_original_is_told_as_one(path: Path) -> None:
    program = Planner().program()
    kept = tuning(verdict="kept", reason="Nothing was better.", held_out=None)
    artefact(state=program.state, settings=None, tuning=kept).save(path)
    shown = show(path)
    assert shown.stdout.startswith("The original is kept. Nothing was better.")
    assert lines_with(shown, "dev", "best on dev")
    assert not lines_with(shown, "held out", "original")
    assert lines_with(shown, "decompose: the package's own prompt")


def test_an_interval_may_be_open_or_missing(path: Path) -> None:
    before = tuning().dev.before
    ends = {"e3": before.e3.model_copy(update={"upper": None})}
    ends |= {"tokens": before.tokens.model_copy(update={"lower": None, "upper": None})}
    dev = tuning().dev.model_copy(update={"before": before.model_copy(update=ends)})
    artefact(tuning=tuning(dev=dev)).save(path)
    (line,) = lines_with(show(path), "dev", "original")
    assert "3.12 (2.50–∞)" in line  # noqa: RUF001
    assert " 800 " in line


def test_settings_are_shown_where_they_differ(path: Path) -> None:
    artefact().save(path)
    shown = show(path)
    assert lines_with(shown, "schedule", Settings().schedule, "linear")
    assert not lines_with(shown, "enforcement")


def test_a_changed_prompt_is_shown_word_by_word(path: Path) -> None:
    own = Planner().decompose.signature.instructions
    program = planner(own.replace("the fewest sub-questions", "three sub-questions"))
    artefact(state=program.program().state).save(path)
    text = show(path).stdout
    assert "\nWrite [-the fewest-] {+three+} sub-questions" in text


def test_a_new_prompt_is_shown_after_the_old_one(path: Path) -> None:
    artefact().save(path)
    shown = show(path)
    old, new = Planner().decompose.signature.instructions, FRUGAL
    first, last = f"- {old.splitlines()[0]}", f"+ {new.splitlines()[-1]}"
    assert shown.stdout.index(first) < shown.stdout.index(last)


def test_candidates_stand_with_their_role_and_their_settings(path: Path) -> None:
    artefact().save(path)
    shown = show(path)
    assert lines_with(shown, "c1", "chosen", "500", "5.00")
    assert lines_with(shown, "c3", "10", "execution=single_pass")
    assert lines_with(shown, "vanilla", "reference")


def test_of_many_candidates_the_best_are_shown(path: Path) -> None:
    more = tuple(candidate(f"x{i}", 40, 500 + i) for i in range(30))
    artefact(tuning=tuning(candidates=(*CANDIDATES, *more), left_out=7)).save(path)
    shown = show(path)
    assert lines_with(shown, "x0 ")
    assert lines_with(shown, "c3", "10") == []  # asked too few questions to be among the best
    assert not lines_with(shown, "x29 ")
    assert lines_with(shown, "original", "800.00") == []
    assert lines_with(shown, "and 30 more")


def test_prompts_written_by_hand_are_shown_without_figures(path: Path) -> None:
    planner().save(path)
    text = show(path).stdout
    assert "decompose, against the package's own prompt:" in text
    assert "completion tokens" not in text


def test_examples_are_counted(path: Path) -> None:
    program = planner()
    program.decompose.demos = [{"problem": "Old"}, {"problem": "Older"}]
    program.save(path)
    assert lines_with(show(path), "decompose", "2 examples")


def test_text_of_a_model_is_shown_literally(path: Path) -> None:
    texts = {"reason": HOSTILE, "candidates": (candidate(HOSTILE, 1, 9),)}
    artefact(state=planner(HOSTILE).program().state, tuning=tuning(**texts)).save(path)
    shown = show(path)
    assert len(lines_with(shown, "[red]x[/red]")) == 3
    assert "\x1b" not in shown.stdout


def test_json_is_all_that_json_prints(path: Path) -> None:
    artefact().save(path)
    shown = show(path, "--json")
    assert shown.stdout.count("\n") == 1
    document: Any = json.loads(shown.stdout)
    assert document["prompts"]["decompose"]["tuned"] == FRUGAL
    assert document["prompts"]["decompose"]["changed"]
    assert not document["prompts"]["estimate"]["changed"]
    before = Settings().schedule
    assert document["settings_changed"]["schedule"] == {"before": before, "after": "linear"}
    assert document["tuning"]["held_out"]["paired"]["ratio"] == 1.6


def test_settings_without_a_tuning_are_compared_with_the_defaults(path: Path) -> None:
    artefact(tuning=None, settings=Settings(power=3)).save(path)
    assert lines_with(show(path), "power", " 2 ", " 3")


@pytest.mark.parametrize("content", [b"{}", b"\x80\x04K\x01."])
@pytest.mark.parametrize("options", [(), ("--json",)])
def test_a_file_that_is_none_is_refused(
    path: Path, content: bytes, options: tuple[str, ...]
) -> None:
    path.write_bytes(content)
    shown = show(path, *options)
    assert (shown.exit_code, shown.stdout) == (cli.FAILED, "")
    assert shown.stderr.startswith(f"pb-optim: {path} is ")


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    shown = show(tmp_path / "none.json")
    assert (shown.exit_code, shown.stdout) == (cli.FAILED, "")
    assert "No such file" in shown.stderr


def test_a_budget_rule_is_written_in_a_few_words(path: Path) -> None:
    for budget, words in (
        (250, "250"),
        ({"rule": "per_level", "initial": 50, "per_level": 10}, "50+10L"),
        ({"rule": "fixed", "tokens": 99}, "99"),
    ):
        artefact(settings=Settings.read({"budget": budget})).save(path)
        (line,) = lines_with(show(path), "budget", words)
        assert line.split()[-1] == words


class TestPromptDiff:
    def test_line_breaks_that_moved_are_no_change(self) -> None:
        assert prompt_diff("one two\nthree", "one\ntwo three").plain == "one\ntwo three"

    def test_words_that_went_and_came_are_marked(self) -> None:
        found = prompt_diff("Be very brief, please. Stop.", "Be brief, always. Stop.")
        assert found.plain == "Be [-very-] brief, [-please.-] {+always.+} Stop."

    def test_huge_texts_are_not_compared_word_by_word(self) -> None:
        found = prompt_diff("a " * 100_000, "a " * 100_001).plain
        assert found.startswith("- a a")

    def test_nothing_against_something(self) -> None:
        assert prompt_diff("", "all new").plain == "+ all new"
