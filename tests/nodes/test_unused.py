"""Settings that have no effect beside the others are spoken of, and really have none."""

from __future__ import annotations

from collections.abc import Mapping
from copy import deepcopy
from typing import Any

import pytest
from hypothesis import given
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st

from pb_graph import Settings
from pb_graph.methods import METHODS
from pb_graph.nodes.unused import unused
from tests.support import worlds
from tests.support.chat_model import Call, ScriptedChat
from tests.support.graphs import QUESTION, report_of

SPLIT = {"method": "plan_and_budget"}


@pytest.mark.parametrize(
    ("chosen", "said"),
    [
        ({}, []),
        ({"budget": 300}, []),
        ({"execution": "stepwise", "rollover": False, "budget": 300}, []),
        ({"method": "vanilla", "budget": 300}, ["budget"]),
        ({"method": "vanilla", "cutoff": 9, "timeout": 9, "domain": "law"}, []),
        ({"method": "vanilla", "schedule": "cosine", "max_steps": 2}, ["schedule", "max_steps"]),
        ({"power": 3}, ["power"]),
        ({"schedule": "polynomial", "power": 3}, []),
        (SPLIT | {"schedule": "cosine", "power": 3, "gamma": 0.5}, ["power", "gamma"]),
        (SPLIT | {"synthesis": "call", "parallel": False}, ["parallel, synthesis"]),
        (SPLIT | {"enforcement": "cap", "reserve": 9}, ["reserve"]),
        ({"method": "global_budget", "prompt_unit": "words"}, []),
        ({"method": "worked_examples", "prompt_unit": "words"}, ["prompt_unit"]),
        ({"budget": 300, "enforcement": "prompt"}, ["budget"]),
        ({"method": "global_budget", "budget": 300, "level_examples": ""}, ["level_examples"]),
        ({"method": "tale_ep", "planner_cap": 9, "enforcement": "cap"}, []),
        ({"method": "adaptive_consistency", "samples": 3}, []),
        ({"samples": 3, "probe_every": 9}, ["samples", "probe_every"]),
        ({"method": "vanilla", "auto": {"tries": 1}}, ["auto"]),
        ({"auto": {"confidence": 0.6}}, ["auto.confidence"]),
        ({"auto": {"tries": 1, "confidence": 0.6}}, []),
        ({"auto": {"plain": 99, "surprisal": 9}, "budget": 300}, ["auto.plain", "auto.surprisal"]),
    ],
    ids=str,
)
def test_what_has_no_effect_is_named(chosen: Mapping[str, Any], said: list[str]) -> None:
    assert [", ".join(_named_in(note)) for note in unused(Settings.read(chosen))] == said


def test_every_setting_of_its_own_that_a_method_names_is_one() -> None:
    assert {name for method in METHODS.values() for name in method.uses} <= {*Settings.model_fields}


@st.composite
def _chosen(draw: st.DrawFn) -> dict[str, Any]:
    more = {
        "method": st.sampled_from(["plan_and_budget", "auto"]) | st.sampled_from([*METHODS]),
        "power": st.sampled_from([1.0, 2.0]),
        "gamma": st.sampled_from([0.5, 0.9]),
        "epsilon": st.sampled_from([0.0, 0.1]),
        "prompt_unit": st.sampled_from(["tokens", "words"]),
        "max_steps": st.sampled_from([1, 5]),
        "planner_cap": st.sampled_from([20, 384]),
        "level_examples": st.sampled_from([None, ""]),
        "samples": st.sampled_from([1, 3]),
        "confidence": st.sampled_from([0.6, 0.95]),
        "probe_every": st.sampled_from([32, 64]),
        "probes_agree": st.sampled_from([2, 3]),
        "auto": st.fixed_dictionaries(
            {
                "tries": st.sampled_from([0, 0, 1, 2]),
                "short": st.sampled_from([3, 200]),
                "confidence": st.sampled_from([0, 0.3]),
                "plain": st.sampled_from([None, 5]),
                "surprisal": st.sampled_from([0, 40.0]),
                "plain_from": st.sampled_from([None, 1]),
            }
        ),
    }
    return draw(worlds.settings(cutoff=200)) | draw(st.fixed_dictionaries(more))


@given(_chosen())
@hypothesis_settings(max_examples=60)
def test_what_is_said_to_have_no_effect_has_none(chosen: dict[str, Any]) -> None:
    settings, fewer = Settings.read(chosen), deepcopy(chosen)
    for note in unused(settings):
        for name in _named_in(note):
            of, _, part = name.rpartition(".")
            if name != "budget" or not settings.budgets:  # else its level is estimated all the same
                (fewer[of] if of else fewer).pop(part)
    assert _asked(fewer) == _asked(chosen)


def _named_in(note: str) -> list[str]:
    return note.partition(": ")[2].partition(" (")[0].split(", ")


def _asked(chosen: Mapping[str, Any]) -> list[tuple[object, ...]]:
    model = ScriptedChat(solve="One and two. Final answer: 42")
    report = report_of(model, QUESTION, **chosen)
    return [*map(_plain, model.calls), (report["ceiling"], report["answer"], report["steps"])]


def _plain(call: Call) -> tuple[object, ...]:
    return call.role, call.cap, call.node, [message.text for message in call.messages]
