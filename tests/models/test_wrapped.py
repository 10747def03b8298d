"""Models that LangChain has wrapped: bound, with fallbacks, configurable; the budget holds."""

from __future__ import annotations

import asyncio
from typing import Any, get_args

import pytest
from langchain.chat_models import init_chat_model
from langchain_core.callbacks import UsageMetadataCallbackHandler
from langchain_core.runnables import ConfigurableField
from pydantic import SecretStr

from pb_graph import NoAnswerError, Settings, build_graph
from pb_graph.models.options import CallOptions
from tests.support.chat_model import HTTPError, ScriptedChat, runs_on
from tests.support.graphs import QUESTION, Way, checked, run

both_ways = pytest.mark.parametrize("way", get_args(Way))
ONE_CALL = Settings(method="global_budget", budget=50, enforcement="cap")


@both_ways
def test_bound_arguments_go_with_every_call_but_the_cap_is_the_budgets(way: Way) -> None:
    model = ScriptedChat()
    bound = model.bind(stop=["END"], max_tokens=9).bind(temperature=0)
    run(build_graph(bound, settings=ONE_CALL), QUESTION, way)
    (call,) = model.calls
    assert (call.arguments["temperature"], call.cap) == (0, 50)
    assert "max_tokens" in call.arguments


def test_of_ollamas_options_that_are_bound_only_the_cap_is_the_budgets() -> None:
    def as_ollama(_: object, limits: CallOptions) -> dict[str, Any]:
        return {"options": {"top_k": 9, "num_predict": limits.cap}}

    model = ScriptedChat()
    bound = model.bind(options={"num_ctx": 8192, "num_predict": 9})
    run(build_graph(bound, settings=ONE_CALL, cap_policy=as_ollama))
    (call,) = model.calls
    assert call.arguments["options"] == {"num_ctx": 8192, "num_predict": 50}


@pytest.mark.parametrize(
    "wrap", [lambda m: m.with_retry(), lambda m: m.with_fallbacks([ScriptedChat()])]
)
def test_of_what_is_bound_twice_the_outer_word_counts(wrap: Any) -> None:  # noqa: ANN401
    model = ScriptedChat()
    twice = wrap(model.bind(temperature=0, top_p=0.5)).bind(temperature=1)
    run(build_graph(twice, settings=ONE_CALL))
    (call,) = model.calls
    assert (call.arguments["temperature"], call.arguments["top_p"]) == (1, 0.5)


def test_what_is_bound_to_a_field_of_the_model_changes_a_copy_of_it() -> None:
    model = ScriptedChat()
    usage = UsageMetadataCallbackHandler()
    bound = model.bind(model_name="renamed").with_config(callbacks=[usage], tags=["mine"])
    report = checked(run(build_graph(bound, settings=ONE_CALL))["report"])
    assert report["usage"]["by_node"]["answer"]["models"] == ["renamed"]
    assert usage.usage_metadata["renamed"]["output_tokens"] == model.output_tokens
    assert "mine" in model.calls[0].tags
    assert model.model_name == "scripted-1"


@both_ways
def test_how_often_a_call_is_tried_again_is_for_the_settings_to_say(way: Way) -> None:
    model = ScriptedChat(solve=HTTPError(503), max_retries=0)
    retrying = model.bind(temperature=0).with_retry(stop_after_attempt=5)
    once = ONE_CALL.model_copy(update={"max_retries": 0})
    with pytest.raises(NoAnswerError, match="HTTP 503"):
        run(build_graph(retrying, settings=once), QUESTION, way)
    (call,) = model.calls
    assert call.arguments["temperature"] == 0


@both_ways
def test_a_fallback_answers_for_a_model_that_fails(way: Way) -> None:
    first = ScriptedChat(model_name="first", planner=HTTPError(503), solve=HTTPError(401))
    second = ScriptedChat(model_name="second", solve="42")
    settings = Settings(method="plan_and_budget")
    graph = build_graph(first.bind(temperature=0).with_fallbacks([second]), settings=settings)
    out = run(graph, QUESTION, way)
    assert out["answer"] == "42"
    assert out["report"]["warnings"] == []
    assert {tuple(part["models"]) for part in out["report"]["usage"]["by_node"].values()} == {
        ("second",)
    }


@both_ways
def test_when_all_fail_each_is_named(way: Way) -> None:
    models = [ScriptedChat(model_name=name, solve=HTTPError(401)) for name in ("one", "two")]
    graph = build_graph(models[0].with_fallbacks(models[1:]), settings=Settings(method="vanilla"))
    with pytest.raises(NoAnswerError, match=r"call to one failed.*call to two failed"):
        run(graph, QUESTION, way)


def test_a_fallback_gets_no_more_than_the_failed_call_has_left() -> None:
    from tests.support.chat_model import CutOffError  # noqa: PLC0415

    first, second = ScriptedChat(solve=CutOffError(30)), ScriptedChat(solve=runs_on)
    once = ONE_CALL.model_copy(update={"max_retries": 0})
    out = run(build_graph(first.with_fallbacks([second]), settings=once))
    assert second.calls[0].cap == 20
    assert out["report"]["usage"]["output_tokens"] == out["report"]["ceiling"] == 50


def test_what_a_lost_call_may_have_cost_is_not_left_to_its_fallbacks() -> None:
    first, second = ScriptedChat(solve=TimeoutError()), ScriptedChat(solve=runs_on)
    with pytest.raises(NoAnswerError) as caught:
        run(build_graph(first.with_fallbacks([second]), settings=ONE_CALL))
    assert second.calls == []
    assert caught.value.report["most_billed"] == caught.value.report["ceiling"] == 50


@both_ways
def test_a_configurable_model_follows_the_config_of_the_run(way: Way) -> None:
    model = ScriptedChat().configurable_fields(solve=ConfigurableField(id="says"))
    graph = build_graph(model, settings=ONE_CALL)
    said = [
        run(graph, QUESTION, way, config={"configurable": chosen})["answer"]
        for chosen in ({}, {"says": "7"}, {"says": "8"}, {})
    ]
    assert said == ["Final answer: 42", "7", "8", "Final answer: 42"]


def test_alternatives_are_chosen_by_the_config_too() -> None:
    model = ScriptedChat(solve="small").configurable_alternatives(
        ConfigurableField(id="size"), default_key="small", large=ScriptedChat(solve="large")
    )
    graph = build_graph(model, settings=ONE_CALL)
    assert run(graph, config={"configurable": {"size": "large"}})["answer"] == "large"
    assert run(graph)["answer"] == "small"


def test_so_does_one_of_init_chat_model() -> None:
    from pb_graph.models.retry import RetryPolicy  # noqa: PLC0415
    from pb_graph.models.wrapped import client_of  # noqa: PLC0415

    model: Any = init_chat_model(
        "openai:gpt-5-mini", configurable_fields=("model",), api_key=SecretStr("x")
    )

    async def chosen() -> str:
        return client_of(model, None, RetryPolicy()).name

    assert asyncio.run(chosen()) == "gpt-5-mini"
    other = model.with_config(configurable={"model": "gpt-5-nano"})
    assert client_of(other, None, RetryPolicy()).name == "gpt-5-nano"
