"""Candidates: their identity, the prompts that settings send, and lists of instructions."""

from __future__ import annotations

import itertools
from pathlib import Path
from typing import Any

import dspy
import pytest

from optim.tuning import GraphProgram
from optim.tuning.candidate import (
    DEFAULT_INSTRUCTIONS,
    MAX_CHARACTERS,
    Candidate,
    predictors_of,
    read_instructions,
)
from pb_graph import InputError, Settings
from tests.support.chat_model import ScriptedChat, with_schema
from tests.support.tuning_world import DEV, MINIMAL, original

OWN = DEFAULT_INSTRUCTIONS["decompose"]


def test_the_packages_own_words_are_no_change() -> None:
    assert Candidate({"decompose": f" {OWN}\n"}) == Candidate()


def test_identity_is_prompts_and_the_settings_that_bear_on_answers() -> None:
    base = original()
    changed = base.with_instruction("decompose", MINIMAL)
    assert base.identity == original(timeout=5).identity
    assert len({base.identity, original(domain="law").identity, changed.identity}) == 3
    assert changed.with_instruction("decompose", OWN) == base


@pytest.mark.parametrize(
    ("instructions", "complaint"),
    [
        ({"decompose": " "}, "1 to 8000 characters, not 0"),
        ({"decompose": "x" * (MAX_CHARACTERS + 1)}, "not 8001"),
    ],
)
def test_unusable_instructions_are_refused(instructions: dict[str, str], complaint: str) -> None:
    with pytest.raises(InputError, match=complaint):
        Candidate(instructions)


@pytest.mark.parametrize(
    ("settings", "tuned", "predictor"),
    [
        ({"planning": "two_call"}, "decompose", "decompose"),
        ({"planning": "two_call", "execution": "single_pass"}, "estimate", "estimate"),
        ({"planning": "fused"}, "decompose", "fused"),
        ({"method": "planned_vanilla", "planning": "fused"}, "decompose", "decompose"),
        ({"method": "vanilla"}, "settings", "decompose"),
    ],
)
def test_a_tuned_predictor_is_the_one_that_is_sent(
    settings: dict[str, Any], tuned: str, predictor: str
) -> None:
    assert predictors_of(Settings(**({"method": "plan_and_budget"} | settings)), tuned) == [
        predictor
    ]


@pytest.mark.parametrize("tuned", ["decompose", "estimate", "all"])
def test_a_prompt_that_is_never_sent_cannot_be_tuned(tuned: str) -> None:
    with pytest.raises(InputError, match=f"no '{tuned}' prompt to tune; there are: none"):
        predictors_of(Settings(method="concise"), tuned)


@pytest.mark.parametrize(
    ("method", "planning", "schedule", "budget"),
    list(
        itertools.product(
            (
                "plan_and_budget",
                "planned_vanilla",
                "planned_global_budget",
                "global_budget",
                "vanilla",
            ),
            ("fused", "two_call"),
            ("uniform", "cosine"),
            (None, 300),
        )
    ),
)
def test_a_program_opens_exactly_the_prompts_that_its_settings_send(
    method: str, planning: str, schedule: str, budget: int | None
) -> None:
    """A prompt that no call reads would be tuned by DSPy in vain."""
    settings: dict[str, Any] = {
        "method": method,
        "planning": planning,
        "schedule": schedule,
        "plan_from": 1,
    }
    settings |= {"budget": budget} if budget else {}
    program = GraphProgram(ScriptedChat(), settings=settings, cap_policy=with_schema)
    with dspy.context(trace=[]):
        program(question=DEV[0].question)
        sent = {id(predictor) for predictor, _, _ in dspy.settings.trace}
    names = [name for name, predictor in program.named_predictors() if id(predictor) in sent]
    assert names == [name for name, _ in program.named_predictors()]
    assert len(sent) == len(names)


# Lists of instructions


def file(folder: Path, content: str) -> Path:
    path = folder / "candidates"
    path.write_text(content, encoding="utf-8")
    return path


def test_instructions_are_read_between_lines_of_dashes(tmp_path: Path) -> None:
    content = "---\nOne - or two --- words.\n---\n\nTwo,\nin lines.\n-----  \nThree.\n---\n"
    assert read_instructions(file(tmp_path, content), "decompose") == [
        "One - or two --- words.",
        "Two,\nin lines.",
        "Three.",
    ]


def test_a_file_without_instructions_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="holds no instruction"):
        read_instructions(file(tmp_path, "---\n \n---"), "decompose")
    with pytest.raises(InputError, match="cannot read the candidates"):
        read_instructions(tmp_path / "none", "decompose")


def test_the_packages_list_has_eight_usable_styles_and_none_for_other_predictors() -> None:
    found = read_instructions(None, "decompose")
    assert len({Candidate({"decompose": text}).identity for text in found}) == len(found) >= 8
    assert OWN not in found
    for text in found:
        assert not {"json", "list of", "number your", "format"} & set(text.lower().split())
    with pytest.raises(InputError, match="give --candidates"):
        read_instructions(None, "estimate")
