"""A typed answer: the working stays free, what it came to is JSON, and the limit holds."""

from __future__ import annotations

from typing import Any, get_args

import pytest
from pydantic import BaseModel, Field

from pb_graph import InputError, Settings, build_graph
from tests.support.chat_model import Call, Said, Script, ScriptedChat, runs_on, with_schema
from tests.support.graphs import QUESTION, Way, checked, codes, run


class Priced(BaseModel):
    total: int = Field(alias="totalPrice")


both_ways = pytest.mark.parametrize("way", get_args(Way))


class Pens(BaseModel):
    """How many pens."""

    pens: int = Field(ge=0)
    why: str = ""


FOUND = {"pens": 21, "why": ""}
METHODS: list[dict[str, Any]] = [
    {"method": "vanilla"},
    {"method": "global_budget", "reserve": 0},
    {"execution": "single_pass"},
    {"execution": "stepwise"},
    {"execution": "stepwise", "synthesis": "call"},
]


def graph_with(model: ScriptedChat, **settings: Any) -> Any:  # noqa: ANN401
    chosen = Settings(**settings)
    return build_graph(model, settings=chosen, cap_policy=with_schema, response_format=Pens)


def test_the_answer_can_be_read_back_by_a_type_with_aliases() -> None:
    model = ScriptedChat(solve='{"totalPrice": 3}')
    found = build_graph(model, response_format=Priced).invoke(QUESTION)["structured_response"]
    assert Priced.model_validate(found).total == 3
    with pytest.raises(InputError, match="must be a pydantic model"):
        build_graph(model, response_format={"type": "object"})  # type: ignore[arg-type]


@both_ways
@pytest.mark.parametrize("settings", METHODS, ids=str)
def test_the_answer_is_json_of_its_type_beside_the_text(settings: Any, way: Way) -> None:  # noqa: ANN401
    model = ScriptedChat(solve='7 groups, so {"pens": "21"}')
    out = run(graph_with(model, **settings), QUESTION, way)
    assert out["structured_response"] == FOUND
    assert out["answer"].endswith('7 groups, so {"pens": "21"}')
    closing = model.solving()[-1]
    assert '"minimum": 0' in closing.ask
    assert closing.schema is None


def asked_again(call: Call) -> Said:
    return '{"pens": 21}' if call.forced else "It is twenty-one."


def runs_on_until_forced(call: Call) -> Said:
    return '{"pens": 21}' if call.forced else runs_on(call)


FORCED = [(runs_on_until_forced, settings) for settings in METHODS[2:]]
"""Under a mere cap, a reply that is cut off leaves nothing for another."""


@both_ways
@pytest.mark.parametrize(
    ("solve", "settings"),
    [*((asked_again, settings) for settings in METHODS), *FORCED],
    ids=lambda value: getattr(value, "__name__", str(value)),
)
def test_one_more_call_within_the_limit_is_held_to_the_schema(
    solve: Script,
    settings: Any,  # noqa: ANN401
    way: Way,
) -> None:
    model = ScriptedChat(solve=solve)
    out = run(graph_with(model, **settings), QUESTION, way)
    assert out["structured_response"] == FOUND
    last = model.solving()[-1]
    assert last.schema == Pens.model_json_schema()
    assert model.output_tokens == checked(out["report"])["usage"]["output_tokens"]
    assert model.output_tokens <= out["report"]["limit"]


@pytest.mark.parametrize("said", ["It is twenty-one.", '{"pens": -1}', '{"pens": [', "[" * 9999])
def test_an_answer_that_does_not_fit_its_type_is_none_and_said(said: str) -> None:
    out = run(graph_with(ScriptedChat(solve=said)))
    assert out["structured_response"] is None
    assert codes(out["report"])[-1] == "no_structured_response"
