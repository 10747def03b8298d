from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest
from langchain_core.messages import HumanMessage
from optim.journal import Journal
from optim.shared_plans import SharedPlans

from pb_graph import InputError, ModelCallError
from pb_graph.models.caps import Limits
from pb_graph.models.client import ChatClient
from pb_graph.models.reply import Purpose, Reply
from tests.support.chat_model import HTTPError, ScriptedChat, in_turn

LIMITS = Limits(cap=50, timeout=1.0)
PLAN = Purpose("plan")


def asking(
    model: ScriptedChat,
    folder: Path,
    identity: str = "planner",
    **more: Any,  # noqa: ANN401
) -> SharedPlans:
    return SharedPlans(ChatClient(model), Journal(folder / "plans.jsonl"), identity, **more)


def ask(
    plans: SharedPlans, text: str = "Plan this.", limits: Limits = LIMITS, purpose: Purpose = PLAN
) -> Reply:
    return asyncio.run(plans.acall([HumanMessage(text)], limits, purpose))


@pytest.fixture
def model() -> ScriptedChat:
    return ScriptedChat(solve=in_turn("first words", "second thoughts of it"))


def test_the_same_request_is_made_once_and_charged_in_full_each_time(
    model: ScriptedChat, tmp_path: Path
) -> None:
    plans = asking(model, tmp_path)
    first, second = ask(plans), ask(plans)
    assert first == second
    assert first.charge["output_tokens"] == 2
    assert len(model.calls) == 1


def test_the_charge_goes_to_the_node_that_asked(model: ScriptedChat, tmp_path: Path) -> None:
    plans = asking(model, tmp_path)
    ask(plans)
    again = ask(plans, purpose=Purpose("estimate", 3))
    assert (again.charge["node"], again.charge["step"]) == ("estimate", 3)


@pytest.mark.parametrize(
    "other",
    [
        {"text": "Plan that."},
        {"limits": Limits(51, 1.0)},
        {"limits": Limits(50, 1.0, {"type": "object"})},
    ],
    ids=["messages", "cap", "schema"],
)
def test_another_request_is_made_anew(
    model: ScriptedChat, tmp_path: Path, other: dict[str, Any]
) -> None:
    plans = asking(model, tmp_path)
    assert ask(plans) != ask(plans, **other)
    assert len(model.calls) == 2


def test_a_longer_time_out_is_no_other_request(model: ScriptedChat, tmp_path: Path) -> None:
    plans = asking(model, tmp_path)
    assert ask(plans) == ask(plans, limits=Limits(50, 600.0))


def test_another_planner_is_asked_itself(model: ScriptedChat, tmp_path: Path) -> None:
    assert ask(asking(model, tmp_path, "one")) != ask(asking(model, tmp_path, "two"))


def test_two_methods_at_once_wait_for_one_call(tmp_path: Path) -> None:
    model = ScriptedChat(solve="a plan", seconds=0.02)
    plans = asking(model, tmp_path)

    async def both() -> list[Reply]:
        messages = [HumanMessage("Plan this.")]
        return await asyncio.gather(*(plans.acall(messages, LIMITS, PLAN) for _ in range(5)))

    replies = asyncio.run(both())
    assert len({reply.text for reply in replies}) == len(model.calls) == 1


def test_another_process_need_not_pay_again(model: ScriptedChat, tmp_path: Path) -> None:
    before = ask(asking(model, tmp_path))
    assert ask(asking(model, tmp_path)) == before
    assert len(model.calls) == 1


def test_only_what_is_really_paid_is_told(model: ScriptedChat, tmp_path: Path) -> None:
    paid: list[int] = []
    plans = asking(model, tmp_path, paid=paid.append)
    ask(plans)
    ask(plans)
    assert paid == [2]


def test_a_failure_is_not_remembered(tmp_path: Path) -> None:
    plans = asking(ScriptedChat(solve=in_turn(HTTPError(400), "a plan")), tmp_path)
    with pytest.raises(ModelCallError):
        ask(plans)
    assert ask(plans).text == "a plan"


def test_it_works_without_an_event_loop_as_well(model: ScriptedChat, tmp_path: Path) -> None:
    plans = asking(model, tmp_path)
    messages = [HumanMessage("Plan this.")]
    assert plans.call(messages, LIMITS, PLAN) == plans.call(messages, LIMITS, PLAN)
    assert len(model.calls) == 1


# The journal below it


def test_a_torn_last_line_is_cut_off_and_paid_for_again(tmp_path: Path) -> None:
    file = tmp_path / "journal.jsonl"
    journal = Journal(file)
    journal.append("a", {"n": 1})
    journal.append("b", {"n": 2})
    file.write_bytes(file.read_bytes()[:-5])
    reopened = Journal(file)
    assert (reopened.get("a"), reopened.get("b")) == ({"n": 1}, None)
    reopened.append("c", {"n": 3})
    assert [entry["n"] for entry in Journal(file).entries()] == [1, 3]


def test_of_several_lines_with_one_key_the_last_counts(tmp_path: Path) -> None:
    journal = Journal(tmp_path / "journal.jsonl")
    journal.append("a", {"n": 1})
    journal.append("a", {"n": 2})
    for one in (journal, Journal(tmp_path / "journal.jsonl")):
        assert (one.get("a"), len(one), len(list(one.entries()))) == ({"n": 2}, 1, 2)


def test_any_text_survives(tmp_path: Path) -> None:
    nasty = 'é\n\r\u2028\x00"\\ \ud800 😀'
    Journal(tmp_path / "journal.jsonl").append("a", {"text": nasty})
    assert Journal(tmp_path / "journal.jsonl").get("a") == {"text": nasty}


@pytest.mark.parametrize("damage", [b"{", b"[]", b'{"key": "a"}', b"\xff"])
def test_a_damaged_line_within_is_named(tmp_path: Path, damage: bytes) -> None:
    file = tmp_path / "journal.jsonl"
    file.write_bytes(b'{"key":"a","entry":{}}\n' + damage + b'\n{"key":"b","entry":{}}\n')
    with pytest.raises(InputError, match=r"line 2 of .* is damaged"):
        Journal(file)
