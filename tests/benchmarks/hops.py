"""Count the files that one question enters, and how often its calls change file.

    python tests/benchmarks/hops.py

It exits with 1 where a path is longer than the limits below.
"""

import sys
import threading
from collections.abc import Callable
from functools import partial
from itertools import pairwise
from pathlib import Path
from types import FrameType
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[2]))
from langchain.agents import create_agent

from pb_graph import Budget, Settings, TokenBudgetMiddleware, build_graph
from tests.support.chat_model import ScriptedChat

PACKAGE = str(Path(__file__).parents[2] / "pb_graph")
LIMITS = {"vanilla": (15, 50), "middleware": (8, None)}
"""The most files, and the most changes of file."""


def files_entered(run: Callable[[], object]) -> list[str]:
    """Return the file of each call into the package, in order."""
    entered: list[str] = []

    def note(frame: FrameType, event: str, _: object) -> None:
        if event == "call" and frame.f_code.co_filename.startswith(PACKAGE):
            entered.append(frame.f_code.co_filename)

    run()  # imports everything
    threading.setprofile(note)
    sys.setprofile(note)
    try:
        run()
    finally:
        sys.setprofile(None)
        threading.setprofile(None)
    return entered


def main() -> int:
    model = ScriptedChat(max_retries=0)
    question = {"question": "Why is the sky blue?"}
    all_settings = {
        "vanilla": Settings(method="vanilla"),
        "default": Settings(),
        "stepwise": Settings(execution="stepwise", plan_from=1),
    }
    runs: dict[str, Callable[[], object]] = {}
    for name, settings in all_settings.items():
        graph = build_graph(model, settings=settings)
        runs[name] = partial(graph.invoke, question)
    agent: Any = create_agent(model, middleware=[TokenBudgetMiddleware(Budget(100_000))])
    runs["middleware"] = partial(agent.invoke, {"messages": [("user", "Hello")]})
    is_longer = False
    for name, run in runs.items():
        entered = files_entered(run)
        files = len(set(entered))
        changes = sum(one != other for one, other in pairwise(entered))
        print(f"{name}: {len(entered)} calls, {files} files, {changes} changes of file")
        most_files, most_changes = LIMITS.get(name, (None, None))
        is_longer |= bool(most_files and files > most_files)
        is_longer |= bool(most_changes and changes > most_changes)
    return int(is_longer)


if __name__ == "__main__":
    sys.exit(main())
