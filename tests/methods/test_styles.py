"""Methods that are one prompt: a style, and examples of it as earlier turns."""

from __future__ import annotations

import re

import pytest

from pb_graph.methods import METHODS, chain_of_draft, concise, direct, numbered_steps
from pb_graph.prompts import DEFAULT_FORMAT
from tests.support.chat_model import ScriptedChat
from tests.support.graphs import QUESTION, report_of

BOXED = QUESTION | {"answer_format": r"Put the result into one \boxed command."}
SHOWN = {
    "chain_of_draft": chain_of_draft.EXAMPLES,
    "concise": concise.EXAMPLES,
    "numbered_steps": numbered_steps.EXAMPLES,
}


@pytest.mark.parametrize("name", SHOWN)
def test_it_is_one_call_after_examples_as_earlier_turns(name: str) -> None:
    model = ScriptedChat()
    report = report_of(model, method=name, cutoff=300)
    (call,) = model.calls
    examples = len(SHOWN[name])
    assert [turn.type for turn in call.messages] == ["system", *["human", "ai"] * examples, "human"]
    assert QUESTION["question"] in call.ask
    assert report["usage"]["by_node"].keys() == {"answer"}
    assert report["usage"]["output_tokens"] == model.output_tokens <= report["ceiling"] == 300
    assert (report["budget"], report["level"]) == (None, None)


def test_brief_is_the_wish_to_be_concise_and_no_example() -> None:
    model = ScriptedChat()
    report_of(model, method="brief")
    (call,) = model.calls
    assert [turn.type for turn in call.messages] == ["system", "human"]
    assert concise.STYLE in call.ask


def test_numbered_steps_are_short_lines_counted_from_one() -> None:
    for _, working, _ in numbered_steps.EXAMPLES:
        for number, line in enumerate(working.split("\n"), 1):
            assert line.startswith(f"{number}. ")
            assert len(line) < 100


def test_direct_asks_for_no_working() -> None:
    model = ScriptedChat()
    report_of(model, BOXED, method="direct")
    (call,) = model.calls
    assert "tep by step" not in str(call.messages)
    assert call.ask.endswith(f"</question>\n\n{BOXED['answer_format']} {direct.LAST}")
    report_of(model, method="direct")
    assert model.calls[-1].ask.endswith(f"{DEFAULT_FORMAT} {direct.LAST}")


@pytest.mark.parametrize("name", SHOWN)
def test_the_style_stands_beside_the_callers_instruction(name: str) -> None:
    model = ScriptedChat()
    report_of(model, QUESTION | {"instruction": "INSTRUCTION"}, method=name)
    told = str(model.calls[0].messages[0].text)
    assert told.startswith("INSTRUCTION\n")
    assert "step by step" in told


@pytest.mark.parametrize("name", SHOWN)
def test_only_the_system_message_asks_for_the_answer_alone(name: str) -> None:
    """Where just the last turn does, a small model gives the answer and leaves the working out."""
    model = ScriptedChat()
    report_of(model, BOXED, method=name)
    first, *turns = [str(turn.text) for turn in model.calls[0].messages]
    assert first.endswith(BOXED["answer_format"])
    assert not any(BOXED["answer_format"] in turn for turn in turns)


@pytest.mark.parametrize(
    ("given", "form"), [(QUESTION, r"Final answer: (.+)"), (BOXED, r"\\boxed\{(.+)\}")]
)
@pytest.mark.parametrize("name", SHOWN)
def test_examples_end_as_the_answer_is_wanted(name: str, given: dict[str, str], form: str) -> None:
    model = ScriptedChat()
    report_of(model, given, method=name)
    endings = [
        str(turn.text).split("\n")[-1] for turn in model.calls[0].messages if turn.type == "ai"
    ]
    found = [re.fullmatch(form, ending) for ending in endings]
    assert [match and match[1] for match in found] == [answer for *_, answer in SHOWN[name]]


def test_no_step_of_a_draft_has_more_than_five_words() -> None:
    for _, draft, _ in chain_of_draft.EXAMPLES:
        for step in draft.split("; "):
            assert len(re.findall(r"[A-Za-z]+", step)) <= 5


def test_they_neither_plan_nor_budget() -> None:
    assert not any(METHODS[name].plans or METHODS[name].budgets for name in SHOWN)
