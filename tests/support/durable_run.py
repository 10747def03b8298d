"""One question in a process of its own, which a test kills and starts again on the same thread.

Each call to the model is noted in a log before it is answered. A call whose last words contain
``hang_at`` is never answered.
"""

from __future__ import annotations

import asyncio
import json
import os
import sys
from pathlib import Path
from typing import Any

from langgraph.checkpoint.sqlite.aio import AsyncSqliteSaver

from tests.support.chat_model import ScriptedChat
from tests.support.graphs import QUESTION, graph_of

FOREVER = 3600


class LoggedChat(ScriptedChat):
    """A scripted model that leaves a trace of each call."""

    log: str
    hang_at: str = ""

    async def _agenerate(self, messages: Any, *args: Any, **kwargs: Any) -> Any:  # noqa: ANN401
        asked = str(messages[-1].text)
        self._note(asked)
        if self.hang_at and self.hang_at in asked:
            await asyncio.sleep(FOREVER)
        return await super()._agenerate(messages, *args, **kwargs)

    def _note(self, asked: str) -> None:
        with Path(self.log).open("a", encoding="utf-8") as log:
            log.write(json.dumps(asked) + "\n")


async def main(folder: Path, given: dict[str, Any]) -> None:
    """Answer the question, or go on where the thread stopped; print the report."""
    model = LoggedChat(
        log=str(folder / f"calls-{os.getpid()}.jsonl"),
        plan=given["plan"],
        hang_at=given["hang_at"],
    )
    thread: Any = {"configurable": {"thread_id": "1"}}
    async with AsyncSqliteSaver.from_conn_string(str(folder / "threads.db")) as saver:
        graph = graph_of(model, checkpointer=saver, execution="stepwise")
        question = None if given["resumes"] else QUESTION
        out = await graph.ainvoke(question, thread, durability=given["durability"])
    print(json.dumps(out["report"]))  # noqa: T201 -- for the test


if __name__ == "__main__":
    asyncio.run(main(Path(sys.argv[1]), json.loads(sys.argv[2])))
