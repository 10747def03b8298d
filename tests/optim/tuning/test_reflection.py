"""The reflection model: replies paid for once, silence, and instructions in any form."""

from __future__ import annotations

from pathlib import Path

import pytest

from optim.tuning.evaluator import SearchEndedError
from optim.tuning.reflection import Reflector, instruction_in
from tests.support.chat_model import ScriptedChat
from tests.support.tuning_world import DEV, bench_in, original, says


@pytest.mark.parametrize(
    ("reply", "instruction"),
    [
        (' "Plan."\n', "Plan."),
        ("Here it is:\n```text\nPlan\nwell.\n```\nDone.", "Plan\nwell."),
        ("Sure:\n<instruction>\nPlan.\n</instruction>\nThe rest remains.", "Plan."),
        ("<instruction>\nPlan.", "Plan."),
        ('Say "none"', 'Say "none"'),
    ],
)
def test_an_instruction_is_found_in_a_reply(reply: str, instruction: str) -> None:
    assert instruction_in(reply) == instruction


def test_the_same_prompt_gets_another_reply_each_time_and_the_same_ones_again_later(
    tmp_path: Path,
) -> None:
    model = says("one", "two", "three")
    for begun in (True, False):
        with bench_in(tmp_path) as bench:
            reflector = Reflector(model, bench)
            assert [reflector.ask(text) for text in "??!"] == ["one", "two", "three"]
            assert (len(model.calls), bench.replies.spent) == (3, 3)
            if not begun:
                assert reflector.ask("?") == "one"  # the third time is new
                assert bench.replies.spent == 4


def test_nothing_is_asked_once_the_budget_is_spent(tmp_path: Path) -> None:
    with bench_in(tmp_path, answers=1) as bench:
        reflector = Reflector(says("one"), bench)
        reflector.ask("?")
        bench.measure(original(), DEV[:1])
        with pytest.raises(SearchEndedError):
            reflector.ask("!")


@pytest.mark.parametrize("reply", ["", "word " * 3000], ids=["empty", "cut off"])
def test_a_reply_without_a_whole_instruction_ends_the_search(reply: str, tmp_path: Path) -> None:
    model = says(reply)
    with bench_in(tmp_path) as bench:
        reflector = Reflector(model, bench)
        for _ in range(2):
            with pytest.raises(SearchEndedError, match="no whole instruction"):
                reflector.ask("?")
    assert len(model.calls) == 1


def test_a_model_named_by_a_string_is_asked_at_a_temperature(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Named(ScriptedChat):
        temperature: float = 0.0

    monkeypatch.setattr("optim.tuning.reflection.resolve", lambda *_: Named())
    with bench_in(tmp_path) as bench:
        reflector = Reflector("test:m", bench)
    assert (reflector.model.temperature, reflector.name) == (1.0, "test:m")  # type: ignore[attr-defined]
