"""A model's name stands for a method or a settings file, with settings behind it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from pb_graph.errors import InputError
from pb_graph.serve.names import UnknownNameError, model_names, settings_of
from pb_graph.settings import choices


def chosen(model: str, *files: Path) -> dict[str, object]:
    return settings_of(model, model_names(files)).model_dump(exclude_unset=True)


def test_every_method_is_a_model() -> None:
    assert tuple(model_names()) == choices("method")
    assert [chosen(name) for name in choices("method")] == [
        {"method": name} for name in choices("method")
    ]


def test_settings_stand_behind_the_name() -> None:
    assert chosen("plan_and_budget:execution=stepwise,budget=300,parallel=false") == {
        "method": "plan_and_budget",
        "execution": "stepwise",
        "budget": 300,
        "parallel": False,
    }


def test_their_values_may_hold_commas() -> None:
    rule = {"rule": "per_level", "initial": 100, "per_level": 50}
    named = f"global_budget:budget={json.dumps(rule)}, domain=sets, logic,reserve=32"
    fields = chosen(named)
    assert fields.pop("budget") == rule
    assert fields == {"method": "global_budget", "domain": "sets, logic", "reserve": 32}


def test_a_settings_file_is_called_like_itself_and_can_be_changed(tmp_path: Path) -> None:
    file = tmp_path / "careful.json"
    file.write_text(json.dumps({"method": "global_budget", "budget": 900}))
    assert chosen("careful", file) == {"method": "global_budget", "budget": 900}
    assert chosen("careful:budget=50", file)["budget"] == 50


@pytest.mark.parametrize("name", ["gpt-5-mini", "local:qwen2.5-coder-1.5b", "meta/llama-3:free"])
def test_any_other_name_stands_for_the_settings_of_the_server(name: str) -> None:
    assert chosen(name) == {}


@pytest.mark.parametrize("name", ["vanila", "gpt-5-mini:budget=300"])
def test_a_name_that_was_meant_for_a_method_says_which_there_are(name: str) -> None:
    with pytest.raises(UnknownNameError, match=r"there are: .*vanilla"):
        chosen(name)


@pytest.mark.parametrize(
    ("model", "said"),
    [
        ("vanilla:powr=3", "did you mean 'power'"),
        ("vanilla:power", "NAME=VALUE"),
        ("vanilla:budget=0", "at least 1"),
        ("plan_and_budget:review_plan=true", "pauses for a host"),
    ],
)
def test_a_setting_that_cannot_be_used_is_explained(model: str, said: str) -> None:
    with pytest.raises(InputError, match=said):
        chosen(model)


@pytest.mark.parametrize(
    ("name", "content", "said"),
    [
        ("vanilla.json", "{}", "already"),
        ("a.json", "{", "cannot read the settings file"),
        ("a.json", "[]", "no JSON object"),
        ("a.json", '{"budgt": 1}', "did you mean 'budget'"),
    ],
)
def test_a_file_that_cannot_be_used_is_refused_at_once(
    tmp_path: Path, name: str, content: str, said: str
) -> None:
    file = tmp_path / name
    file.write_text(content)
    with pytest.raises(InputError, match=said):
        model_names([file])
