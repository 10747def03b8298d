"""A probe finds each misdeed, raises no false alarm, and its findings are heeded."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from pb_graph import build_graph
from pb_graph.errors import ModelSetupError
from pb_graph.models.options import CallOptions
from pb_graph.probe import CHECKS, Probe, load_caps, probe
from tests.support.endpoints import chat_to
from tests.support.promise_server import Misdeed, PromiseServer, promising

pytestmark = pytest.mark.integration


def probed(server: PromiseServer, policy: str | None = None) -> Probe:
    with promising(server):
        found = probe(chat_to(server.url), policy)
    assert len(server.bodies) == found.calls <= 8
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
    found = probed(PromiseServer(refuses="response_format"))
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
def test_a_misdeed_is_found_and_nothing_else_fails(misdeed: Misdeed, failed: str) -> None:
    found = probed(PromiseServer(thinks=misdeed == "thinks_when_told_not_to", misdeed=misdeed))
    assert found.failed == [failed], found.findings


def test_a_server_that_is_not_there_is_said_to_be_so() -> None:
    with promising(PromiseServer()) as server:
        pass
    with pytest.raises(ModelSetupError, match=r"Not one call to m got a reply.*running"):
        probe(chat_to(server.url))


def test_a_policy_is_named() -> None:
    assert probed(PromiseServer(), "vllm").policy == "vllm"
    with promising(PromiseServer()) as server, pytest.raises(ModelSetupError, match="'vllm'"):
        probe(chat_to(server.url), "vlm")


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


@pytest.mark.parametrize("text", ["", "[]", '{"policy": "x", "verdicts": {}}'])
def test_another_file_is_refused(tmp_path: Path, text: str) -> None:
    file = tmp_path / "caps.json"
    file.write_text(text)
    with pytest.raises(ModelSetupError, match="probe the model again"):
        load_caps(file)


def test_a_missing_file_is_said_to_be_so() -> None:
    with pytest.raises(ModelSetupError, match="Cannot read"):
        load_caps("nowhere/caps.json")
