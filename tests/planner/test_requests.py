"""Asking the planner: within its cap, on the books, and without a trace in the host's DSPy."""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from typing import Any

import dspy
import pytest

from pb_graph.errors import ModelCallError
from pb_graph.models.client import ChatClient
from pb_graph.planner import requests as asking
from pb_graph.planner.engine import ask_planner
from pb_graph.planner.parsing import Difficulty, GradedPlan, Level, Plan
from pb_graph.planner.planner import Planner
from pb_graph.planner.requests import PlannerReply, PlannerRequest, UnreadableReplyError
from pb_graph.runtime.node import finished
from pb_graph.settings import Settings
from pb_graph.types import Query, SubQuestion
from tests.support.chat_model import HTTPError, ScriptedChat, runs_on, with_schema

SETTINGS = Settings(planner_cap=100, max_steps=4, level_examples="EXAMPLES")
PLAN = [
    SubQuestion(index=i, question=q, hint="", depends_on=[], level=None, credit=None)
    for i, q in enumerate(("First?", "Second?"))
]
Consult = Callable[..., PlannerReply[Any]]


def query(level: int | None = None) -> Query:
    return Query(
        question="What is 6 * 7?",
        reference=None,
        instruction=None,
        answer_format=None,
        domain="arithmetic",
        level=level,
    )


ASKS: list[tuple[PlannerRequest[Any], type]] = [
    (asking.decomposition(query(), SETTINGS), Plan),
    (asking.graded_decomposition(query(), SETTINGS), GradedPlan),
    (asking.estimation(query(), PLAN, SETTINGS), Difficulty),
]


@pytest.fixture(params=["sync", "async"])
def consult(request: pytest.FixtureRequest) -> Consult:
    """Asks one way or the other."""

    def ask(
        model: ScriptedChat,
        ask: PlannerRequest[Any] = ASKS[0][0],
        settings: Settings = SETTINGS,
        planner: Planner | None = None,
        *,
        traced: bool = False,
    ) -> PlannerReply[Any]:
        parts: Any = (planner or Planner(), ChatClient(model, with_schema), ask, settings)
        if request.param == "sync":
            return finished(ask_planner(*parts, traced=traced, blocking=True))
        return asyncio.run(ask_planner(*parts, traced=traced, blocking=False))

    return ask


def system(model: ScriptedChat, call: int = 0) -> str:
    return str(model.calls[call].messages[0].text)


@pytest.mark.parametrize(("ask", "kind"), ASKS, ids=["decompose", "fused", "estimate"])
def test_an_opinion_has_the_predictors_type(
    consult: Consult, ask: PlannerRequest[Any], kind: type
) -> None:
    model = ScriptedChat()
    opinion = consult(model, ask)
    assert type(opinion.value) is kind
    (reply,) = opinion.replies
    assert reply.charge["output_tokens"] == model.output_tokens > 0
    assert reply.charge["node"] == ask.node
    assert reply.charge["step"] is None


@pytest.mark.parametrize(("ask", "kind"), ASKS, ids=["decompose", "fused", "estimate"])
def test_the_schema_reaches_the_client(
    consult: Consult, ask: PlannerRequest[Any], kind: type
) -> None:
    del kind
    model = ScriptedChat()
    consult(model, ask)
    assert [call.schema for call in model.calls] == [ask.schema]


@pytest.mark.parametrize(("cutoff", "cap"), [(8192, 100), (60, 60)])
def test_the_planners_cap_holds_and_the_cutoff_too(consult: Consult, cutoff: int, cap: int) -> None:
    model = ScriptedChat(planner=runs_on)
    settings = Settings(planner_cap=100, cutoff=cutoff)
    with pytest.raises(UnreadableReplyError) as caught:
        consult(model, settings=settings)
    assert [call.cap for call in model.calls] == [cap]
    assert [reply.charge["output_tokens"] for reply in caught.value.replies] == [cap]


def test_what_is_asked_is_all_there(consult: Consult) -> None:
    model = ScriptedChat()
    consult(model, asking.estimation(query(level=4), PLAN, SETTINGS))
    said = model.calls[0].ask
    assert "What is 6 * 7?" in said
    assert "arithmetic" in said
    assert "1. First?\n2. Second?" in said
    assert "level 4 of 5" in said
    assert "EXAMPLES" in said


def test_only_what_is_not_known_is_asked_for() -> None:
    def wanted(ask: PlannerRequest[Any]) -> set[str]:
        return set(ask.schema["properties"])

    assert wanted(asking.estimation(query(), PLAN, SETTINGS)) == {"level", "levels", "credits"}
    assert wanted(asking.estimation(query(level=2), PLAN, SETTINGS)) == {"levels", "credits"}
    assert wanted(asking.estimation(query(), [], SETTINGS)) == {"level"}


def test_as_many_steps_as_allowed_and_as_many_grades_as_steps() -> None:
    steps = asking.decomposition(query(), SETTINGS).schema["properties"]["steps"]
    assert steps["maxItems"] == 4
    one = asking.decomposition(query(), Settings(max_steps=1)).schema["properties"]["steps"]
    assert (one["minItems"], one["maxItems"]) == (1, 1)
    grades = asking.estimation(query(), PLAN, SETTINGS).schema["properties"]
    for name in ("levels", "credits"):
        assert (grades[name]["minItems"], grades[name]["maxItems"]) == (2, 2)


@pytest.mark.parametrize(("ask", "kind"), ASKS, ids=["decompose", "fused", "estimate"])
def test_the_example_reads_as_what_is_asked_for(ask: PlannerRequest[Any], kind: Any) -> None:  # noqa: ANN401
    (example,) = ask.examples
    assert set(json.loads(example.answered)) == set(ask.schema["required"])
    kind.read(example.answered)


def test_known_levels_are_shown_as_exchanges_and_not_in_rising_order() -> None:
    ask = asking.level_alone(query(), Settings())
    assert [example.answered for example in ask.examples] == ["L3", "L1", "L5", "L2", "L4"]
    assert all(Level.read(shown.answered).written() == shown.answered for shown in ask.examples)
    assert ask.examples[1].asked == "Problem:\nWhat is 15 % of 60?"
    assert ask.inputs == {"domain": "", "examples": "", "problem": query()["question"]}
    of_chemistry: Query = {**query(), "domain": "chemistry"}
    assert asking.level_alone(of_chemistry, Settings()).inputs["domain"] == "chemistry"
    own = Settings(level_examples="Level 2: Old\nproblem\nLevel 1: Older")
    assert asking.level_alone(query(), own).examples == (
        ("Problem:\nOlder", "L1"),
        ("Problem:\nOld\nproblem", "L2"),
    )


@pytest.mark.parametrize("told", ["", "Sums are easy.", "Easy ones:\nLevel 1: What is 2 + 2?"])
def test_levels_told_in_words_of_ones_own_stay_as_they_are(told: str) -> None:
    ask = asking.level_alone(query(), Settings(level_examples=told))
    assert ask.inputs["examples"] == told
    assert [example.answered for example in ask.examples] == ["L1"]


def test_a_repair_carries_the_complaint(consult: Consult) -> None:
    model = ScriptedChat()
    consult(model, ASKS[0][0].corrected("NO STEPS FOUND"))
    assert "NO STEPS FOUND" in model.calls[0].ask
    assert "What is 6 * 7?" in model.calls[0].ask
    assert model.calls[0].schema == ASKS[0][0].schema


@pytest.mark.parametrize("said", ["", "I would rather not.", '{"steps": []}'])
def test_a_reply_that_cannot_be_read_is_charged_all_the_same(consult: Consult, said: str) -> None:
    model = ScriptedChat(planner=said)
    with pytest.raises(UnreadableReplyError) as caught:
        consult(model)
    assert len(model.calls) == 1
    (reply,) = caught.value.replies
    assert reply.text == said
    assert reply.charge["output_tokens"] == model.output_tokens


def test_a_failed_call_is_ours_and_its_cause_is_the_providers(consult: Consult) -> None:
    refused = HTTPError(401, "no such key")
    with pytest.raises(ModelCallError, match="API key") as caught:
        consult(ScriptedChat(planner=refused))
    assert caught.value.status == 401
    assert caught.value.__cause__ is refused


def test_tuned_text_is_used(consult: Consult) -> None:
    planner = Planner()
    planner.decompose.signature = planner.decompose.signature.with_instructions("TUNED")
    planner.decompose.demos = [{"problem": "Old problem", "plan": Plan.read("1. Old step?")}]
    model = ScriptedChat()
    consult(model, planner=planner)
    assert system(model).startswith("TUNED\n")
    assert [message.type for message in model.calls[0].messages] == [
        "system",
        "human",
        "ai",
        "human",
    ]


def test_a_model_that_came_with_the_program_is_never_called(consult: Consult) -> None:
    planner = Planner()
    planner.set_lm(dspy.LM("openai/some-model", cache=False, num_retries=0))
    model = ScriptedChat()
    assert consult(model, planner=planner).replies[0].charge["cap"] == 100
    assert len(model.calls) == 1


def test_two_equal_questions_are_two_model_calls(consult: Consult) -> None:
    model = ScriptedChat()
    assert consult(model).value == consult(model).value
    assert len(model.calls) == 2


def seen() -> dict[str, Any]:
    """All that a host could notice of its DSPy settings."""
    return {
        name: (list(value) if isinstance(value, list) else value)
        for name, value in dspy.settings.copy().items()
    }


@pytest.mark.parametrize("said", ["1. First?", "", HTTPError(500)], ids=repr)
def test_the_hosts_dspy_is_left_as_it_was(consult: Consult, said: object) -> None:
    before = seen()
    history = len(dspy.clients.base_lm.GLOBAL_HISTORY)
    with contextlib.suppress(UnreadableReplyError, ModelCallError):
        consult(ScriptedChat(planner=said))
    assert seen() == before
    assert len(dspy.clients.base_lm.GLOBAL_HISTORY) == history


def test_an_optimizers_trace_sees_the_predictor_only_when_it_is_to(consult: Consult) -> None:
    planner = Planner()
    with dspy.context(trace=[]):
        consult(ScriptedChat(), planner=planner)
        assert dspy.settings.trace == []
        consult(ScriptedChat(), planner=planner, traced=True)
        ((predictor, inputs, prediction),) = dspy.settings.trace
    assert predictor is planner.decompose
    assert inputs["problem"] == "What is 6 * 7?"
    assert isinstance(prediction.plan, Plan)


def numbered(number: int) -> tuple[ScriptedChat, PlannerRequest[Any]]:
    model = ScriptedChat(planner=f"1. Step of {number}?")
    ask = replace(ASKS[0][0], inputs=ASKS[0][0].inputs | {"problem": f"Question {number}"})
    return model, ask


def fits(number: int, model: ScriptedChat, opinion: PlannerReply[Any]) -> bool:
    return (
        opinion.value.steps[0].question == f"Step of {number}?"
        and len(model.calls) == 1
        and f"Question {number}" in model.calls[0].ask
    )


def test_threads_do_not_get_into_each_others_way() -> None:
    def one(number: int) -> bool:
        model, ask = numbered(number)
        client = ChatClient(model, with_schema)
        work = ask_planner(Planner(), client, ask, SETTINGS, traced=False, blocking=True)
        return fits(number, model, finished(work))

    with ThreadPoolExecutor(8) as pool:
        assert all(pool.map(one, range(40)))


async def test_tasks_do_not_get_into_each_others_way() -> None:
    planner = Planner()

    async def one(number: int) -> bool:
        model, ask = numbered(number)
        client = ChatClient(model, with_schema)
        work = ask_planner(planner, client, ask, SETTINGS, traced=False, blocking=False)
        return fits(number, model, await work)

    assert all(await asyncio.gather(*(one(number) for number in range(40))))
