"""What is loaded when: importing the package costs next to nothing, a provider only its user."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

import pb_graph

ROOT = Path(__file__).parent.parent
HEAVY = ("langgraph", "langchain", "langchain_core", "langchain_openai", "openai", "dspy", "numpy")

LOADED = """
import sys
print(*(name for name in {names!r} if name in sys.modules))
"""
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


def loaded_by(*lines: str) -> set[str]:
    """Heavy modules that a fresh interpreter has loaded after these lines."""
    done = subprocess.run(  # noqa: S603 -- our own code
        [sys.executable, "-c", "\n".join([*lines, LOADED.format(names=HEAVY)])],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
    )
    return set(done.stdout.split())


def test_the_package_and_its_settings_load_nothing_heavy() -> None:
    lines = ("import pb_graph.budget", "from pb_graph import Artefact, Context, NoAnswerError")
    assert loaded_by(*lines, "from pb_graph import Settings") == set()


def test_a_graph_is_built_without_dspy_or_a_provider() -> None:
    lines = ("from pb_graph import build_graph", FAKE, "build_graph(model)")
    assert loaded_by(*lines) <= {"langgraph", "langchain_core"}


def test_a_run_that_neither_plans_nor_estimates_never_loads_dspy() -> None:
    lines = (
        "from pb_graph import build_graph, Settings",
        FAKE,
        "graph = build_graph(model, settings=Settings(method='vanilla'))",
        "assert graph.invoke({'question': 'How many?'})['answer'] == '42'",
    )
    assert "dspy" not in loaded_by(*lines)


def test_every_public_name_is_there() -> None:
    for name in pb_graph.__all__:
        assert getattr(pb_graph, name).__module__.startswith("pb_graph")
    assert dir(pb_graph) == pb_graph.__all__ == sorted(pb_graph.__all__)


def test_an_unknown_name_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="no attribute 'solve_everything'"):
        _ = pb_graph.solve_everything


def test_in_an_event_loop_dspy_is_loaded_in_a_thread() -> None:
    """It takes a second, for which the loop would stand still."""
    done = subprocess.run(  # noqa: S603 -- our own code
        [sys.executable, "-c", ASKS_A_PLANNED_QUESTION],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout.split() == ["dspy", "False"]
