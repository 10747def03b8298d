"""What the graph and a probe do when a real server fails or breaks its word."""

from __future__ import annotations

import asyncio
import socket
import sys
import time
from pathlib import Path
from typing import Any, get_args
from unittest.mock import MagicMock

import pytest
from langchain.agents import create_agent
from langchain.agents.structured_output import ProviderStrategy
from langchain_core.messages import HumanMessage
from langchain_openai import ChatOpenAI
from openai import AuthenticationError
from pydantic import SecretStr
from typer.testing import CliRunner

from pb_graph import NoAnswerError, Settings, TokenBudgetMiddleware, build_graph
from pb_graph.cli.app import app
from pb_graph.cli.options import FAILED
from pb_graph.errors import ModelCallError
from pb_graph.local.server import LocalServer
from pb_graph.models.client import ChatClient, RetryPolicy
from pb_graph.models.options import CallOptions
from pb_graph.models.reply import BLOCKING, run_sync
from pb_graph.probe import CHECKS, COUNT, Probe, probe
from tests.support.agents import ASK, Pens
from tests.support.clients import chat_to
from tests.support.fault_server import Fault, FaultServer, Request, always, now_and_then
from tests.support.graphs import QUESTION, checked, codes, report_or_error, run

pytestmark = pytest.mark.integration

MAYBE_BILLED: tuple[Fault, ...] = ("reset_before", "stall", "no_choices", "half_stream")


def graph_to(server: FaultServer, timeout: float = 60.0, **settings: Any) -> Any:  # noqa: ANN401
    """Return a graph that waits for no longer than a test should."""
    model = chat_to(server.url, max_retries=0, timeout=timeout)
    client = ChatClient(model, retry_policy=RetryPolicy(3, initial_interval=0.01))
    return build_graph(client, settings=Settings(**({"plan_from": 1} | settings)))


@pytest.mark.parametrize("fault", MAYBE_BILLED)
def test_an_attempt_that_may_have_been_billed_stays_reserved(fault: Fault) -> None:
    with FaultServer(always(fault)) as server:
        timeout = 1.0 if fault == "stall" else 60.0
        report, _ = report_or_error(graph_to(server, timeout, method="vanilla"))
    assert server.served == 1
    assert "unknown_bill" in codes(report)
    assert server.billed <= report["most_billed"] <= report["limit"]


def test_an_error_inside_an_agent_names_the_address_and_the_remedy() -> None:
    with FaultServer(always("bad_key")) as server:
        agent = create_agent(chat_to(server.url), middleware=[TokenBudgetMiddleware(500)])
        with pytest.raises(AuthenticationError, match="The server refused the API key") as raised:
            agent.invoke(ASK)
    assert server.url in str(raised.value)


@pytest.mark.parametrize("own", [{}, {"timeout": 0.5}])
def test_a_server_that_drips_is_left_at_the_time_limit(own: dict[str, Any]) -> None:
    options, started = CallOptions(50, timeout=120 if own else 0.5), time.monotonic()
    with FaultServer(always("drip"), stall=60) as server:
        client = ChatClient(chat_to(server.url, **own), retry_policy=RetryPolicy(0))
        with pytest.raises(ModelCallError, match=r"Settings\.timeout"):
            run_sync(client.call([HumanMessage("?")], options, BLOCKING))
        assert time.monotonic() - started < 30


def test_an_error_says_why_every_reply_was_empty() -> None:
    with FaultServer(always("empty_at_cap")) as server:
        _, error = report_or_error(graph_to(server, method="global_budget", budget=200))
    assert "raise `budget`" in error


def test_an_agents_typed_answer_that_openais_client_cannot_read_is_asked_for_again() -> None:
    said = iter([('{"number": 2', "length"), ('{"number": 21}', "stop")])

    def changed(reply: dict[str, Any]) -> dict[str, Any]:
        content, finish = next(said)
        reply["choices"][0]["message"]["content"] = content
        reply["choices"][0]["finish_reason"] = finish
        return reply

    with FaultServer(changed=changed) as server:
        agent: Any = create_agent(
            chat_to(server.url),
            response_format=ProviderStrategy(Pens),
            middleware=[TokenBudgetMiddleware(100)],
        )
        out = agent.invoke(ASK)
    assert out["structured_response"] == Pens(number=21)
    assert out["tokens_spent"] == server.billed <= 100


async def test_the_limit_holds_and_the_account_is_true_however_much_goes_wrong() -> None:
    faults = tuple(fault for fault in get_args(Fault) if fault != "stall")
    rough = now_and_then(0.3, 1, faults)
    with FaultServer(rough, answer="so it goes on and on " * 100, stall=0.3) as server:
        graph = graph_to(server, execution="stepwise", budget=240)

        async def one() -> dict[str, Any]:
            try:
                return checked((await graph.ainvoke(QUESTION))["report"])
            except NoAnswerError as error:
                return checked(error.report)

        reports = await asyncio.gather(*(one() for _ in range(10)))
    for report in reports:
        assert report["usage"]["output_tokens"] <= report["limit"]
        assert sum(step["tokens"] or 0 for step in report["steps"]) <= report["budget"]
    assert any(report["warnings"] for report in reports)


def test_a_model_is_tried_as_often_as_the_settings_say_and_not_by_its_sdk() -> None:
    with FaultServer(always("rate_limit")) as server:
        model, chosen = chat_to(server.url, max_retries=4), {"method": "vanilla", "max_retries": 1}
        _, error = report_or_error(build_graph(model, settings=chosen))
    assert "failed, 2 times," in error
    assert server.served == 2


@pytest.mark.parametrize("ways", [["ainvoke"] * 3, ["invoke", "ainvoke"] * 2])
def test_a_further_event_loop_finds_no_dead_connection(ways: list[Any]) -> None:
    with FaultServer() as server:
        model = ChatOpenAI(model="m", base_url=server.url, api_key=SecretStr("sk-test"))
        graph = build_graph(model, settings=Settings(max_retries=0, method="global_budget"))
        reports = [run(graph, way=way)["report"] for way in ways]
    assert server.served == 2 * len(ways)
    assert server.billed == sum(report["usage"]["output_tokens"] for report in reports)
    assert not any(report["warnings"] for report in reports)


def test_closing_a_local_server_disconnects_its_clients(monkeypatch: pytest.MonkeyPatch) -> None:
    llama = MagicMock(__spec__=object())
    monkeypatch.setitem(sys.modules, "xllamacpp", llama)
    with socket.create_server(("127.0.0.1", 0)) as listening:
        address = listening.getsockname()
        llama.Server.return_value.listening_address = f"http://127.0.0.1:{address[1]}"
        server = LocalServer("m", Path("m.gguf"))
        with socket.create_connection(address, 5) as client, listening.accept()[0]:
            server.close()
            assert client.recv(1) == b""
        with pytest.raises(ConnectionRefusedError):
            socket.create_connection(address, 5)


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
