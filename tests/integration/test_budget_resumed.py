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
from tests.test_budget_tree import ASK, THREAD, TestInterrupted

async def agent(saver, given):
    made, models = TestInterrupted.agents(saver)
    out = await made.ainvoke(given or ASK, THREAD)
    said = out["messages"][-1].text
    return models, {"said": said, "spent": out.get("tokens_spent")}

async def main():
    given = Command(resume=json.loads(sys.argv[2])) if len(sys.argv) > 2 else None
    async with AsyncSqliteSaver.from_conn_string(sys.argv[1]) as saver:
        models, told = await agent(saver, given)
    print(json.dumps(told | {"paid": sum(model.output_tokens for model in models)}))

asyncio.run(main())
"""


def process(threads: Path, *resume: str) -> Any:  # noqa: ANN401 -- JSON
    done = forked(SCRIPT, str(threads), *resume)
    out, errors = done.communicate()
    assert done.returncode == 0, errors
    return json.loads(out)


def test_an_agent_with_a_sub_agent_goes_on_with_what_both_have_spent(tmp_path: Path) -> None:
    first = process(tmp_path / "threads.db")
    second = process(tmp_path / "threads.db", '"yes"')
    assert first["paid"] > 80  # the sub-agent paused after its first words
    assert second["said"] == "top done"
    assert second["spent"] == first["paid"] + second["paid"] == 80 + 20 + 5
