"""What `tests/golden` was made with: a server that knows the answers, and the command line."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from unittest.mock import patch

from typer.testing import CliRunner

from optim import cli
from optim.datasets import Question, load
from optim.records import Record
from tests.support.fault_server import Fault, FaultServer, Request

FOLDER = Path(__file__).parents[1] / "golden"
LOGS = FOLDER / "logs"
PROGRAM = FOLDER / "program.json"

MODEL = "openai:scripted"
FRUGAL = "You plan how to solve a problem; you never solve it.\n\nUse two FRUGAL sub-questions."
EVAL = (
    "eval", "--dataset", "arithmetic", "--data", str(FOLDER / "questions.jsonl"), "--model", MODEL,
    "--methods", "global_budget,cosine", "--set", "cutoff=300", "--json",
)  # fmt: skip
_QUESTIONS = load("arithmetic")[:30]
_PLAN = ("What is given?", "What follows?")


def pb_optim(*arguments: str) -> str:
    """Run a command to its end, and give what it printed."""
    done = CliRunner().invoke(cli.app, list(arguments))
    assert done.exit_code == 0, done.output
    return done.stdout


@contextmanager
def served() -> Iterator[None]:
    """Let ``openai:…`` be the server below."""
    with GoldenServer(_fault, plan=_PLAN) as server:
        told = {"OPENAI_API_KEY": "sk-test", "OPENAI_BASE_URL": server.url}
        with patch.dict(os.environ, told):
            yield


class GoldenServer(FaultServer):
    """Plans as usual; right on the easier questions, and with a plan shorter."""

    def _text(self, request: Request) -> str:
        if request.plans:
            return super()._text(request)
        number, question = _asked(request)
        level = question.level or 3
        if _planned(request):
            right, words = level <= 3, 4 * level
        else:
            right, words = level <= 4 or number % 2 == 0, 9 * level
        return "so " * words + rf"\boxed{{{question.targets[0] if right else -1}}}"


def _fault(request: Request) -> Fault | None:
    """One question cannot be asked, and one is thought about up to the cap without a word."""
    if request.plans:
        return None
    number, _ = _asked(request)
    if number == 3 and not _planned(request):
        return "context_too_long"
    return "empty_at_cap" if number == 7 and _planned(request) else None


def _planned(request: Request) -> bool:
    return _PLAN[0] in request.text


def _asked(request: Request) -> tuple[int, Question]:
    return next((i, q) for i, q in enumerate(_QUESTIONS) if q.question in request.text)


def essence(record: Record) -> dict[str, Any]:
    """What of a record has to be read from an old log as it was."""
    names = ("dataset", "method", "model", "planner", "question", "epoch", "level", "score")
    names += ("output", "target", "tokens", "solving_tokens", "question_text")
    return {name: getattr(record, name) for name in names} | {"failed": record.error is not None}
