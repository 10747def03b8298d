"""Calculation: written by the model, worked out by the package, and believed where it can be."""

from __future__ import annotations

from typing import Any

import pytest
from pydantic import BaseModel

from pb_graph import build_graph
from pb_graph.answers import stated_answer
from pb_graph.arithmetic import result_of
from pb_graph.errors import NoAnswerError
from pb_graph.methods import calculation
from pb_graph.settings import Settings
from tests.support.chat_model import Call, HTTPError, Reply, Said, ScriptedChat, runs_on
from tests.support.graphs import QUESTION, Way, graph_of, report_of, run

PENS = "# bundles of 3\nbundles = 14 / 2\nanswer = bundles * 3"
NUMBER = r"Close with the number alone inside the braces of one \boxed command."
OTHER = r"Close with hours and minutes inside the braces of one \boxed command."


def model(written: Said, then: Said = r"Step 1: 21. Final answer: \boxed{21}", **more: Any) -> Any:  # noqa: ANN401
    """One that writes a calculation when asked for one, and else says something different."""

    def solve(call: Call) -> Said:
        asked = calculation.WAY in str(call.messages[0].content)
        said = written if asked and not call.forced else then
        return said(call) if callable(said) else said

    return ScriptedChat(solve=solve, **more)


def nodes(report: dict[str, Any]) -> dict[str, int]:
    return {name: row["calls"] for name, row in report["usage"]["by_node"].items()}


@pytest.mark.parametrize("method", ["calculation", "by_kind", "auto"])
@pytest.mark.parametrize("way", ["invoke", "ainvoke"])
def test_its_result_is_the_answer_at_the_price_of_one_call(method: str, way: Way) -> None:
    chat = model(PENS)
    out = run(graph_of(chat, method=method), QUESTION, way)
    assert out["answer"] == f"```python\n{PENS}\n```\n\nFinal answer: 21"
    (call,) = chat.calls
    assert nodes(out["report"]) == {"calculation": 1}
    assert out["report"]["usage"]["output_tokens"] == chat.output_tokens
    assert call.cap == calculation.LONGEST


def test_the_request_shows_calculations_and_asks_for_nothing_else() -> None:
    chat = model(PENS)
    report_of(chat, QUESTION | {"answer_format": NUMBER, "instruction": "IN"}, method="calculation")
    system, *turns, last = [str(turn.content) for turn in chat.calls[0].messages]
    assert system == f"IN\n{calculation.WAY}"
    assert turns[1::2] == [lines for _, lines in calculation.EXAMPLES]
    assert all(turn.endswith("</question>") for turn in [*turns[::2], last])


def test_the_examples_are_calculations_themselves_and_right() -> None:
    results = [result_of(lines) for _, lines in calculation.EXAMPLES]
    assert results == [5, 50, 13, 30, 140, 10, 33, 160]


@pytest.mark.parametrize(
    ("written", "answer_format", "ends"),
    [
        ("answer = 14", NUMBER, r"\boxed{14}"),
        ("answer = 14 / 4", NUMBER, r"\boxed{3.5}"),
        ("answer = 14 / 400 * 2", None, "Final answer: 0.07"),
        ("answer = 700 / 7", "The integer alone.", "Final answer: 100"),
        ("answer = 3 - 3", None, "Final answer: 0"),
    ],
)
def test_a_number_is_stated_as_it_is_wanted(
    written: str, answer_format: str | None, ends: str
) -> None:
    chat = model(written)
    given = QUESTION | ({"answer_format": answer_format} if answer_format else {})
    answer = run(graph_of(chat, method="calculation"), given)["answer"]
    assert answer == f"```python\n{written}\n```\n\n{ends}"
    assert len(chat.calls) == 1


def test_another_form_is_for_the_model_to_fill_in() -> None:
    chat = model("answer = 90", r"\boxed{1 h 30 min}")
    out = run(graph_of(chat, method="calculation"), QUESTION | {"answer_format": OTHER})
    assert out["answer"] == "```python\nanswer = 90\n```\n\n\\boxed{1 h 30 min}"
    assert stated_answer(out["answer"]) == "1 h 30 min"  # and not two of them
    assert nodes(out["report"]) == {"calculation": 1, "answer": 1}
    assert "\\boxed{90}" in str(chat.calls[1].messages[-2].content)
    assert chat.calls[1].cap == Settings().reserve


FORMS = [
    'JSON only: {"answer": <integer>}',
    "<answer>the number</answer>",
    "Close with #### and the number.",
    "Write the number in words.",
    "The number as a Roman numeral.",
]


@pytest.mark.parametrize("form", FORMS)
def test_a_form_with_more_than_a_number_in_it_is_for_the_model_as_well(form: str) -> None:
    chat = model("answer = 7 * 3", "XXI")
    out = run(graph_of(chat, method="calculation"), QUESTION | {"answer_format": form})
    assert out["answer"] == "```python\nanswer = 7 * 3\n```\n\nXXI"


@pytest.mark.parametrize("form", FORMS)
def test_by_kind_asks_plainly_for_such_a_form(form: str) -> None:
    chat = model("answer = 7 * 3", '{"answer": 21}')
    out = run(graph_of(chat, method="auto"), QUESTION | {"answer_format": form})
    assert out["answer"] == '{"answer": 21}'  # that can be read as it is
    assert nodes(out["report"]) == {"answer": 1}


@pytest.mark.parametrize(
    "form", ['End with "Final answer:" and the number.', "Only a number, no words, in \\boxed{}."]
)
def test_a_form_that_is_ours_is_filled_without_the_model(form: str) -> None:
    chat = model("answer = 7 * 3")
    out = run(graph_of(chat, method="auto"), QUESTION | {"answer_format": form})
    assert stated_answer(out["answer"]) == "21"
    assert len(chat.calls) == 1


def test_an_answer_with_a_type_is_not_calculated() -> None:
    class Total(BaseModel):
        total: int

    chat = model("answer = 21", 'Step 1: 21. {"total": 21}')
    graph = build_graph(chat, settings={"method": "calculation"}, response_format=Total)
    assert graph.invoke(QUESTION)["structured_response"] == {"total": 21}


@pytest.mark.parametrize(
    "then",
    [r"\boxed{1 h 30 min}, " + "and so on " * 50, "one hour and a half", "", HTTPError(400)],
    ids=["cut", "form", "", "failed"],
)
def test_a_form_that_cannot_be_had_costs_no_answer(then: Said) -> None:
    chat = model("answer = 90", then)
    out = run(graph_of(chat, method="calculation"), QUESTION | {"answer_format": OTHER})
    assert out["answer"] == "```python\nanswer = 90\n```\n\n\\boxed{90}"
    assert bool(out["report"]["warnings"]) == isinstance(then, Exception)


@pytest.mark.parametrize(
    "written",
    [
        "I would count them.",
        "answer = pens * 2",
        "answer = 3 - 14",
        "answer = 14 / 3",
        "answer = 1 / 1000",
        runs_on,
        "answer = 21\n# " + "and so on " * 200,  # cut off: who knows what would have followed
        "",
    ],
)
def test_what_is_not_believed_is_asked_in_numbered_steps(written: Said) -> None:
    chat = model(written)
    out = run(graph_of(chat, method="calculation"))
    assert out["answer"].startswith("Step 1: 21.")
    assert nodes(out["report"]) == {"calculation": 1, "answer": 1}
    assert out["report"]["usage"]["output_tokens"] == chat.output_tokens
    told = ScriptedChat()
    run(graph_of(told, method="numbered_steps"))
    assert [m.content for m in chat.calls[1].messages] == [
        m.content for m in told.calls[0].messages
    ]


@pytest.mark.parametrize("method", ["calculation", "by_kind", "auto"])
@pytest.mark.parametrize("enforcement", ["force", "cap", "prompt"])
@pytest.mark.parametrize("cutoff", [30, 150, 2000])
def test_no_more_is_written_than_its_ceiling(method: str, enforcement: str, cutoff: int) -> None:
    chat = model(runs_on, runs_on)
    report = report_of(chat, method=method, enforcement=enforcement, cutoff=cutoff)
    assert chat.output_tokens == report["usage"]["output_tokens"] <= report["ceiling"]
    assert report["ceiling"] <= cutoff + calculation.LONGEST


@pytest.mark.parametrize("strict", [False, True])
@pytest.mark.parametrize("budget", [20, 60, 200, 5000])
def test_a_budget_holds_for_both_calls_together(budget: int, strict: bool) -> None:
    chat = model(runs_on, runs_on)
    report = report_of(chat, method="auto", budget=budget, strict_ceiling=strict)
    assert chat.output_tokens <= report["ceiling"] == budget
    calculated = [
        call.cap for call in chat.calls if calculation.WAY in str(call.messages[0].content)
    ]
    assert calculated == ([] if budget < 100 else [min(calculation.LONGEST, budget // 2)])


def test_a_calculation_that_fails_for_good_is_not_asked_in_another_way() -> None:
    chat = model(HTTPError(400))
    with pytest.raises(NoAnswerError):
        run(graph_of(chat, method="calculation"))
    assert len(chat.calls) == 1


def test_the_form_has_what_is_left_of_the_budget() -> None:
    chat = model("answer = 90", runs_on)
    given = QUESTION | {"answer_format": OTHER, "budget": 100}
    report = report_of(chat, given, method="auto", reserve=400)
    assert (len(chat.calls), report["ceiling"]) == (2, 100)
    assert chat.output_tokens <= 100


def test_a_calculation_that_is_only_long_is_asked_for_the_next_time_again() -> None:
    graph = graph_of(model(runs_on), method="calculation")
    assert [nodes(run(graph)["report"]) for _ in range(2)] == [{"calculation": 1, "answer": 1}] * 2


def test_a_model_that_thinks_whatever_it_is_told_is_asked_for_a_calculation_once() -> None:
    thinks = Reply("Final answer: 21", reasoning=400)
    chat = model(thinks, thinks)
    graph = graph_of(chat, method="calculation")
    assert [nodes(run(graph)["report"]) for _ in range(3)] == [
        {"calculation": 1, "answer": 1},
        {"answer": 1},
        {"answer": 1},
    ]


@pytest.mark.parametrize("method", ["by_kind", "auto"])
def test_with_tools_nothing_is_calculated(method: str) -> None:
    chat = model(PENS)
    run(build_graph(chat, settings=Settings(method=method), tools=[abs]))
    assert calculation.WAY not in str(chat.calls[0].messages)


def test_a_calculation_that_is_fenced_already_stays_as_it_is() -> None:
    fenced = "```python\nanswer = 7 * 3\n```"
    answer = run(graph_of(model(fenced), method="calculation"))["answer"]
    assert answer == f"{fenced}\n\nFinal answer: 21"


def test_a_result_that_leaves_nothing_to_put_it_into_form_is_the_answer() -> None:
    chat = model(PENS + " # so" * 100, obeys_cap=False)
    asked = QUESTION | {"budget": 100, "answer_format": "State it with its unit."}
    report = report_of(chat, asked, method="auto")
    assert len(chat.calls) == 1
    assert "Final answer: 21" in report["answer"]
    (warning,) = report["warnings"]  # of no fallback, which there is not
    assert "no notice of caps" in warning


def test_what_a_server_wrote_beyond_the_budget_is_paid_for_and_kept() -> None:
    chat = model("3 + 4 because " * 50, obeys_cap=False)
    report = report_of(chat, QUESTION | {"budget": 100}, method="auto")
    assert report["answer"].startswith("3 + 4 because")
    assert report["usage"]["output_tokens"] == chat.output_tokens == 200
    assert "100 tokens more than its budget" in report["warnings"][0]
    assert "no notice of caps" in report["warnings"][1]
