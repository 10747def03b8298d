"""Evaluations in tests: word problems that need no network, and a model that can solve them."""

from __future__ import annotations

import gc
import sqlite3
from collections.abc import Iterable, Iterator
from contextlib import closing
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from inspect_ai._display.core import active
from inspect_ai._display.log.display import LogDisplay
from rich.console import Console

from optim.bench.store import REPLIES
from optim.datasets import load
from optim.evaluation import Evaluation, Experiment, evaluate
from optim.records import Record
from optim.reporting.tables import answers, figures, to_rows
from tests.support.chat_model import Call, HTTPError, Said, ScriptedChat, with_schema
from tests.support.tuning_world import asked_in

tolerates_inspect = [
    # It leaves streams of a finished run to the garbage collector; see `leaks_collected`.
    pytest.mark.filterwarnings("ignore:Unclosed <MemoryObject:ResourceWarning"),
    # It calls tenacity in a way that tenacity's newest version deprecates.
    pytest.mark.filterwarnings("ignore:The 'initial' parameter is deprecated:DeprecationWarning"),
]

# Inspect draws the tables that it is told not to show: a quarter of a small evaluation's time.
active._active_display = LogDisplay()

QUESTIONS = load("arithmetic")


@pytest.fixture(autouse=True, scope="module")
def leaks_collected() -> Iterator[None]:
    """Collect what Inspect leaves, before a test that does not ignore its warnings would."""
    yield
    gc.collect()


def level_of(call: Call) -> int:
    """Return the level of the question that a solving call is about."""
    return asked_in(call).level or 0


def solves(call: Call) -> Said:
    """Answer rightly."""
    return rf"It is \boxed{{{asked_in(call).targets[0]}}}"


def solves_the_easy_ones(call: Call) -> Said:
    """Answer rightly up to level 3, with as many words more as the level."""
    answer = asked_in(call).targets[0] if level_of(call) <= 3 else "0"
    return "well " * level_of(call) + rf"\boxed{{{answer}}}"


def fails_on_the_hardest(call: Call) -> Said:
    """Fail at level 5."""
    return HTTPError(503) if level_of(call) == 5 else solves(call)


def experiment(model: ScriptedChat, log_dir: Path, **options: Any) -> Experiment:  # noqa: ANN401
    """Return an experiment on a question of each level."""
    chosen: dict[str, Any] = {"dataset": "arithmetic", "methods": "vanilla", "limit": 5} | options
    return Experiment(model=model, cap_policy=with_schema, log_dir=log_dir, **chosen)


def evaluated(model: ScriptedChat, log_dir: Path, **options: Any) -> Evaluation:  # noqa: ANN401
    """Run an experiment, and show nothing."""
    return evaluate(experiment(model, log_dir, **options), console=Console(quiet=True))


def paid_replies(folder: Path) -> list[tuple[str, int]]:
    """Return the keys and tokens of the replies in a folder's store, in order."""
    try:
        with closing(sqlite3.connect(f"file:{folder / REPLIES}?mode=ro", uri=True)) as store:
            return store.execute("SELECT key, tokens FROM replies ORDER BY rowid").fetchall()
    except sqlite3.OperationalError:  # it is not there yet
        return []


def contents(records: Iterable[Record]) -> list[tuple[Any, ...]]:
    """Return what has to be the same however often a run was interrupted."""
    return sorted(
        (r.method, r.question, r.epoch, str(r.score), r.tokens, r.output) for r in records
    )


def rows(records: Iterable[Record]) -> list[SimpleNamespace]:
    """Return the figures of answers as objects, for tests that look at single ones."""
    return [SimpleNamespace(**row) for row in to_rows(figures(answers(records)))]
