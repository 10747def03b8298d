"""How far one question travels: our functions, our files, and changes of file.

    python tests/benchmarks/hops.py [vanilla default stepwise middleware]

Each case runs once unmeasured, so that nothing is imported or built while it is counted. The counts
show how much code a reader has to follow; they do not depend on the machine.
"""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path
from types import FrameType

from langchain.agents import create_agent

sys.path.insert(0, str(Path(__file__).parents[2]))
from pb_graph import Budget, Settings, TokenBudgetMiddleware, build_graph
from tests.support.chat_model import ScriptedChat

PACKAGE = f"{Path(__file__).parents[2] / 'pb_graph'}/"
QUESTION = {"question": "Why is the sky blue?"}
entered: list[tuple[str, str]] = []


def record(frame: FrameType, event: str, _: object) -> None:
    """Note each call of a function of `pb_graph`."""
    if event == "call" and frame.f_code.co_filename.startswith(PACKAGE):
        entered.append((frame.f_code.co_filename, frame.f_code.co_qualname))


def count(title: str, run: Callable[[], object]) -> None:
    """Print what a run enters."""
    run()
    entered.clear()
    threading.setprofile(record)
    sys.setprofile(record)
    try:
        run()
    finally:
        sys.setprofile(None)
        threading.setprofile(None)
    files = [file for file, _ in entered]
    changes = sum(one != other for one, other in pairwise(files))
    functions = {call for call in entered if not call[1].endswith(">")}
    print(
        f"{title:12} {len(entered):5} calls  {len(functions):4} functions  "
        f"{len(set(files)):3} files  {changes:4} changes of file"
    )


def cases() -> dict[str, Callable[[], object]]:
    """Return the runs by name."""
    model = ScriptedChat(max_retries=0)
    vanilla = build_graph(model, settings=Settings(method="vanilla"))
    default = build_graph(model)
    stepwise = build_graph(model, settings=Settings(execution="stepwise", plan_from=1))
    agent = create_agent(model, middleware=[TokenBudgetMiddleware(Budget(100_000))])
    return {
        "vanilla": lambda: vanilla.invoke(dict(QUESTION)),
        "default": lambda: default.invoke(dict(QUESTION)),
        "stepwise": lambda: stepwise.invoke(dict(QUESTION)),
        "middleware": lambda: agent.invoke({"messages": [("user", "hi")]}),
    }


def main() -> None:
    """Count the cases that are named, else all."""
    runs = cases()
    for name in sys.argv[1:] or runs:
        count(name, runs[name])


if __name__ == "__main__":
    main()
