"""Settings and methods: every choice is checked, and what each says of itself is what happens."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given
from pydantic import ValidationError

import optim.methods  # noqa: F401 -- registers program_aided
from optim.methods import methods
from pb_graph import Context, InputError, Settings, build_graph
from pb_graph.budget import LevelTable, PerLevel
from pb_graph.methods import METHODS, method
from pb_graph.models.options import CallOptions
from pb_graph.prompts import MethodInput, PromptMessage, question_block
from pb_graph.run.run import Run
from pb_graph.state import State
from pb_graph.styles import evaluate
from pb_graph.types import Purpose
from tests.support import worlds
from tests.support.chat_model import Call, Reply, Said, ScriptedChat, with_schema
from tests.support.graphs import QUESTION, query, report_of


@pytest.mark.parametrize(
    ("chosen", "complaint"),
    [
        ({"methd": "vanilla"}, "methd"),
        ({"method": "vanila"}, "no method 'vanila'; available: .*did you mean 'vanilla'"),
        ({"budget": 0}, "at least 1"),
        ({"schedule": {"name": "polynomial", "power": 0}}, "greater than 0"),
        ({"schedule": {"name": "bam", "c": {1: 1.0}}}, "levels 1 to 5"),
    ],
    ids=str,
)
def test_what_is_out_of_range_is_refused_with_the_range(
    chosen: dict[str, Any], complaint: str
) -> None:
    with pytest.raises(ValidationError, match=complaint):
        Settings(**chosen)


@pytest.mark.parametrize("rule", [{"rule": "flat", "tokens": 300}, "400"], ids=str)
def test_what_is_no_budget_is_refused_in_one_sentence(rule: object) -> None:
    with pytest.raises(InputError, match=r"^budget: a budget is a whole number of tokens[^;]*$"):
        Settings.read({"budget": rule})


class TestDomains:
    def test_the_style_depends_on_the_domain(self) -> None:
        sums, stepwise = query(domain="arithmetic"), Settings(execution="stepwise", plan_from=1)
        assert Settings().solver_style(query(domain="Mathematics")) == "concise"
        assert Settings(style="auto").solver_style(sums) == "calculation"
        assert stepwise.solver_style(sums) == "draft"
        assert Settings(style="prose").solver_style(sums) == "prose"

    def test_an_instruction_is_followed_at_once(self) -> None:
        chosen = Settings().for_domain("instruction following")
        assert (chosen.style, chosen.plan_from, chosen.needs_level) == ("answer", None, False)
        assert Settings(budget=99).for_domain("instruction following").budget == 99

    @pytest.mark.parametrize(
        "chosen", [Settings(style="prose"), Settings(plan_from=4), Settings(method="vanilla")]
    )
    def test_a_choice_of_the_user_is_kept(self, chosen: Settings) -> None:
        assert chosen.for_domain("instruction following") == chosen


@given(worlds.settings())
def test_settings_survive_the_trip_through_the_state(chosen: dict[str, Any]) -> None:
    settings = Settings(**chosen)
    stored = json.loads(json.dumps(settings.model_dump(mode="json")))
    assert Settings.model_validate(stored) == settings


def test_settings_of_a_run_replace_only_what_they_set_themselves() -> None:
    base = Settings(method="vanilla", cutoff=77, budget=100)
    rule = PerLevel(initial=10, per_level=5)
    assert base.merged_with(Settings(budget=rule)) == base.model_copy(update={"budget": rule})
    assert base.merged_with(None) is base
    merged = Settings().merged_with(Settings(timeout=60))
    assert merged.for_domain("instruction following").style == "answer"  # still a default


@pytest.mark.parametrize(
    ("given", "complaint"),
    [
        ({"settings": {"methd": "vanilla"}}, "unknown setting methd; available: method, "),
        ({"settings": "cosine"}, "a valid dictionary or instance of Settings"),
    ],
    ids=str,
)
def test_a_context_that_cannot_be_used_says_what_can(given: Any, complaint: str) -> None:  # noqa: ANN401
    with pytest.raises(InputError, match=complaint):
        Context.resolve(Context(**given))


OWN_CONTEXT = Context(settings=Settings(budget=222))


@pytest.mark.parametrize(
    ("found", "context"),
    [
        (OWN_CONTEXT, OWN_CONTEXT),
        (Context(settings={"budget": 222}), OWN_CONTEXT),  # type: ignore[arg-type]
        ({"settings": "the host's own"}, Context()),
        ({"plan_and_budget": {"settings": {"budget": 222}}}, OWN_CONTEXT),
        (SimpleNamespace(user="someone", plan_and_budget=None), Context()),
        (SimpleNamespace(plan_and_budget={"settings": {"budget": 222}}), OWN_CONTEXT),
    ],
    ids=str,
)
def test_our_context_is_found_in_that_of_a_host(found: object, context: Context) -> None:
    assert Context.resolve(found) == context


@pytest.mark.parametrize(
    "wrong", [Settings(), {"plan_and_budget": 7}, {"plan_and_budget": {"setings": {}}}]
)
def test_what_stands_in_the_place_of_a_context_is_not_ignored(wrong: object) -> None:
    with pytest.raises(InputError, match=r"Give settings as context=Context\(settings="):
        Context.resolve(wrong)


def test_a_budget_that_is_set_bounds_every_method_that_asks_once() -> None:
    assert Settings(method="vanilla", budget=300).budget_for(3) == 300
    assert not Settings(method="vanilla").has_budget
    assert Settings(method="vanilla", budget=300).has_budget
    assert Settings(method="vanilla", budget=LevelTable()).needs_level
    assert not Settings(method="vanilla", budget=300, enforcement="prompt").has_budget


@pytest.fixture
def twice() -> Iterator[str]:
    """A method of a user's own, with two calls and a budget."""

    @method("twice", "Asks twice.", source="a test", budgets=True, limit=lambda s, _: 2 * s.cutoff)
    async def asks_twice(given: MethodInput, run: Run) -> State:
        budget = given.budget or 0
        prompt: list[PromptMessage] = [("human", question_block(given.query, show_level=False))]
        draft = await run.ask(prompt, CallOptions(budget // 2, purpose=Purpose("draft")))
        again: list[PromptMessage] = [*prompt, ("ai", draft.text), ("human", "Sure?")]
        left = budget - draft.tokens
        reply = await run.call_within_budget(again, left, given.query, Purpose("answer"))
        return reply.update()

    yield "twice"
    del METHODS["twice"]


def test_a_method_of_several_calls_has_each_in_the_ledger(twice: str) -> None:
    model = ScriptedChat(solve="one two three Final answer: 42")
    report = report_of(model, method=twice, budget=100, reserve=0)
    assert {name: part["calls"] for name, part in report["usage"]["by_node"].items()} == {
        "draft": 1,
        "answer": 1,
    }
    assert report["usage"]["output_tokens"] == model.output_tokens <= report["limit"] == 100
    assert model.calls[1].ask == "Sure?"


def test_a_name_is_registered_once() -> None:
    with pytest.raises(ValueError, match="'vanilla' is registered already"):

        @method("vanilla", "Replaces it unseen.", source="a test")
        def other(given: MethodInput) -> list[PromptMessage]:
            raise NotImplementedError

    assert METHODS["vanilla"].function is None


def test_a_method_of_ones_own_is_a_choice_and_may_be_defined_again(twice: str) -> None:
    assert twice in Settings.model_json_schema()["properties"]["method"]["enum"]
    assert Settings(method=twice).has_budget
    method(twice, "Asks twice, again.", source="a test")(METHODS[twice].function or method)
    assert METHODS[twice].description == "Asks twice, again."


ROWS = methods("paper")
TEMPLATE = {
    "question": "TEMPLATE",
    "level": 3,
    "instruction": "INSTRUCTION",
    "answer_format": "FORM",
}
PLAN = ("FIRST? | HINT", "SECOND?", "THIRD?")

# The parts of each template, in the words that say them here.
FRAME = (
    "level out of 5",
    "All the credit is for a correct final answer",
    "efficiently and clearly",
)
FREE = "feel free to use any other method"
STEP_BY_STEP = "tep by step"
LITTLE = "Only think a little, and solve it directly in up to {} words."


def solved(settings: Settings, plan: Sequence[str] = PLAN) -> ScriptedChat:
    """Answer a question with a model that thinks before each of its replies."""
    thinker = ScriptedChat(plan=plan, credits=[20, 30, 50][: len(plan)])
    answers: Any = thinker._planned
    model = ScriptedChat(
        plan=plan,
        planner=lambda call: Reply(answers(call), reasoning=1200),
        solve=Reply("FORM 42", reasoning=1500),
    )
    build_graph(model, settings=settings, cap_policy=with_schema).invoke(TEMPLATE)
    return model


def asked(settings: Settings) -> str:
    """Return all that the solver is told."""
    (call,) = solved(settings).solving()
    return "\n\n".join(str(message.text) for message in call.messages)


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row.name)
def test_a_row_says_the_parts_of_its_template(row: Any) -> None:  # noqa: ANN401
    text = asked(row.settings)
    is_planned, is_ours = "planned" in row.name, row.settings.method == "plan_and_budget"
    is_told = "global" in row.name
    assert text.startswith("INSTRUCTION\n\n")
    assert "without detours" not in text
    if not (is_planned or is_ours):
        assert not any(part in text for part in (*FRAME, FREE, "Difficulty"))
        assert "Reason step by step." in text
    else:
        lines = ["1. FIRST? (hint: HINT)", "2. SECOND?", "3. THIRD?"]
        assert all(part in text for part in (*FRAME, FREE, "level 3 of 5", *lines))
        assert "Reason step by step." not in text
        assert (STEP_BY_STEP in text) == is_told
    assert ("less than 350 tokens" in text) == is_told
    assert text.count("Only think a little") == (3 if is_ours else 0)
    assert "strictly in this format:\nFORM" in text or not is_ours


def test_the_ten_rows_tell_a_thinking_model_ten_different_things() -> None:
    assert len({asked(row.settings) for row in ROWS}) == len(ROWS) == 10


def test_shares_are_the_floors_of_equation_7_and_are_called_words() -> None:
    text = asked(Settings.paper(schedule="weighted"))
    assert [LITTLE.format(share) in text for share in (70, 105, 175)] == [True] * 3


def test_a_plan_that_was_not_found_is_one_step_of_the_same_template() -> None:
    model = solved(Settings.paper(schedule="weighted"), plan=["ONLY?"])
    assert f"1. Solve the problem directly. {LITTLE.format(350)}" in model.solving()[-1].ask


def test_planner_and_grader_are_told_what_their_templates_say() -> None:
    plan, grade = [
        "\n".join(str(message.text) for message in call.messages)
        for call in solved(Settings.paper(schedule="weighted")).calls
        if call.role != "solve"
    ]
    assert all(part in plan for part in ("designer of exam questions", "2 to 5", "Do not reason"))
    assert "level 3 of 5" in plan
    assert all(f"Level {level}: " in grade for level in range(1, 6))  # the benchmark problems
    assert all(part in grade for part in ("make no new ones", "exactly 100", "1. FIRST?"))


ARITHMETIC = QUESTION | {"domain": "arithmetic"}
PENS = "pens = 14 / 2 * 3\nanswer = pens"


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("answer = 6 * 7", "42"),
        ("# a comment\na = 1 / 3\nb = a * 3  # one\n", "1"),
        ("a = 0.1 + 0.2", "0.3"),
        ("x = 7 // 2 + 7 % 2\nanswer = -x ** 2", "-16"),
        ("import math\nx = 3\nx *= 10\nanswer = math.ceil(x / 8) + round(2.345, 2)", "6.34"),
    ],
)
def test_assignments_are_worked_out_exactly(text: str, value: str) -> None:
    assert evaluate(text) == value


@pytest.mark.parametrize(
    "text", ["x = 1 / 0", "x = 9 ** 9 ** 9", "x = 1 / 10**8", "x = open('y')", "2"]
)
def test_all_else_has_no_result(text: str) -> None:
    assert evaluate(text) is None


@pytest.mark.parametrize("plan_from", [1, 4])
def test_the_default_works_out_arithmetic_with_and_without_a_plan(plan_from: int) -> None:
    model = ScriptedChat(level="L2", solve=f"So:\n```\n{PENS}\nprint(answer)\n```\nDone.")
    one_call = {"execution": "single_pass", "plan_from": plan_from}
    report = report_of(model, ARITHMETIC, style="auto", **one_call)
    assert report["answer"] == f"```python\n{PENS}\nprint(answer)\n```\n\nFinal answer: 21"
    assert (report["style"], report["result"]) == ("calculation", "21")


@pytest.mark.parametrize("method", ["plan_and_budget", "vanilla", "program_aided"])
def test_without_a_result_the_model_is_asked_for_it(method: str) -> None:
    def solve(call: Call) -> Said:
        return "Final answer: 42" if "Stop here" in call.ask else "I would rather talk."

    model = ScriptedChat(level="L2", solve=solve)
    report = report_of(model, ARITHMETIC, method=method, style="calculation", plan_from=4)
    assert report["answer"] == "I would rather talk.\n\nFinal answer: 42"
    assert report["usage"]["output_tokens"] == model.output_tokens
