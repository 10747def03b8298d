"""What is loaded when: importing the package costs next to nothing, a provider only its user."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pb_graph

ROOT = Path(__file__).parent.parent
HEAVY = ("langgraph", "langchain", "langchain_core", "langchain_openai", "openai", "dspy", "numpy")

FAKE = (
    "from langchain_core.language_models import FakeListChatModel as F; model = F(responses=['42'])"
)

ASKS_A_PLANNED_QUESTION = f"""
import asyncio, importlib.abc, sys, threading
class Watch(importlib.abc.MetaPathFinder):
    def find_spec(self, name, path=None, target=None):
        if name == "dspy":
            print(name, threading.current_thread() is threading.main_thread())
sys.meta_path.insert(0, Watch())
{FAKE}
from pb_graph import build_graph
graph = build_graph(model, settings={{"schedule": "cosine"}})
asyncio.run(graph.ainvoke({{"question": "How many?"}}))
"""


STAGES = {
    "settings": """
import pb_graph.budget
from pb_graph import PlannerProgram, Context, NoAnswerError, Settings
""",
    "graph": f"""
{FAKE}
from pb_graph import build_graph
build_graph(model)
""",
    "run": """
graph = build_graph(model, settings=Settings(method='vanilla'))
assert graph.invoke({'question': 'How many?'})['answer'] == '42'
""",
}


def output(script: str) -> str:
    return subprocess.run(  # noqa: S603 -- our own code
        [sys.executable, "-c", script], cwd=ROOT, capture_output=True, text=True, check=True
    ).stdout


def test_each_stage_loads_no_more_than_it_needs() -> None:
    told = f"\nprint(*(name for name in {HEAVY!r} if name in sys.modules))\n"
    lines = output("import sys" + "".join(code + told for code in STAGES.values())).split("\n")
    loaded = {stage: set(line.split()) for stage, line in zip(STAGES, lines, strict=False)}
    assert loaded["settings"] == set()
    assert loaded["graph"] <= {"langgraph", "langchain_core"}
    assert "langgraph" in loaded["run"]
    assert "dspy" not in loaded["run"]  # it neither plans nor estimates


def test_every_public_name_is_there() -> None:
    for name in pb_graph.__all__:
        assert getattr(pb_graph, name).__module__.startswith("pb_graph")
    assert dir(pb_graph) == pb_graph.__all__ == sorted(pb_graph.__all__)


def test_in_an_event_loop_dspy_is_loaded_in_a_thread() -> None:
    """It takes a second, for which the loop would stand still."""
    assert output(ASKS_A_PLANNED_QUESTION).split() == ["dspy", "False"]


def test_the_distributions_own_name_gives_the_same_names_and_loads_no_inspect() -> None:
    script = """
import sys
sys.modules["inspect_ai"] = None  # as after a core install
import pb_graph, plan_and_budget
print(dir(plan_and_budget) == dir(pb_graph), "langgraph" in sys.modules)
from plan_and_budget import Settings, build_graph
print(build_graph is pb_graph.build_graph, plan_and_budget.__version__ == pb_graph.__version__)
"""
    assert output(script).split() == ["True", "False", "True", "True"]
