"""Attack one budget over a tree of agents: lost connections, kills, pauses, raises, cancellations.

    python tests/benchmarks/attack.py --runs 300

A lead has four helpers at once, twice, which have one each, beside a server that keeps the bill.
Every tenth call is refused, or lost after it was paid. Besides, at a kill (-9) a new process with a
new `Budget` goes on, at a pause it reads the decision, a tool raises, or a helper is cancelled.
Printed: runs over the budget, accounts short of the bill or that differ by more than is unknown,
prompts that were answered and asked again, runs without an answer, percent used. A call in flight
at a kill is in no account, so it is left out.
"""
# ruff: noqa: ANN401 -- JSON, and agents

import argparse
import asyncio
import json
import os
import random
import signal
import sys
import tempfile
import threading
import time
import warnings
from collections import Counter
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Annotated, Any

sys.path.insert(0, str(Path(__file__).parents[2]))
import httpx
from langchain.agents import create_agent
from langchain.agents.middleware import ModelRetryMiddleware
from langchain_core.messages import HumanMessage
from langchain_core.runnables import RunnableConfig
from langchain_core.tools import InjectedToolCallId, tool
from langchain_openai import ChatOpenAI
from langgraph.checkpoint.sqlite.aio import AsyncSqliteSaver
from langgraph.types import Command
from scripted_provider import ANSWER, MODEL, PER_CALL, PRICE, Bill, Provider, script

from pb_graph import Budget, TokenBudgetMiddleware
from tests.support.fork_server import Forked

BAD = ("over", "short", "unequal", "again", "errors")
KINDS = ("plain", "kill", "pause", "raise", "cancel")
TOTALS = {"completion": 2000, "total": 6000, "usd": 0.005}
SCALE = {"completion": 1, "total": 1, "usd": 10**12}
THREAD: Any = {"configurable": {"thread_id": "1"}, "recursion_limit": 200}
WIDE, FAULTS, MOST_STARTS, MOST_LOST = 4, 0.1, 12, Bill(PER_CALL, 2000, 0)


def budget_of(unit: str) -> Budget:
    if unit == "usd":
        return Budget(usd=TOTALS[unit], prices={MODEL: PRICE})
    return Budget(**{"total" if unit == "completion" else "total_tokens": TOTALS[unit]})


def helper_tool(below: Any, chance: random.Random, kind: str) -> Any:
    @tool
    async def delegate(config: RunnableConfig, call: Annotated[str, InjectedToolCallId]) -> str:
        """Let somebody else do it."""
        if kind == "raise" and chance.random() < 0.1:
            msg = "the tool is broken"
            raise RuntimeError(msg)
        job = {"messages": [HumanMessage(f"Do {call} of {config['metadata'].get('job', 'all')}.")]}
        limit = chance.random() * 2 if kind == "cancel" and chance.random() < 0.3 else None
        try:
            config = {**config, "metadata": {**config["metadata"], "job": call}}
            out = await asyncio.wait_for(below.ainvoke(job, config), limit)
        except TimeoutError:
            return "It took too long."
        return str(out["messages"][-1].text)

    return delegate


async def child(folder: str, url: str, kind: str, unit: str, seed: int) -> None:
    """Run the tree, or go on where it stopped; print the account."""
    budget, chance = budget_of(unit), random.Random(seed)  # noqa: S311 -- no secret
    client = ChatOpenAI(model=MODEL, base_url=url, api_key="none", max_tokens=PER_CALL)  # type: ignore[arg-type]
    retry = ModelRetryMiddleware(max_retries=4, initial_delay=0, jitter=False)

    def agent(prompt: str, *tools: Any, saver: Any = None, **own: Any) -> Any:
        guard = TokenBudgetMiddleware(budget, per_call=PER_CALL, **own)
        made: Any = {"middleware": [retry, guard], "checkpointer": saver}
        return create_agent(client, [*tools], system_prompt=prompt, **made)

    between = agent(script(("delegate", 1, {})), helper_tool(agent("Be brief."), chance, kind))
    lead = script(("delegate", WIDE, {}), ("delegate", WIDE, {}))
    own = {"on_used_up": "pause"} if kind == "pause" else {}
    async with AsyncSqliteSaver.from_conn_string(f"{folder}/threads.db") as saver:
        graph = agent(lead, helper_tool(between, chance, kind), saver=saver, **own)
        state = await graph.aget_state(THREAD)
        asked: Any = {"messages": [HumanMessage("Go.")]} if not state.created_at else None
        if state.interrupts:
            more = TOTALS[unit] / 4 if unit == "usd" else TOTALS[unit] // 4
            action = chance.choice(["raise", "finish", "stop"])
            asked = Command(resume={"action": action, "by": more})
        out, raised = {}, ""
        try:
            out = await graph.ainvoke(asked, THREAD, durability="sync")
        except RuntimeError as error:
            raised = str(error)
    figures = (budget.total, budget.spent, budget.unknown)
    total, spent, unknown = (round(figure * SCALE[unit]) for figure in figures)
    told = {"total": total, "spent": spent, "unknown": unknown, "is_raised": bool(raised)}
    told |= {"is_paused": "__interrupt__" in out, "counted": out.get("tokens_by_model")}
    print(json.dumps(told | {"text": out["messages"][-1].text if out else raised}))


class Server(ThreadingHTTPServer):
    """The provider on a loopback address; it may kill its client when a call arrives."""

    daemon_threads = True

    def __init__(self, seed: int, kind: str) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.provider, self.chance = Provider(seed, share=FAULTS), random.Random(seed)  # noqa: S311
        self.kills = [self.chance.randrange(2, 14) for _ in range(2)] if kind == "kill" else []
        self.slow = 0.3 if kind == "cancel" else 0.0
        self.client: Forked | None = None
        self.in_turn, self.is_dead = threading.Lock(), False
        self.answered: Counter[str] = Counter()
        threading.Thread(target=self.serve_forever, daemon=True).start()

    def handle_error(self, *_: Any) -> None:
        """Say nothing of clients that were killed."""


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: Server

    def log_message(self, *_: Any) -> None:
        """Say nothing."""

    def do_POST(self) -> None:
        server, provider = self.server, self.server.provider
        body = self.rfile.read(int(self.headers["content-length"]))
        with server.in_turn:
            if server.is_dead:
                return
            if server.kills and provider.calls >= server.kills[0]:
                server.kills = [provider.calls + more for more in server.kills[1:]]
                time.sleep(1)  # what was answered before is written down by then
                server.is_dead = True
                server.client.send_signal(signal.SIGKILL)  # type: ignore[union-attr]
                return
            request = httpx.Request("POST", f"http://here{self.path}", content=body)
            known = len(provider.known)
            try:
                reply = asyncio.run(provider.answer(request))
            except httpx.ReadError:
                self.connection.close()
                return
            if len(provider.known) > known:
                server.answered[json.dumps(json.loads(body)["messages"])] += 1
        time.sleep(server.chance.random() * server.slow)
        self.send_response(reply.status_code)
        for name, value in reply.headers.items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(reply.content)


CHILD = """
import asyncio, sys
sys.path[:0] = [sys.argv[1]]
import attack
asyncio.run(attack.child(*sys.argv[2:6], int(sys.argv[6])))
"""


def attack(kind: str, unit: str, seed: int) -> Counter[str]:
    """Run one tree to its end; return what was found."""
    server, found = Server(seed, kind), Counter[str](runs=1)
    with tempfile.TemporaryDirectory() as folder:
        url = f"http://127.0.0.1:{server.server_port}/v1"
        for start in range(MOST_STARTS):
            server.is_dead = False
            given = (str(Path(__file__).parent), folder, url, kind, unit, str(seed * 100 + start))
            variables = {"LANGSMITH_TRACING": "false", "PYTHONWARNINGS": "ignore"}
            server.client = Forked(CHILD, *given, environment=variables)
            out, errors = server.client.communicate()
            found["starts"] += 1
            told = json.loads(out.splitlines()[-1]) if out else None
            if told and not (told["is_paused"] or told["is_raised"]):
                break
            found["errors"] += not (told or server.is_dead)
            if not (told or server.is_dead):
                print(kind, unit, seed, errors[-800:], file=sys.stderr)
                return found
    server.shutdown()
    known, lost = (
        sum(bill.units(unit) for bill in bills)
        for bills in (server.provider.known, server.provider.lost)
    )
    spent, unknown = told["spent"], told["unknown"]
    found["calls"] += server.provider.calls
    found["over"] += known + lost > told["total"]
    found["short"] += known + lost > spent + unknown
    # A lost call counts as its cap, after a kill among `spent`; and so does an answer that reached
    # nobody, because its helper was cancelled.
    most = known + (found["starts"] > 1) * len(server.provider.lost) * MOST_LOST.units(unit)
    least = known - (unknown if kind == "cancel" or found["starts"] > 1 else 0)
    found["unequal"] += not least <= spent <= most
    found["again"] += sum(times - 1 for times in server.answered.values())
    found["unanswered"] += ANSWER not in told["text"]
    found["used"] += round(100 * (known + lost) / told["total"])
    if found["over"] + found["short"] + found["unequal"] + found["again"]:
        print(kind, unit, seed, dict(found), told, known, lost, file=sys.stderr)
    return found


def main() -> int:
    """Attack in every kind and unit; return 1 if anything was over, or paid twice."""
    warnings.filterwarnings("ignore")
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--runs", type=int, default=300)
    options.add_argument("--kind", choices=KINDS)
    chosen = options.parse_args()
    kinds, bad = [kind for kind in KINDS if chosen.kind in (None, kind)], 0
    names = ["runs", "starts", "calls", *BAD, "unanswered", "used"]
    print(f"| kind | unit | {' | '.join(names)} |\n|{'---|' * (2 + len(names))}")
    for kind in kinds:
        for unit in TOTALS:
            found = Counter[str]()
            for seed in range(max(1, chosen.runs // (len(kinds) * len(TOTALS)))):
                found += attack(kind, unit, seed + 1)
            found["used"] //= found["runs"]
            row = [kind, unit, *(found[name] for name in names)]
            print(f"| {' | '.join(map(str, row))} |", flush=True)
            bad += sum(found[name] for name in BAD)
    return int(bad > 0)


if __name__ == "__main__":
    os.environ["LANGSMITH_TRACING"] = "false"
    sys.exit(main())
