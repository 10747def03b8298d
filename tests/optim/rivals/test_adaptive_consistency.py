"""Methods that sample: as many answers as it takes for one to lead safely, or two."""

from __future__ import annotations

import pytest
from langchain_core.language_models import BaseChatModel
from scipy.stats import beta

from optim.rivals import adaptive_consistency
from optim.rivals.adaptive_consistency import comparable, majority_is_stable
from pb_graph import Settings, build_graph
from pb_graph.models.options import CallOptions
from tests.support.chat_model import ScriptedChat, in_turn
from tests.support.graphs import Way, report_of, run

METHOD = {"method": "adaptive_consistency"}
A, B, NONE = "So.\nFinal answer: 7", "Then \\boxed{8}", "I cannot tell."


@pytest.mark.parametrize(("first", "second"), [(1, 0), (4, 0), (5, 1), (30, 10)])
def test_the_stopping_rule_is_the_mass_of_a_beta_above_one_half(first: int, second: int) -> None:
    expected = beta.sf(0.5, first + 1, second + 1)
    assert majority_is_stable(first, second) == pytest.approx(expected)


@pytest.mark.parametrize("way", ["invoke", "ainvoke"])
def test_four_equal_answers_are_enough(way: Way) -> None:
    model = ScriptedChat(solve=A)
    report = report_of(model, way=way, **METHOD)
    assert len(model.calls) == 4
    assert report["answer"] == A
    assert report["usage"]["by_node"]["answer"]["calls"] == 4
    assert report["usage"]["output_tokens"] == model.output_tokens == 4 * 4


def test_one_that_differs_takes_more_of_them_and_loses() -> None:
    model = ScriptedChat(solve=in_turn(B, A))
    assert report_of(model, **METHOD)["answer"] == A
    assert majority_is_stable(5, 1) < 0.95 <= majority_is_stable(6, 1)
    assert len(model.calls) == 7


def test_an_answer_that_states_nothing_counts_for_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    model = ScriptedChat(solve=in_turn(NONE, A, A, A, A))
    assert report_of(model, **METHOD)["answer"] == A
    assert len(model.calls) == 5
    monkeypatch.setattr(adaptive_consistency, "SAMPLES", 5)
    silent = ScriptedChat(solve=NONE)
    assert report_of(silent, **METHOD)["answer"] == NONE
    assert len(silent.calls) == 5


@pytest.mark.parametrize(("second", "calls"), [("Final answer: 7.0", 2), (B, 3), (NONE, 3)])
def test_two_short_answers_that_differ_are_followed_by_a_long_one(second: str, calls: int) -> None:
    model = ScriptedChat(solve=in_turn(A, second, "Final answer: 9"))
    report = report_of(model, method="agree_or_think", cutoff=300)
    assert report["answer"] == (A if calls == 2 else "Final answer: 9")
    assert ["concise" in str(call.messages) for call in model.calls] == [True, True, False][:calls]
    assert report["usage"]["output_tokens"] == model.output_tokens <= report["limit"] == 900


def test_only_these_calls_are_sampled() -> None:
    sampled: list[bool] = []

    def noted(_: BaseChatModel, limits: CallOptions) -> dict[str, object]:
        sampled.append(limits.sampling)
        return {"max_tokens": limits.cap}

    for method in ("adaptive_consistency", "agree_or_think", "vanilla"):
        graph = build_graph(ScriptedChat(), settings=Settings(method=method), cap_policy=noted)
        sampled.clear()
        run(graph)
        assert set(sampled[:2]) == {method != "vanilla"}


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("1,000", "1000"),
        ("1{,}000", "1000"),
        (r"\$42.50", "42.5"),
        (r"\dfrac{1}{2}", r"\frac{1}{2}"),
        (r"\left( 3, \frac{\pi}{2} \right)", r"(3,\frac{\pi}{2})"),
        (r"\text{Monday}", "monday"),
        ("**x = 5**", "x=5"),
    ],
)
def test_answers_that_differ_only_in_writing_are_equal(one: str, other: str) -> None:
    assert comparable(one) == comparable(other)


@pytest.mark.parametrize(
    ("one", "other"), [("7", "-7"), ("1.5", "15"), ("(1, 200)", "1200"), ("x", "y"), ("0.5", "1/2")]
)
def test_others_are_not(one: str, other: str) -> None:
    assert comparable(one) != comparable(other)
