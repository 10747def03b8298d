"""Requests to a planner: what each says, and that it is capped, counted and unseen by hosts."""

from __future__ import annotations

import contextlib
from typing import Any

import dspy
import pytest
from langchain_core.messages import AIMessage, HumanMessage, SystemMessage

from pb_graph.errors import ModelCallError
from pb_graph.models.client import ChatClient
from pb_graph.models.options import CallOptions
from pb_graph.models.reply import BLOCKING, run_sync
from pb_graph.planner.planner import Decompose, Planner, PlannerAdapter
from pb_graph.planner.plans import Difficulty, Level, Plan, PlannedStep
from pb_graph.planner.requests import (
    LEVEL_RUBRIC,
    PlannerRequest,
    estimate_request,
    level_request,
    plan_request,
)
from pb_graph.settings import Settings
from pb_graph.types import Purpose, Query, SubQuestion
from tests.support.chat_model import HTTPError, ScriptedChat, with_schema
from tests.support.graphs import query

STEPS = [
    SubQuestion(index=i, question=q, hint="", depends_on=[], level=None, credit=None)
    for i, q in enumerate(("First?", "Second?"))
]
FORM = "FORM OF THE REPLY"
EXAMPLE = ({"problem": "EXAMPLE PROBLEM", "level": "level 1 of 5"}, "EXAMPLE REPLY")
PLAN = Plan(steps=[PlannedStep(question="First?", hint="look"), PlannedStep(question="Second?")])


def all_requests(about: Query) -> list[PlannerRequest[Any]]:
    return [
        plan_request(about, Settings()),
        plan_request(about, Settings(), graded=True),
        estimate_request(about, STEPS, Settings()),
        level_request(about, Settings()),
    ]


def prompt(request: PlannerRequest[Any]) -> list[str]:
    signature = getattr(Planner(), request.predictor).signature
    messages = PlannerAdapter(request).format(signature, [], request.inputs)
    return [message["content"] for message in messages]


class TestRequests:
    @pytest.mark.parametrize(
        "request_", all_requests(query(level=2)), ids=lambda made: made.predictor
    )
    def test_a_prompt_is_short_and_its_example_can_be_read_as_a_reply_is(
        self, request_: PlannerRequest[Any]
    ) -> None:
        signature = getattr(Planner(), request_.predictor).signature
        assert sum(map(len, prompt(request_))) < 4 * 750  # about four characters a token
        for _, reply in request_.examples:
            assert PlannerAdapter(request_).parse(signature, reply)

    def test_a_plan_is_asked_for_with_the_level_and_the_domain_where_they_are_known(self) -> None:
        example, _, asked = prompt(plan_request(query(level=3), Settings()))[1::2]
        assert "level 2 of 5" in example
        assert "level 3 of 5" in asked
        assert "Field:" in asked
        about = query(domain=Settings().domain)
        unknown = "".join(prompt(plan_request(about, Settings()))[1::2])
        assert "of 5" not in unknown
        assert "Field:" not in unknown

    def test_what_is_known_is_not_asked_for(self) -> None:
        schemas = [request.schema or {} for request in all_requests(query(level=3))]
        assert [set(schema.get("properties", ())) for schema in schemas] == [
            {"delivers", "steps"},
            {"delivers", "steps"},
            {"levels", "credits"},
            set(),
        ]
        fused = plan_request(query(), Settings(), graded=True)
        assert set((fused.schema or {})["properties"]) == {"level", "delivers", "steps"}
        assert Plan.read(fused.examples[0][1]).level == 2
        estimate = estimate_request(query(), [], Settings())
        assert set((estimate.schema or {})["properties"]) == {"level"}
        assert Difficulty.read(estimate.examples[0][1]) == Difficulty(level=2)

    @pytest.mark.parametrize(
        ("question", "settings", "shown"),
        [
            ("Write an SQL query for the orders of a year.", {}, "Python function"),
            ("Plan three days in Oslo.", {}, "two days in Rome"),
            ("Plan three days in Oslo.", {"synthesis": "join"}, "three days in Rome"),
            ("Write an essay of 300 words on snow.", {}, "essay"),
            ("Write to my landlord about the heating.", {}, "letter"),
            ("It burned in 1910.\n\nWhen did it burn?", {}, "mill"),
        ],
    )
    def test_a_plan_of_the_same_field_is_shown_last(
        self, question: str, settings: dict[str, Any], shown: str
    ) -> None:
        about = query(question=question, domain=Settings().domain)
        request = plan_request(about, Settings(**settings))
        assert shown in request.examples[-1][0]["problem"]
        asks = "delivers" in (request.schema or {})["properties"]
        assert asks == ("synthesis" not in settings)

    def test_the_level_alone_is_asked_for_in_two_tokens_after_problems_of_known_level(self) -> None:
        request = level_request(query(), Settings())
        assert (request.cap, request.schema) == (2, None)
        assert [Level.read(reply).level for _, reply in request.examples] == [3, 1, 5, 2, 4]
        assert request.inputs["examples"] == ""
        of_law = level_request(query(domain="law"), Settings())
        assert len(of_law.examples) == 3
        assert of_law.inputs["examples"] == LEVEL_RUBRIC  # our problems are of mathematics
        own = Settings(level_examples="Level 2: Old\nproblem\nLevel 1: Older")
        assert level_request(query(), own).examples == [
            ({"problem": "Older"}, "L1"),
            ({"problem": "Old\nproblem"}, "L2"),
        ]
        told = Settings(level_examples="Sums are easy.")
        assert level_request(query(), told).inputs["examples"] == "Sums are easy."

    def test_the_conversation_images_and_the_beginning_of_a_reference_belong_to_the_problem(
        self,
    ) -> None:
        seen: dict[str, Any] = {"conversation": "It was 5 before.", "reference": "tale " * 9_000}
        problem = plan_request(query(media=[{"type": "image"}], **seen), Settings()).inputs[
            "problem"
        ]
        assert problem.startswith("It was 5 before.\n\n")
        assert "1 image(s)" in problem
        assert problem.count("tale ") == 400
        assert "tale " not in level_request(query(**seen), Settings()).inputs["problem"]


def render(demos: list[Any] | None = None, signature: Any = Decompose, **inputs: str) -> list[Any]:  # noqa: ANN401
    request: PlannerRequest[Plan] = PlannerRequest("decompose", "plan", {}, FORM, None, [EXAMPLE])
    messages = PlannerAdapter(request).format(
        signature, demos or [], {"problem": "What is 6 * 7?"} | inputs
    )
    return [(message["role"], message["content"]) for message in messages]


class TestRendering:
    @pytest.mark.parametrize("plan", [PLAN, PLAN.model_dump(), PLAN.to_text()], ids=type)
    def test_demos_replace_the_example_and_are_shown_as_a_planner_writes(
        self, plan: object
    ) -> None:
        demo = dspy.Example(problem="Old problem", plan=plan).with_inputs("problem")
        unlabelled = dspy.Example(problem="No plan").with_inputs("problem")
        assert render([unlabelled, demo])[1:-1] == [
            ("user", "Problem:\nOld problem"),
            ("assistant", PLAN.to_text()),
        ]


OPTIONS = CallOptions(100, purpose=Purpose("plan"))
REQUEST = plan_request(query(domain="arithmetic"), Settings(planner_cap=100))


def ask(
    model: ScriptedChat,
    made: PlannerRequest[Any] = REQUEST,
    planner: Planner | None = None,
    *,
    traced: bool = False,
) -> Any:  # noqa: ANN401 -- the type of the request's answer
    planner, client = planner or Planner(), ChatClient(model, with_schema)
    options = OPTIONS._replace(schema=made.schema)
    reply = run_sync(client.call(planner.messages(made), options, BLOCKING))
    return planner.read(made, reply.text, traced=traced)


class TestOneRequest:
    def test_the_value_is_of_the_type_that_was_asked_for(self) -> None:
        model = ScriptedChat()
        assert isinstance(ask(model)[0], Plan)
        assert [call.schema for call in model.calls] == [REQUEST.schema]
        kinds = [type(message) for message in model.calls[0].messages]
        assert kinds == [SystemMessage, *2 * [HumanMessage, AIMessage], HumanMessage]

    def test_a_model_that_came_with_the_program_is_never_called(self) -> None:
        planner, model = Planner(), ScriptedChat()
        planner.set_lm(dspy.LM("openai/some-model", cache=False, num_retries=0))
        ask(model, planner=planner)
        assert [call.cap for call in model.calls] == [100]


def host_settings() -> dict[str, Any]:
    """All that a host could notice of its DSPy settings."""
    return {
        name: (list(value) if isinstance(value, list) else value)
        for name, value in dspy.settings.copy().items()
    }


@pytest.mark.parametrize("said", ["", HTTPError(503)], ids=repr)
def test_the_hosts_dspy_is_left_as_it_was(said: object) -> None:
    before, history = host_settings(), len(dspy.clients.base_lm.GLOBAL_HISTORY)
    with contextlib.suppress(ModelCallError):
        ask(ScriptedChat(planner=said))
    assert host_settings() == before
    assert len(dspy.clients.base_lm.GLOBAL_HISTORY) == history


def test_an_optimizers_trace_sees_a_call_only_if_it_is_traced() -> None:
    planner = Planner()
    with dspy.context(trace=[]):
        ask(ScriptedChat(), planner=planner)
        assert dspy.settings.trace == []
        ask(ScriptedChat(), planner=planner, traced=True)
        ((predictor, inputs, prediction),) = dspy.settings.trace
    assert predictor is planner.decompose
    assert inputs["problem"] == "What is 6 * 7?"
    assert isinstance(prediction.plan, Plan)
