"""A probe finds each misdeed, raises no false alarm, and its findings are heeded."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from pb_graph import build_graph
from pb_graph.errors import ModelSetupError
from pb_graph.models.options import CallOptions
from pb_graph.probe import CHECKS, COUNT, Probe, load_caps, probe
from tests.support.endpoints import chat_to
from tests.support.fault_server import FaultServer, Request

pytestmark = pytest.mark.integration

THOUGHT = "hm"


class PromiseServer(FaultServer):
    """Does all that budgets rest on, but for one misdeed.

    It thinks, as vLLM's models do, unless its chat template is told not to.
    """

    def __init__(self, misdeed: str = "", *, thinks: bool = True) -> None:
        super().__init__(
            # Any reply with the status 400.
            lambda request: "context_too_long" if request.schema and refuses_schema else None,
            changed=self._told,
            obeys_cap=misdeed != "ignores_cap",
        )
        refuses_schema = misdeed == "refuses_schema"
        self.misdeed, self.thinks = misdeed, thinks

    def _text(self, request: Request) -> str:
        text = "21"
        if request.schema and self.misdeed != "ignores_schema":
            text = '{"colour": "teal", "number": 3}'
        elif request.body["messages"][-1]["content"] == COUNT:
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
        choice["message"]["content"] = " ".join(word for word in words if word != THOUGHT)
        usage["completion_tokens_details"] = {"reasoning_tokens": words.count(THOUGHT)}
        if self.misdeed == "calls_cut_replies_finished":
            choice["finish_reason"] = "stop"
        elif self.misdeed == "tells_no_usage":
            del reply["usage"]
        elif self.misdeed == "counts_too_little":
            usage |= {"completion_tokens": 1, "total_tokens": usage["prompt_tokens"] + 1}
        return reply


def probed(server: PromiseServer, policy: str | None = None) -> Probe:
    with server:
        found = probe(chat_to(server.url), policy)
    assert server.served == found.calls <= 8
    assert found.tokens <= 2000
    return found


def verdicts(found: Probe) -> dict[str, str]:
    return dict(found.to_dict()["verdicts"])


def test_a_good_server_that_thinks_passes_and_its_policy_is_found() -> None:
    found = probed(PromiseServer())
    assert verdicts(found) == dict.fromkeys(CHECKS, "passed"), found.findings
    assert found.policy == "vllm"


def test_a_good_server_that_does_not_think_has_nothing_to_switch_off() -> None:
    found = verdicts(probed(PromiseServer(thinks=False)))
    assert found.pop("thinking_off") == "unsupported"
    assert set(found.values()) == {"passed"}


def test_a_schema_that_is_refused_is_unsupported() -> None:
    found = probed(PromiseServer("refuses_schema"))
    assert (verdicts(found)["schema"], found.failed) == ("unsupported", [])


@pytest.mark.parametrize(
    ("misdeed", "failed"),
    [
        ("ignores_cap", "output_cap"),
        ("calls_cut_replies_finished", "cut_is_said"),
        ("tells_no_usage", "usage"),
        ("counts_too_little", "usage"),
        ("thinks_when_told_not_to", "thinking_off"),
        ("ignores_schema", "schema"),
    ],
)
def test_a_misdeed_is_found_and_nothing_else_fails(misdeed: str, failed: str) -> None:
    found = probed(PromiseServer(misdeed, thinks=misdeed == "thinks_when_told_not_to"))
    assert found.failed == [failed], found.findings


def test_a_server_that_is_not_there_is_said_to_be_so() -> None:
    with PromiseServer() as server:
        pass
    with pytest.raises(ModelSetupError, match=r"Not one call to m got a reply.*running"):
        probe(chat_to(server.url))


def test_a_policy_is_named() -> None:
    assert probed(PromiseServer(), "vllm").policy == "vllm"
    with pytest.raises(ModelSetupError, match="'vllm'"):
        probe(chat_to("http://127.0.0.1:9/v1"), "vlm")


def written(folder: Path, **verdicts: str) -> Path:
    path = folder / "caps.json"
    path.write_text(str({"policy": "vllm", "verdicts": verdicts}).replace("'", '"'))
    return path


def test_no_schema_goes_to_a_server_that_does_not_follow_it(tmp_path: Path) -> None:
    asked, model = CallOptions(100, schema={"type": "object"}), chat_to("http://127.0.0.1:9/v1")
    bodies: list[Any] = [
        load_caps(written(tmp_path, schema=verdict))(model, asked)["extra_body"]
        for verdict in ("passed", "failed")
    ]
    assert ["response_format" in body for body in bodies] == [True, False]


def test_a_server_that_ignores_its_cap_is_not_used(tmp_path: Path) -> None:
    with pytest.raises(ModelSetupError, match="no budget holds"):
        build_graph("openai:m", cap_policy=written(tmp_path, output_cap="failed"))


@pytest.mark.parametrize(
    ("text", "said"),
    [(None, "Cannot read"), ("[]", "probe the model again"), ("", "probe the model again")],
)
def test_a_file_that_is_no_probes_is_refused(tmp_path: Path, text: str | None, said: str) -> None:
    file = tmp_path / "caps.json"
    if text is not None:
        file.write_text(text)
    with pytest.raises(ModelSetupError, match=said):
        load_caps(file)
