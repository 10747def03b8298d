"""A probe finds every broken promise, raises no false alarm, and what it found is heeded."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, get_args

import pytest

from pb_graph import Settings, build_graph
from pb_graph.errors import ModelSetupError
from pb_graph.probe.run import Probe, probe
from pb_graph.probe.session import MOST_CALLS, MOST_TOKENS
from tests.support.endpoints import chat_to
from tests.support.graphs import QUESTION
from tests.support.promise_server import EXTRAS, Misdeed, PromiseServer, promising

pytestmark = pytest.mark.integration

BREAKS: dict[Misdeed, set[str]] = {
    "ignores_cap": {"output_cap", "stream_cap"},
    "ignores_cap_in_streams": {"stream_cap"},
    "calls_cut_replies_finished": {"cut_is_said"},
    "tells_no_usage": {"usage"},
    "tells_no_usage_in_streams": {"stream_usage"},
    "counts_too_little": {"honest_usage"},
    "hides_thinking_in_the_total": {"honest_usage"},
    "streams_in_one_piece": {"streaming"},
    "ignores_thinking_budget": {"thinking_budget"},
    "thinks_when_told_not_to": {"thinking_off"},
    "ignores_effort": {"effort"},
    "ignores_stop": {"stop"},
    "ignores_schema": {"schema"},
    "ignores_seed": {"seed"},
    "invents_logprobs": {"logprobs"},
}


def probed(server: PromiseServer, policy: str | None = None) -> Probe:
    with promising(server):
        found = probe(chat_to(server.url), policy)
    assert len(server.bodies) == found.calls <= MOST_CALLS
    assert found.tokens <= MOST_TOKENS
    return found


def verdicts(found: Probe) -> dict[str, str]:
    return dict(found.caps()["verdicts"])


def test_a_good_server_that_thinks_keeps_all_and_its_policy_is_found() -> None:
    found = probed(PromiseServer())
    assert set(verdicts(found).values()) == {"kept"}, found.caps()["seen"]
    assert found.policy == "vllm"


def test_a_good_server_that_does_not_think_has_nothing_to_bound() -> None:
    found = verdicts(probed(PromiseServer(thinks=False)))
    absent = {name for name, verdict in found.items() if verdict != "kept"}
    assert absent == {"thinking_budget", "thinking_off", "effort"}
    assert {found[name] for name in absent} == {"not there"}


@pytest.mark.parametrize("thinks", [False, True])
def test_what_a_server_refuses_was_never_promised(thinks: bool) -> None:
    found = probed(PromiseServer(thinks=thinks, refuses=EXTRAS))
    assert found.broken == []
    refused = {"stop", "schema", "logprobs", "seed", "effort", "streaming", "stream_cap"}
    assert {verdicts(found)[name] for name in refused} == {"not there"}


def test_every_misdeed_has_its_verdict() -> None:
    assert set(BREAKS) == set(get_args(Misdeed))


@pytest.mark.parametrize("misdeed", get_args(Misdeed))
def test_a_misdeed_is_found_and_nothing_else_is_called_broken(misdeed: Misdeed) -> None:
    found = probed(PromiseServer(misdeeds=frozenset({misdeed})))
    assert set(found.broken) == BREAKS[misdeed], found.caps()["seen"]


def test_a_server_that_is_not_there_is_said_to_be_so() -> None:
    with promising(PromiseServer()) as server:
        pass
    with pytest.raises(ModelSetupError, match=r"Not one call to m got a reply.*running"):
        probe(chat_to(server.url))


def test_a_policy_is_named() -> None:
    assert probed(PromiseServer(), "vllm").policy == "vllm"
    with promising(PromiseServer()) as server, pytest.raises(ModelSetupError, match="'vllm'"):
        probe(chat_to(server.url), "vlm")


class TestCaps:
    """What `build_graph` makes of the file."""

    def bodies(self, folder: Path, *misdeeds: Misdeed, **settings: Any) -> list[dict[str, Any]]:  # noqa: ANN401
        server = PromiseServer(misdeeds=frozenset(misdeeds))
        file = folder / "caps.json"
        with promising(server):
            probe(chat_to(server.url)).save(file)
            server.bodies.clear()
            graph: Any = build_graph(
                chat_to(server.url), settings=Settings(**settings), cap_policy=file
            )
            graph.invoke(QUESTION)
        return server.bodies

    def test_a_good_server_gets_all_it_understands(self, tmp_path: Path) -> None:
        *_, answer = bodies = self.bodies(tmp_path, method="global_budget", budget=400)
        assert answer["thinking_token_budget"] > 0
        assert "max_completion_tokens" not in answer
        assert [len(bodies), answer["max_tokens"]] == [1, 352]

    def test_no_schema_goes_to_a_server_that_ignores_it(self, tmp_path: Path) -> None:
        ignored = self.bodies(tmp_path, "ignores_schema", schedule="weighted")
        assert not any("response_format" in body for body in ignored)
        planned = self.bodies(tmp_path, schedule="weighted")
        assert any("response_format" in body for body in planned)

    def test_thinking_without_bounds_is_switched_off(self, tmp_path: Path) -> None:
        (*_, answer) = self.bodies(
            tmp_path, "ignores_thinking_budget", method="global_budget", budget=400
        )
        assert answer["chat_template_kwargs"] == {"enable_thinking": False}

    def test_a_server_without_a_cap_is_not_used(self, tmp_path: Path) -> None:
        with pytest.raises(ModelSetupError, match="no budget holds"):
            self.bodies(tmp_path, "ignores_cap")

    @pytest.mark.parametrize("text", ["", "{}", "[]", '{"policy": "x", "verdicts": {}}'])
    def test_another_file_is_refused(self, tmp_path: Path, text: str) -> None:
        file = tmp_path / "caps.json"
        file.write_text(text)
        with pytest.raises(ModelSetupError, match="probe the model again"):
            build_graph("openai:m", cap_policy=file)

    def test_a_missing_one_is_said_to_be_so(self) -> None:
        with pytest.raises(ModelSetupError, match="Cannot read"):
            build_graph("openai:m", cap_policy="nowhere/caps.json")


def test_what_is_written_is_plain_json(tmp_path: Path) -> None:
    found = probed(PromiseServer())
    found.save(tmp_path / "caps.json")
    assert json.loads((tmp_path / "caps.json").read_text()) == found.caps()
