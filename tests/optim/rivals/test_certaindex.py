"""Certaindex: pieces and probes, until equal probes end the answer."""

from __future__ import annotations

import pytest

from optim.rivals import certaindex
from optim.rivals.certaindex import PROBE, PROBE_TOKENS, result_in
from pb_graph import ModelSetupError, Settings, build_graph
from tests.support.chat_model import Call, Reply, Said, Script, ScriptedChat
from tests.support.graphs import QUESTION, Way, report_of, run

METHOD = {"method": "certaindex"}
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


@pytest.mark.parametrize("way", ["invoke", "ainvoke"])
def test_equal_probes_end_the_answer(way: Way) -> None:
    chat = model("7}", "8}", "8 }.", "8.0} is it")
    report = report_of(chat, way=way, cutoff=500, **METHOD)
    assert report["answer"].endswith("\n\nFinal answer: 8.0")
    nodes = {name: part["calls"] for name, part in report["usage"]["by_node"].items()}
    assert nodes == {"answer": 4, "probe": 4}
    assert report["usage"]["output_tokens"] == chat.output_tokens <= report["limit"]


def test_each_piece_goes_on_from_what_is_written_and_not_from_the_probes() -> None:
    chat = model("7}", "8}", "9}")
    report_of(chat, cutoff=24, **METHOD)
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
    report = report_of(chat, cutoff=100, **METHOD)
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
        report_of(chat, cutoff=500, **METHOD)
