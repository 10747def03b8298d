"""A probe finds each misdeed, raises no false alarm, and names the policy."""

from __future__ import annotations

from typing import Any

import pytest
from typer.testing import CliRunner

from pb_graph.cli.app import app
from pb_graph.cli.options import FAILED
from pb_graph.errors import ModelCallError
from pb_graph.probe import CHECKS, COUNT, Probe, probe
from tests.support.endpoints import chat_to
from tests.support.fault_server import FaultServer, Request

pytestmark = pytest.mark.integration

THOUGHT = "hm"


class PromiseServer(FaultServer):
    """Does all that budgets rest on, but for one misdeed.

    It thinks, as vLLM's models do, unless its chat template is told not to.
    """

    def __init__(self, misdeed: str = "", *, thinks: bool = True) -> None:
        super().__init__(changed=self._told, obeys_cap=misdeed != "ignores_cap")
        self.misdeed, self.thinks = misdeed, thinks

    def _text(self, request: Request) -> str:
        text = "21"
        if request.body["messages"][-1]["content"] == COUNT:
            text = " ".join(f"{number}," for number in range(1, 101))
        told_not_to = not (request.body.get("chat_template_kwargs") or {}).get(
            "enable_thinking", True
        )
        obeys = told_not_to and self.misdeed != "thinks_when_told_not_to"
        return text if obeys or not self.thinks else f"{THOUGHT} " * 250 + text

    def _told(self, reply: dict[str, Any]) -> dict[str, Any]:
        """Hide the thought, and lie about what was written."""
        (choice,), usage = reply["choices"], reply["usage"]
        words = choice["message"]["content"].split()
        if self.misdeed == "caps_no_thought" and THOUGHT in words:
            words += [THOUGHT] * 900
            usage["completion_tokens"] = len(words)
        choice["message"]["content"] = " ".join(word for word in words if word != THOUGHT)
        usage["completion_tokens_details"] = {"reasoning_tokens": words.count(THOUGHT)}
        if self.misdeed == "calls_cut_replies_finished":
            choice["finish_reason"] = "stop"
        elif self.misdeed == "tells_no_usage":
            del reply["usage"]
        elif self.misdeed == "counts_too_little":
            usage |= {"completion_tokens": 1, "total_tokens": usage["prompt_tokens"] + 1}
        return reply


def probed(server: PromiseServer) -> Probe:
    with server:
        found = probe(chat_to(server.url))
    assert server.served == found.calls <= 6
    assert found.tokens <= 2000
    return found


def verdicts(found: Probe) -> dict[str, str]:
    return {name: finding.verdict for name, finding in found.findings.items()}


def test_a_good_server_that_thinks_passes_and_its_policy_is_found() -> None:
    found = probed(PromiseServer())
    assert verdicts(found) == dict.fromkeys(CHECKS, "passed"), found.findings
    assert found.policy == "vllm"


def test_a_good_server_that_does_not_think_has_nothing_to_switch_off() -> None:
    found = verdicts(probed(PromiseServer(thinks=False)))
    assert found.pop("thinking_off") == "unsupported"
    assert set(found.values()) == {"passed"}


@pytest.mark.parametrize(
    ("misdeed", "failed"),
    [
        ("ignores_cap", "output_cap"),
        ("calls_cut_replies_finished", "cut_is_said"),
        ("tells_no_usage", "usage"),
        ("counts_too_little", "usage"),
        ("thinks_when_told_not_to", "thinking_off"),
        ("caps_no_thought", "output_cap"),
    ],
)
def test_a_misdeed_is_found_and_nothing_else_fails(misdeed: str, failed: str) -> None:
    found = probed(PromiseServer(misdeed, thinks="th" in misdeed))
    assert found.failed == [failed], found.findings


def test_a_server_that_is_not_there_is_said_to_be_so() -> None:
    with PromiseServer() as server:
        pass
    with pytest.raises(ModelCallError, match=r"The model call to m .*running"):
        probe(chat_to(server.url))


@pytest.mark.parametrize("misdeed", ["", "ignores_cap"])
def test_the_command_prints_the_findings_and_ends_with_an_exit_code(
    misdeed: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    with PromiseServer(misdeed, thinks=False) as server:
        monkeypatch.setattr("pb_graph.probe.resolve", lambda *_: chat_to(server.url))
        result = CliRunner().invoke(app, ["probe", "fake:m"])
    assert "--cap-policy openai_compatible" in result.stdout
    assert result.exit_code == (FAILED if misdeed else 0)
    assert ("output_cap" in result.stderr) == bool(misdeed)
