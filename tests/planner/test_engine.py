"""A LangChain chat model as DSPy's engine: one attempt, every token kept, no cache."""

from __future__ import annotations

import copy
import warnings
from collections.abc import Awaitable, Callable

import dspy
import pytest
from langchain_core.messages import AIMessage, HumanMessage, SystemMessage

from pb_graph.errors import ModelCallError
from pb_graph.models.client import ChatClient
from pb_graph.models.options import CallOptions
from pb_graph.models.retry import RetryPolicy
from pb_graph.planner.engine import AsyncLangChainEngine, LangChainEngine, language_model
from pb_graph.types import Purpose
from tests.support.chat_model import HTTPError, Said, ScriptedChat, runs_on

Ask = Callable[[LangChainEngine], Awaitable[str]]
LIMITS = CallOptions(cap=12, timeout=5.0)
CHAT = dspy.ChatAdapter(use_json_adapter_fallback=False)
ANSWER = "[[ ## answer ## ]]\n42\n\n[[ ## completed ## ]]"


def engine_of(model: ScriptedChat, limits: CallOptions = LIMITS) -> LangChainEngine:
    return LangChainEngine(ChatClient(model), limits, Purpose("plan", 1))


def model(solve: object = ANSWER) -> ScriptedChat:
    return ScriptedChat(solve=solve)


@pytest.fixture(params=["sync", "async"])
def ask(request: pytest.FixtureRequest) -> Ask:
    """Asks a predictor through an engine, one way or the other."""
    predict = dspy.Predict("question -> answer")

    async def asked(engine: LangChainEngine) -> str:
        with dspy.context(lm=language_model(engine), adapter=CHAT):
            if request.param == "sync":
                return str(predict(question="6 * 7?").answer)
            return str((await predict.acall(question="6 * 7?")).answer)

    return asked


async def test_a_predictor_is_answered_and_its_tokens_are_kept(ask: Ask) -> None:
    chat = model()
    engine = engine_of(chat)
    assert await ask(engine) == "42"
    (reply,) = engine.replies
    assert reply.text == ANSWER
    assert reply.charge["output_tokens"] == chat.output_tokens == 11
    assert reply.charge["input_tokens"] > 0
    assert (reply.charge["node"], reply.charge["step"]) == ("plan", 1)
    assert engine.errors == []


async def test_limits_are_the_engines_not_the_requests(ask: Ask) -> None:
    chat = model()
    await ask(engine_of(chat))
    assert [call.cap for call in chat.calls] == [12]


async def test_two_equal_calls_are_two_model_calls(ask: Ask) -> None:
    chat = model()
    engine = engine_of(chat)
    assert [await ask(engine), await ask(engine)] == ["42", "42"]
    assert len(chat.calls) == len(engine.replies) == 2


async def test_a_failure_is_tried_once_and_kept_as_it_was(ask: Ask) -> None:
    chat = model(HTTPError(503, "overloaded"))
    client = ChatClient(chat, retry_policy=RetryPolicy(0))
    engine = LangChainEngine(client, LIMITS, Purpose("plan", 1))
    with pytest.raises(Exception, match="overloaded"):
        await ask(engine)
    assert len(chat.calls) == 1
    (error,) = engine.errors
    assert isinstance(error, ModelCallError)
    assert isinstance(error.__cause__, HTTPError)
    assert engine.replies == []


async def test_a_request_keeps_its_roles(ask: Ask) -> None:
    chat = model()
    await ask(engine_of(chat))
    kinds = [type(message) for message in chat.calls[0].messages]
    assert kinds == [SystemMessage, HumanMessage]


def test_demos_become_turns() -> None:
    chat = model()
    predict = dspy.Predict("question -> answer")
    predict.demos = [{"question": "1 + 1?", "answer": "2"}]
    with dspy.context(lm=language_model(engine_of(chat)), adapter=CHAT):
        predict(question="6 * 7?")
    kinds = [type(message) for message in chat.calls[0].messages]
    assert kinds == [SystemMessage, HumanMessage, AIMessage, HumanMessage]


@pytest.mark.parametrize(("solve", "tokens"), [(ANSWER, 11), (runs_on, LIMITS.cap)])
def test_dspy_is_told_the_usage_but_not_of_a_cap_that_is_not_its_own(
    solve: object, tokens: int
) -> None:
    engine = engine_of(model(solve))
    lm = language_model(engine)
    with dspy.context(disable_history=False):
        lm("Hello?")
    response = lm.history[-1]["response"]
    assert response.usage.output_tokens == tokens
    assert response.finish_reason == "stop"
    assert engine.replies[0].finish == ("length" if solve is runs_on else "stop")


async def test_streams_give_the_same_answer() -> None:
    engine = engine_of(model("one two"))
    request = dspy.lm15.Request(
        model="m", messages=(dspy.lm15.Message.user([dspy.lm15.TextPart("Hello?")]),)
    )
    sync = list(engine.stream(request))
    twin = [event async for event in AsyncLangChainEngine(engine).stream(request)]
    assert [type(event) for event in sync] == [type(event) for event in twin]
    assert len(engine.replies) == 2


def test_copies_of_a_predictor_share_the_engine() -> None:
    engine = engine_of(model())
    assert copy.deepcopy(engine) is engine
    assert copy.deepcopy([engine])[0] is engine


def test_no_model_familys_rules_apply() -> None:
    chat = model("hello")
    lm = language_model(engine_of(chat))
    assert (lm.cache, lm.num_retries) == (False, 0)
    lm("Hello?")
    assert chat.calls[0].arguments == {"max_tokens": 12}


async def test_nothing_in_it_is_deprecated(ask: Ask) -> None:
    def answer(_: object) -> Said:
        return ANSWER

    with warnings.catch_warnings():
        warnings.simplefilter("error", DeprecationWarning)
        assert await ask(engine_of(model(answer))) == "42"
