"""What is loaded when: importing the package costs next to nothing, a provider only its user."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pb_graph

HEAVY = ("langgraph", "langchain", "langchain_core", "langchain_openai", "openai", "dspy", "numpy")
STAGES = {
    "names": """
import sys
sys.modules["inspect_ai"] = None  # as after a core install
import pb_graph, plan_and_budget
assert dir(plan_and_budget) == dir(pb_graph)
assert plan_and_budget.__version__ == pb_graph.__version__
""",
    "settings": """
import pb_graph.budget
from pb_graph import PlannerProgram, Context, NoAnswerError
from plan_and_budget import Settings
assert Settings is pb_graph.Settings
""",
    "graph": """
from langchain_core.language_models import FakeListChatModel
from pb_graph import build_graph
model = FakeListChatModel(responses=["42"])
build_graph(model)
""",
    "run": """
graph = build_graph(model, settings=Settings(method="vanilla"))
assert graph.invoke({"question": "How many?"})["answer"] == "42"
""",
    "plan": """
import asyncio, importlib.abc, threading
threads = []
class Watch(importlib.abc.MetaPathFinder):
    def find_spec(self, name, path=None, target=None):
        if name == "dspy":
            threads.append(threading.current_thread())
sys.meta_path.insert(0, Watch())
graph = build_graph(model, settings={"schedule": "cosine"})
asyncio.run(graph.ainvoke({"question": "How many?"}))
# It takes a second, for which the event loop would stand still.
assert threads and threading.main_thread() not in threads
""",
}


def test_each_stage_loads_no_more_than_it_needs() -> None:
    told = f"\nprint(*(name for name in {HEAVY!r} if name in sys.modules))\n"
    done = subprocess.run(  # noqa: S603 -- our own code
        [sys.executable, "-c", "".join(code + told for code in STAGES.values())],
        cwd=Path(__file__).parent.parent,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    lines = done.stdout.splitlines()
    loaded = {stage: set(line.split()) for stage, line in zip(STAGES, lines, strict=True)}
    assert loaded["names"] == loaded["settings"] == set()
    assert loaded["graph"] <= {"langgraph", "langchain_core"}
    assert "langgraph" in loaded["run"]
    assert "dspy" not in loaded["run"]  # it neither plans nor estimates
    assert "dspy" in loaded["plan"]


def test_every_public_name_is_there() -> None:
    for name in pb_graph.__all__:
        assert getattr(pb_graph, name).__module__.startswith("pb_graph")
    assert dir(pb_graph) == pb_graph.__all__ == sorted(pb_graph.__all__)
