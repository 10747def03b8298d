from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import dspy
import pytest
from dspy.utils.exceptions import AdapterParseError

from optim.tuning.evaluator import BudgetSpentError
from optim.tuning.reflection import ReflectionAdapter, ReflectionError, Reflector, instruction_in
from tests.support.chat_model import ScriptedChat
from tests.support.tuning_world import DEV, bench_in, original, reflector_of, says


@pytest.mark.parametrize(
    ("reply", "instruction"),
    [
        ("Plan.", "Plan."),
        (' "Plan."\n', "Plan."),
        ("Here it is:\n```text\nPlan\nwell.\n```\nDone.", "Plan\nwell."),
        ("```\na\n```\nor\n```\nb\n```", "a\n```\nor\n```\nb"),
        ("Sure:\n<instruction>\nPlan.\n</instruction>\nThe rest remains.", "Plan."),
        ("<instruction>\nPlan.", "Plan."),
        ("```xml\n<instruction>Plan.</instruction>\n```", "Plan."),
        ("", ""),
    ],
)
def test_an_instruction_is_found_in_what_a_model_says(reply: str, instruction: str) -> None:
    assert instruction_in(reply) == instruction


def test_the_same_prompt_gets_another_reply_each_time_and_the_same_ones_again_later(
    tmp_path: Path,
) -> None:
    model = says("one", "two", "three")
    with bench_in(tmp_path) as bench:
        first = reflector_of(bench, model)
        assert [first.ask("?"), first.ask("?"), first.ask("!")] == ["one", "two", "three"]
        assert bench.spent.tokens == 3
    with bench_in(tmp_path) as bench:
        second = reflector_of(bench, model)
        assert [second.ask("?"), second.ask("?"), second.ask("!")] == ["one", "two", "three"]
        assert len(model.calls) == 3
        assert second.ask("?") == "one"  # the third time is new
        assert bench.spent.tokens == 4


def test_nothing_is_asked_once_the_budget_is_spent(tmp_path: Path) -> None:
    with bench_in(tmp_path, answers=1) as bench:
        reflector = reflector_of(bench, says("one"))
        reflector.ask("?")
        bench.measure(original(), DEV[:1])
        with pytest.raises(BudgetSpentError):
            reflector.ask("!")


def test_silence_is_an_error_after_three_times(tmp_path: Path) -> None:
    with bench_in(tmp_path) as bench:
        reflector = reflector_of(bench, says("", " ", "words", "", "", ""))
        replies = [reflector.ask(str(number)).strip() for number in range(5)]
        assert replies == ["", "", "words", "", ""]
        with pytest.raises(ReflectionError, match="Use another --reflection-model"):
            reflector.ask("5")


def test_a_model_named_by_a_string_is_asked_at_a_temperature(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Cold(ScriptedChat):
        temperature: float | None = 0.0

    made: dict[str, Cold] = {"test:cold": Cold(), "test:open": Cold(temperature=None)}
    monkeypatch.setattr("optim.tuning.reflection.resolve", lambda name, _: made[name])
    with bench_in(tmp_path) as bench:
        cold = Reflector("test:cold", bench)
        open_ = Reflector("test:open", bench)
    assert cold.wrapped.wrapped.model.temperature == 1.0  # type: ignore[attr-defined]
    assert open_.wrapped.wrapped.model.temperature is None  # type: ignore[attr-defined]
    assert (cold.name, made["test:cold"].temperature) == ("test:cold", 0.0)


class Proposing(dspy.Signature):  # type: ignore[misc]
    """Propose."""

    basic: str = dspy.InputField()
    proposed_instruction: str = dspy.OutputField()
    prefix: str = dspy.OutputField()


class Observing(dspy.Signature):  # type: ignore[misc]
    """Observe."""

    basic: str = dspy.InputField()
    observations: str = dspy.OutputField()


class Advising(dspy.Signature):  # type: ignore[misc]
    """Advise."""

    basic: str = dspy.InputField()
    discussion: str = dspy.OutputField()
    advice: dict[str, str] = dspy.OutputField()


@pytest.mark.parametrize(
    ("signature", "reply", "fields"),
    [
        (Proposing, "Be brief.", {"proposed_instruction": "Be brief.", "prefix": ""}),
        (
            Proposing,
            "[[ ## proposed_instruction ## ]]\nBe brief.\n[[ ## prefix ## ]]\nSo:",
            {"proposed_instruction": "Be brief.", "prefix": "So:"},
        ),
        (Observing, "All short.", {"observations": "All short."}),
    ],
)
def test_a_reply_without_the_asked_form_is_the_instruction(
    signature: Any,  # noqa: ANN401
    reply: str,
    fields: dict[str, str],
) -> None:
    assert ReflectionAdapter().parse(signature, reply) == fields


@pytest.mark.parametrize(("signature", "reply"), [(Proposing, " "), (Advising, "Be brief.")])
def test_what_has_no_stand_in_is_an_error(signature: Any, reply: str) -> None:  # noqa: ANN401
    with pytest.raises(AdapterParseError):
        ReflectionAdapter().parse(signature, reply)


def test_a_misformed_reply_is_not_asked_and_paid_for_again(tmp_path: Path) -> None:
    model = says("no form at all")
    with bench_in(tmp_path) as bench:
        reflector = reflector_of(bench, model)
        with (
            dspy.context(
                lm=reflector.language_model(), adapter=ReflectionAdapter(), disable_history=True
            ),
            pytest.raises(AdapterParseError),
        ):
            dspy.Predict(Advising)(basic="?")
    assert len(model.calls) == 1


def test_requests_of_several_threads_run_at_once(tmp_path: Path) -> None:
    model = says("one")
    model.seconds = 0.1
    with bench_in(tmp_path) as bench, ThreadPoolExecutor(4) as pool:
        reflector = reflector_of(bench, model)
        assert list(pool.map(reflector.ask, "abcd")) == ["one"] * 4
        assert bench.spent.tokens == 4
    assert model.record.most_at_once > 1
