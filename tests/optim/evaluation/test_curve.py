"""One long answer cut at smaller budgets: what is asked, charged and kept, and how it ends."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from langchain_core.messages import AIMessage

from optim.evaluation import Evaluation
from optim.evaluation.curve import CurveName, beginning, curve_methods, curve_name
from optim.methods import Method, Truncation, methods
from optim.records import Record, cut_off
from pb_graph.errors import InputError
from tests.support.chat_model import Call, CutOffError, Reply, Said, ScriptedChat
from tests.support.evaluations import (
    evaluated,
    leaks_collected,
    level_of,
    solves,
    tolerates_inspect,
)

__all__ = ["leaks_collected"]  # applies to every test here

pytestmark = tolerates_inspect

BUDGETS = (60, 80, 120, 180)


def vanilla(**options: Any) -> tuple[Method, ...]:  # noqa: ANN401 -- of `curve_methods`
    (method,) = methods("vanilla")
    return curve_methods(method, BUDGETS, **options)


def works_it_out(call: Call) -> Said:
    """Needs twenty words for each level, and knows nothing before."""
    needed = 20 * level_of(call)
    last = call.messages[-1]
    if not call.forced and not isinstance(last, AIMessage):
        return "word " * needed + str(solves(call))
    written = next(str(m.text) for m in reversed(call.messages) if isinstance(m, AIMessage))
    known = solves(call) if written.count("word") >= needed else r"\boxed{0}"
    return str(known) if call.forced else written + str(known).removeprefix(r"It is \boxed{")


def by_budget(found: Evaluation, kind: str = "curve") -> dict[int, dict[int, Record]]:
    """Records by budget and level."""
    return {
        budget: {r.level or 0: r for r in found.records if r.method == name}
        for budget in BUDGETS
        if any(r.method == (name := f"{kind}_vanilla[{budget}+0L]") for r in found.records)
    }


@pytest.fixture(scope="module")
def model() -> ScriptedChat:
    return ScriptedChat(solve=works_it_out)


@pytest.fixture(scope="module")
def run(model: ScriptedChat, tmp_path_factory: pytest.TempPathFactory) -> Evaluation:
    folder = tmp_path_factory.mktemp("logs")
    return evaluated(model, folder, methods=[*vanilla(checked=[60, 120])])


def test_each_question_is_answered_once_and_its_result_asked_for_where_it_is_cut(
    run: Evaluation, model: ScriptedChat
) -> None:
    assert run.records
    whole = [call for call in model.calls if call.cap == 180 - 32]
    assert sorted(map(level_of, whole)) == [1, 2, 3, 4, 5]
    endings = [call for call in model.calls if call.forced and call.cap == 32]
    assert endings
    assert all("Stop here" in call.ask for call in endings)


def test_what_was_written_in_time_counts_and_no_more(run: Evaluation) -> None:
    found = by_budget(run)
    right = {b: [n for n, r in sorted(of.items()) if r.score] for b, of in found.items()}
    assert right == {60: [1], 80: [1, 2], 120: [1, 2, 3, 4], 180: [1, 2, 3, 4, 5]}


def test_an_answer_is_charged_what_the_budget_would_have_cost(run: Evaluation) -> None:
    found = by_budget(run)
    for budget, of in found.items():
        for level, record in of.items():
            assert record.report["budget"] == record.report["ceiling"] == budget
            assert record.tokens <= budget
            nodes = record.report["usage"]["by_node"]
            cut = 20 * level + 3 > budget - 32
            assert list(nodes) == (["answer", "ending"] if cut else ["answer"])
            assert cut_off(record) is cut
            assert nodes["answer"]["output_tokens"] == min(20 * level + 3, budget - 32)


def test_a_lost_attempt_at_the_long_answer_is_charged_at_every_budget(tmp_path: Path) -> None:
    def loses_the_first(call: Call) -> Said:
        return CutOffError(7) if len(model.calls) == 1 else works_it_out(call)

    model = ScriptedChat(solve=loses_the_first, max_retries=0)
    found = evaluated(model, tmp_path, methods=[*vanilla()], levels=[5], limit=1)
    charged = {
        budget: of[5].report["usage"]["by_node"]["answer"]["output_tokens"]
        for budget, of in by_budget(found).items()
    }
    assert charged == {60: 28 + 7, 80: 48 + 7, 120: 88 + 7, 180: 103 + 7}


def test_the_account_of_what_was_paid_knows_every_call(
    run: Evaluation, model: ScriptedChat
) -> None:
    assert run.spent == model.output_tokens


def test_the_same_again_is_free_and_another_budget_costs_its_endings_only(
    tmp_path: Path,
) -> None:
    model = ScriptedChat(solve=works_it_out)
    (method,) = methods("vanilla")
    first = evaluated(model, tmp_path, methods=[*curve_methods(method, [60, 180])])
    asked = len(model.calls)
    again = evaluated(model, tmp_path, methods=[*curve_methods(method, [60, 90, 180])])
    assert all(call.forced for call in model.calls[asked:])
    assert [r for r in again.records if "[90+0L]" not in r.method] == first.records
    asked = len(model.calls)
    assert evaluated(model, tmp_path, methods=[*curve_methods(method, [60, 90, 180])]) == again
    assert len(model.calls) == asked


def test_a_run_of_its_own_is_really_capped_and_agrees(run: Evaluation, model: ScriptedChat) -> None:
    curve, apart = by_budget(run), by_budget(run, "separate")
    assert list(apart) == [60, 120]
    for budget, of in apart.items():
        assert {level: r.score for level, r in of.items()} == {
            level: r.score for level, r in curve[budget].items()
        }
    assert sum(call.cap == 60 - 32 and not call.forced for call in model.calls) >= 5


def test_a_run_that_is_told_its_budget_is_told_and_held_to_it(
    run: Evaluation, model: ScriptedChat
) -> None:
    told = by_budget(run, "told")
    assert all(r.tokens <= b for b, of in told.items() for r in of.values())
    assert any("Use less than 60 tokens in all." in call.ask for call in model.calls)
    assert not any(call.role == "estimate" for call in model.calls)


def test_by_continuation_the_model_goes_on_from_its_own_words(tmp_path: Path) -> None:
    model = ScriptedChat(solve=works_it_out)
    found = evaluated(model, tmp_path, methods=[*vanilla(ending="continuation")])
    endings = [call for call in model.calls if isinstance(call.messages[-1], AIMessage)]
    assert endings
    assert all(str(c.messages[-1].text).endswith("Final answer: \\boxed{") for c in endings)
    assert not any(call.forced for call in model.calls)
    right = {b: [n for n, r in sorted(of.items()) if r.score] for b, of in by_budget(found).items()}
    assert right == {60: [1], 80: [1, 2], 120: [1, 2, 3, 4], 180: [1, 2, 3, 4, 5]}
    cut = by_budget(found)[60][5].report["answer"]
    assert cut.count("Final answer") == 1
    assert cut.endswith("}")


def test_thinking_that_fills_the_budget_leaves_nothing_to_go_on_from(tmp_path: Path) -> None:
    def thinks(call: Call) -> Said:
        return r"\boxed{0}" if call.forced else Reply(str(solves(call)), reasoning=100)

    model = ScriptedChat(solve=thinks)
    found = by_budget(evaluated(model, tmp_path, methods=[*vanilla()]))
    assert {b: {r.score for r in of.values()} for b, of in found.items()} == {
        60: {0.0}, 80: {0.0}, 120: {0.0}, 180: {1.0},
    }  # fmt: skip
    short = next(call for call in model.calls if call.forced)
    assert str(short.messages[-2].text) == "(still thinking)"


@given(st.text(max_size=300), st.integers(1, 400), st.data())
def test_a_cut_text_is_a_beginning_and_grows_with_the_tokens_kept(
    text: str, tokens: int, data: st.DataObject
) -> None:
    more = data.draw(st.integers(0, tokens))
    less = data.draw(st.integers(0, more))
    longer, shorter = beginning(text, more, tokens), beginning(text, less, tokens)
    assert text.startswith(longer)
    assert longer.startswith(shorter)
    assert not beginning(text, 0, tokens)


def test_digits_and_signs_count_as_tokens_of_their_own() -> None:
    assert beginning("one two 34 five", 3, 5) == "one two 3"
    assert beginning(r"so \frac{1}{2}", 4, 9) == r"so \frac{"


def test_hidden_thinking_is_seen_where_the_server_does_not_tell() -> None:
    text = "the answer is 7"
    assert not beginning(text, 50, 104)
    assert beginning(text, 102, 104) == "the answer"
    assert beginning(text, 102, 104, hidden=100) == "the answer"


def test_a_method_that_asks_more_than_once_has_no_one_answer_to_cut() -> None:
    (stepwise,) = methods("stepwise")
    with pytest.raises(InputError, match="'stepwise' solves in several calls"):
        curve_methods(stepwise, [100])
    (cosine,) = methods("cosine")
    rows = curve_methods(cosine, [100, 50], checked=[50])
    assert [row.name for row in rows] == [
        "curve_cosine[50+0L]", "curve_cosine[100+0L]", "separate_cosine[50+0L]",
    ]  # fmt: skip


def test_budgets_that_cannot_be_are_refused() -> None:
    (method,) = methods("vanilla")
    with pytest.raises(InputError, match="no such budget on the curve"):
        curve_methods(method, [50, 100], checked=[70])
    with pytest.raises(InputError, match="between 2 and the largest"):
        curve_methods(method, [0, 100])
    with pytest.raises(InputError, match="no budget"):
        curve_methods(method, [])


def test_a_small_budget_keeps_back_two_thirds_for_the_result() -> None:
    assert Truncation(30, 100).room == 10
    assert (Truncation(90, 100).room, Truncation(90, 100).asked) == (90 - 32, 68)


def test_names_of_a_curves_rows_are_read_back() -> None:
    assert curve_name("told_planned_vanilla[80+0L]") == CurveName("told", "planned_vanilla", 80)
    assert curve_name("vanilla[80+0L]") is None
