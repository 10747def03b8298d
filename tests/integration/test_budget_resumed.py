"""One budget over an interrupted run that is resumed in a second process."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.support.fork_server import forked

pytestmark = pytest.mark.integration

SCRIPT = """
import asyncio, json, sys
from langgraph.checkpoint.sqlite.aio import AsyncSqliteSaver
from langgraph.types import Command
from pb_graph import Budget
from tests.support.chat_model import ScriptedChat
from tests.support.graphs import QUESTION, graph_of
from tests.test_budget_tree import ASK, THREAD, TestInterrupted

async def agent(saver, given):
    made, models = TestInterrupted.agents(saver)
    place = {"checkpoint_id": sys.argv[4]} if len(sys.argv) > 4 else {}
    out = await made.ainvoke(given or ASK, {"configurable": THREAD["configurable"] | place})
    at = (await made.aget_state(THREAD)).config["configurable"]["checkpoint_id"]
    said = out["messages"][-1].text
    return models, {"said": said, "spent": out.get("tokens_spent"), "at": at}

async def graph(saver, given):
    model, budget = ScriptedChat(), Budget(5000)
    if given is None:
        budget.charge(1000)  # by others, in the first process
    made = graph_of(model, shared_budget=budget, checkpointer=saver, review_plan=True)
    out = await made.ainvoke(given or QUESTION, THREAD)
    return [model], {"said": out.get("answer"), "spent": budget.spent, "left": budget.left}

async def main():
    given = Command(resume=json.loads(sys.argv[3])) if len(sys.argv) > 3 else None
    async with AsyncSqliteSaver.from_conn_string(sys.argv[1]) as saver:
        models, told = await {"agent": agent, "graph": graph}[sys.argv[2]](saver, given)
    print(json.dumps(told | {"paid": sum(model.output_tokens for model in models)}))

asyncio.run(main())
"""


def process(threads: Path, host: str, *resume: str) -> Any:  # noqa: ANN401 -- JSON
    done = forked(SCRIPT, str(threads), host, *resume)
    out, errors = done.communicate()
    assert done.returncode == 0, errors
    return json.loads(out)


def test_an_agent_with_a_sub_agent_goes_on_with_what_both_have_spent(tmp_path: Path) -> None:
    first = process(tmp_path / "threads.db", "agent")
    second = process(tmp_path / "threads.db", "agent", '"yes"')
    assert first["paid"] > 80  # the sub-agent paused after its first words
    assert second["said"] == "top done"
    assert second["spent"] == first["paid"] + second["paid"] == 80 + 20 + 5


def test_a_branch_from_where_it_paused_counts_what_the_other_has_spent(tmp_path: Path) -> None:
    first = process(tmp_path / "threads.db", "agent")
    second = process(tmp_path / "threads.db", "agent", '"yes"')
    third = process(tmp_path / "threads.db", "agent", '"no"', first["at"])
    assert second["paid"] > 0 < third["paid"]
    assert third["spent"] == first["paid"] + second["paid"] + third["paid"] <= 200


def test_a_question_goes_on_with_its_shared_account(tmp_path: Path) -> None:
    first = process(tmp_path / "threads.db", "graph")
    second = process(tmp_path / "threads.db", "graph", '{"plan": [0]}')
    assert first["spent"] == 1000 + first["paid"]
    assert second["said"] == "Final answer: 42"
    assert second["spent"] == 1000 + first["paid"] + second["paid"]
    assert second["left"] == 5000 - second["spent"]
