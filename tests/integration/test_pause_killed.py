"""An agent that pauses when its budget is used up, killed at a call and resumed elsewhere."""

from __future__ import annotations

import json
import signal
from pathlib import Path
from typing import Any

import pytest

from tests.support.fork_server import Forked

pytestmark = pytest.mark.integration

SCRIPT = """
import json, os, signal, sys
from langgraph.checkpoint.sqlite import SqliteSaver
from langgraph.types import Command
from tests.support.chat_model import ScriptedChat
from tests.support.agents import ASK, THREAD
from tests.test_agent_units import always, pausing

folder, given = sys.argv[1], json.loads(sys.argv[2])

def note(kind, *figures):
    with open(folder + "/log.jsonl", "a") as log:
        log.write(json.dumps([kind, *figures]) + chr(10))

class Killed(ScriptedChat):
    def _generate(self, messages, *args, **kwargs):
        note("asked", len(messages))
        if len(self.calls) == given["kill_at"]:
            os.kill(os.getpid(), signal.SIGKILL)
        made = super()._generate(messages, *args, **kwargs)
        note("paid", len(messages), self.calls[-1].output_tokens)
        return made

with SqliteSaver.from_conn_string(folder + "/threads.db") as saver:
    agent = pausing(Killed(solve=always(40)), given["budget"], saver)
    state = agent.get_state(THREAD)
    asked = ASK if not state.next else Command(resume=given["resume"]) if state.interrupts else None
    out = agent.invoke(asked, THREAD, durability="sync")
    pauses = [found.value for found in out.get("__interrupt__", ())]
    print(json.dumps({"pauses": pauses, "spent": out["tokens_spent"]}), flush=True)
    if given["is_killed_after"]:
        os.kill(os.getpid(), signal.SIGKILL)
"""
BUDGET, RAISE = 400, 200


def process(
    folder: Path, resume: dict[str, Any] | None = None, *, kill_at: int = -1, after: bool = False
) -> dict[str, Any] | None:
    """Run or resume the agent in a process that may be killed; return what it came to."""
    given = {"budget": BUDGET, "resume": resume, "kill_at": kill_at, "is_killed_after": after}
    process = Forked(SCRIPT, str(folder), json.dumps(given))
    out, errors = process.communicate()
    is_killed = after or kill_at >= 0
    assert process.returncode == (-signal.SIGKILL if is_killed else 0), errors
    told: dict[str, Any] | None = json.loads(out) if out else None
    return told


@pytest.mark.parametrize("kill_at", range(4))
def test_killed_at_a_call_it_pays_nothing_twice_and_loses_nothing(
    tmp_path: Path, kill_at: int
) -> None:
    raised = {"action": "raise", "by": RAISE}
    paused = process(tmp_path, after=True)
    assert paused
    assert process(tmp_path, raised, kill_at=kill_at) is None
    again = process(tmp_path, raised, after=True)
    assert again
    assert again["pauses"][0]["total"] == paused["pauses"][0]["total"] + RAISE == BUDGET + RAISE
    ended = process(tmp_path, {"action": "finish"})
    assert ended
    log = [json.loads(line) for line in (tmp_path / "log.jsonl").read_text().splitlines()]
    paid = {size: tokens for kind, size, *tokens in log if kind == "paid"}
    assert len(paid) == sum(kind == "paid" for kind, *_ in log)
    assert sum(kind == "asked" for kind, *_ in log) == len(paid) + 1  # the one that was killed
    assert ended["pauses"] == []
    assert ended["spent"] == sum(tokens for (tokens,) in paid.values()) <= BUDGET + RAISE
