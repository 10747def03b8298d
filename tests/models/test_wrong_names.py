"""Wrong names and values, where they are given: at once, and with what was probably meant."""

from __future__ import annotations

from typing import Any

import pytest

from pb_graph import InputError, Settings, build_graph
from pb_graph.errors import ModelSetupError
from tests.support.chat_model import ScriptedChat
from tests.support.graphs import QUESTION


@pytest.mark.parametrize(
    ("name", "meant"),
    [("opnai:gpt-5", "openai"), ("local:smolm2-135m", "smollm2-135m"), ("gpt-5", "provider:model")],
)
def test_a_misspelled_model_is_refused_when_the_graph_is_built(name: str, meant: str) -> None:
    with pytest.raises(ModelSetupError, match=meant) as caught:
        build_graph(name)
    assert isinstance(caught.value, InputError)  # so that commands end with the code for misuse


def test_all_providers_are_listed_to_the_last() -> None:
    with pytest.raises(ModelSetupError, match=r"there are: local, anthropic, .*\bxai; did"):
        build_graph("opnai:gpt-5")


def test_a_local_model_is_not_loaded_to_check_its_name() -> None:
    build_graph("local:smollm2-135m", planner="local:/no/such/file.gguf")


def test_settings_may_be_a_mapping_as_elsewhere() -> None:
    graph = build_graph(ScriptedChat(), settings={"method": "global_budget", "budget": 77})
    assert graph.invoke(QUESTION)["report"]["budget"] == 77


@pytest.mark.parametrize("wrong", [{"buget": 5}, {"budget": 0}, 400, ["budget"]])
def test_wrong_ones_are_an_input_error(wrong: Any) -> None:  # noqa: ANN401
    with pytest.raises(InputError, match=r"budget|settings are"):
        build_graph(ScriptedChat(), settings=wrong)


@pytest.mark.parametrize("wrong", ["abc", [400], 0, True])
def test_a_wrong_budget_is_told_with_an_example_of_a_rule(wrong: object) -> None:
    with pytest.raises(InputError, match=r'such as 400, or .*"rule": "level_table"') as caught:
        Settings.read({"budget": wrong})
    assert "dictionary" not in str(caught.value)
