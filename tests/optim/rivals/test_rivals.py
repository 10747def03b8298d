"""Methods that others have published: calls, stopping rules, and what is charged."""

from __future__ import annotations

from typing import Any

import pytest
from langchain_core.language_models import BaseChatModel
from scipy.stats import beta

from optim.rivals import adaptive_consistency, certaindex, tale_ep
from optim.rivals.adaptive_consistency import comparable, majority_is_stable
from optim.rivals.certaindex import PROBE, PROBE_TOKENS, result_in
from optim.rivals.focused_cot import EXTRACT
from optim.rivals.prompts import STYLE_OF
from pb_graph import ModelSetupError, Settings, build_graph
from pb_graph.methods import METHODS
from pb_graph.models.options import CallOptions
from tests.support.chat_model import Call, HTTPError, Reply, Said, Script, ScriptedChat, in_turn
from tests.support.graphs import QUESTION, Way, both_ways, codes, report_of, run

METHOD = {"method": "adaptive_consistency"}
A, B, NONE = "So.\nFinal answer: 7", "Then \\boxed{8}", "I cannot tell."


@pytest.mark.parametrize(("first", "second"), [(1, 0), (4, 0), (5, 1), (30, 10)])
def test_the_stopping_rule_is_the_mass_of_a_beta_above_one_half(first: int, second: int) -> None:
    expected = beta.sf(0.5, first + 1, second + 1)
    assert majority_is_stable(first, second) == pytest.approx(expected)


@both_ways
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


PROBED = {"method": "certaindex"}
LONG = "and so on " * 1000


@pytest.fixture(autouse=True)
def short_pieces(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(certaindex, "PROBE_EVERY", 8)


def probing(call: Call) -> bool:
    return str(call.messages[-1].text).endswith(PROBE)


def goes_on(call: Call) -> Said:
    return "more of it " * 1000 if call.messages[-1].type == "ai" else LONG


def model(*probes: str, writes: Script = goes_on) -> ScriptedChat:
    """Writes on, and says these at its probes, the last one for ever."""
    left = list(probes)

    def solve(call: Call) -> Said:
        if probing(call):
            return left.pop(0) if len(left) > 1 else left[0]
        return writes(call) if callable(writes) else writes

    return ScriptedChat(solve=solve)


@both_ways
def test_equal_probes_end_the_answer(way: Way) -> None:
    chat = model("7}", "8}", "8 }.", "8.0} is it")
    report = report_of(chat, way=way, cutoff=500, **PROBED)
    assert report["answer"].endswith("\n\nFinal answer: 8.0")
    nodes = {name: part["calls"] for name, part in report["usage"]["by_node"].items()}
    assert nodes == {"answer": 4, "probe": 4}
    assert report["usage"]["output_tokens"] == chat.output_tokens <= report["limit"]


def test_each_piece_goes_on_from_what_is_written_and_not_from_the_probes() -> None:
    chat = model("7}", "8}", "9}")
    report_of(chat, cutoff=24, **PROBED)
    pieces = [call for call in chat.calls if not probing(call)]
    assert [call.cap for call in pieces] == [8, 8, 8]
    assert pieces[0].messages[-1].type == "human"
    written = [str(call.messages[-1].text) for call in pieces[1:]]
    assert written[0] == "and so on and so on and so"
    assert written[1] == written[0] + "more of it more of it more of"
    assert not any("7}" in text or PROBE in text for text in written)
    assert {call.cap for call in chat.calls if probing(call)} == {PROBE_TOKENS}


def test_the_limit_holds_the_probes_too() -> None:
    chat = model("never closed " * 50)
    report = report_of(chat, cutoff=100, **PROBED)
    assert report["limit"] == 100 + 13 * PROBE_TOKENS == chat.output_tokens


@pytest.mark.parametrize(
    ("probe", "result"),
    [
        ("42}", "42"),
        (r"\frac{1}{2}}$", r"\frac{1}{2}"),
        ("42", None),
        ("42}. Wait, that is", None),
        ("No}.", "No"),
    ],
)
def test_a_probe_counts_when_its_box_is_closed_and_it_does_not_hedge(
    probe: str, result: str | None
) -> None:
    assert result_in(probe) == result


def test_a_server_that_cannot_continue_is_refused_before_anything_is_paid() -> None:
    chat = ScriptedChat()
    graph = build_graph(chat, settings=Settings(method="certaindex"))
    with pytest.raises(ModelSetupError, match="vllm"):
        run(graph, QUESTION)
    assert not chat.calls


def test_hidden_thinking_cannot_be_probed() -> None:
    chat = model("1}", writes=lambda _: Reply("Final answer: 42", reasoning=20))
    with pytest.raises(ModelSetupError, match="this server hides"):
        report_of(chat, cutoff=500, **PROBED)


FACTS = "<facts>\n<fact>3 pens cost $2</fact>\n</facts>\n<asked>pens for $14</asked>"


def test_the_answer_is_reasoned_from_the_list_alone() -> None:
    model = ScriptedChat(solve=in_turn(FACTS, "Final answer: 21"))
    report = report_of(model, method="focused_cot")
    listing, solving = model.calls
    assert listing.ask.endswith(EXTRACT)
    assert FACTS in solving.ask
    assert QUESTION["question"] not in solving.ask
    assert set(report["usage"]["by_node"]) == {"plan", "answer"}
    assert report["usage"]["output_tokens"] == model.output_tokens <= report["limit"]


@pytest.mark.parametrize("name", STYLE_OF)
def test_a_rival_is_one_call_in_its_own_style(name: str) -> None:
    model = ScriptedChat()
    report = report_of(model, method=name, cutoff=300, style="answer")
    (call,) = model.calls
    shown = ["human", "ai"] * len(STYLE_OF[name].examples)
    assert [message.type for message in call.messages] == ["system", *shown, "human"]
    assert STYLE_OF[name].instruction in str(call.messages)
    assert report["usage"]["output_tokens"] == model.output_tokens <= report["limit"] == 300
    assert (report["budget"], report["level"]) == (None, None)
    known = METHODS[name]
    assert (known.plans, known.budgets, known.style) == (False, False, None)


def estimated(reply: Said, solved: Any = "one two Final answer: 42") -> ScriptedChat:  # noqa: ANN401
    """A model whose first call is the estimate."""

    def solve(call: Call) -> Said:
        if call.ask.endswith(tale_ep.ESTIMATE):
            return reply
        said: Said = solved(call) if callable(solved) else solved
        return said

    return ScriptedChat(solve=solve)


def test_the_estimate_is_said_as_the_budget() -> None:
    model = estimated("[[50]]")
    report = report_of(model, method="tale_ep", enforcement="prompt")
    assert [QUESTION["question"] in call.ask for call in model.calls] == [True, True]
    assert "less than 50 tokens" in model.calls[1].ask
    assert "50" not in model.calls[0].ask
    assert report["budget"] == 50
    spent = {name: part["output_tokens"] for name, part in report["usage"]["by_node"].items()}
    assert spent == {"estimate": 1, "answer": 5}
    assert report["usage"]["output_tokens"] == model.output_tokens <= report["limit"]


@pytest.mark.parametrize(
    ("reply", "code"), [("hard to say", "method"), (HTTPError(400), "call_failed")]
)
def test_without_an_estimate_the_question_is_asked_without_a_budget(reply: Said, code: str) -> None:
    model = estimated(reply)
    report = report_of(model, method="tale_ep", cutoff=500)
    assert report["answer"].endswith("42")
    assert report["budget"] is None
    assert "less than" not in model.calls[1].ask
    assert codes(report) == [code]


@pytest.mark.parametrize(
    ("reply", "budget"), [("Budget: [[ 1,200 ]] tokens", 1200), ("I think 30 to 40", 40)]
)
def test_the_number_is_read_as_models_write_it(reply: str, budget: int) -> None:
    assert report_of(estimated(reply), method="tale_ep", enforcement="prompt")["budget"] == budget
