"""What `tests/golden` was made with: a server that knows the answers, and the command line."""

from __future__ import annotations

import json
import os
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from unittest.mock import patch

from typer.testing import CliRunner

from optim import cli
from optim.datasets import Question, load
from optim.records import Record
from tests.support.fault_server import Fault, FaultServer, Request
from tests.support.questions import generate

FOLDER = Path(__file__).parents[1] / "golden"
LOGS = FOLDER / "logs"
BAM, PROGRAM = FOLDER / "bam.json", FOLDER / "program.json"

MODEL = "openai:scripted"
FRUGAL = "You plan how to solve a problem; you never solve it.\n\nUse two FRUGAL sub-questions."
EVAL = (
    "eval", "--dataset", "arithmetic", "--data", str(FOLDER / "questions.jsonl"), "--model", MODEL,
    "--methods", "global_budget,cosine", "--set", "cutoff=300", "--json",
)  # fmt: skip
_QUESTIONS = [
    *load("arithmetic")[:30],
    *(question for split in ("dev", "train") for question in generate(60, split=split)),
]
_PLAN = ("What is given?", "What follows?")
Answer = Callable[[Request], str]


def pb_optim(*arguments: str) -> str:
    """Run a command to its end, and give what it printed."""
    done = CliRunner().invoke(cli.app, list(arguments))
    assert done.exit_code == 0, done.output
    return done.stdout


@contextmanager
def served(answer: Answer | None = None) -> Iterator[None]:
    """Let ``openai:…`` be the server below."""
    with GoldenServer(answer or longer_on_the_harder) as server:
        told = {"OPENAI_API_KEY": "sk-test", "OPENAI_BASE_URL": server.url}
        with patch.dict(os.environ, told):
            yield


class GoldenServer(FaultServer):
    """Plans as usual, and answers every question in its own way."""

    def __init__(self, answer: Answer) -> None:
        super().__init__(_fault, plan=_PLAN)
        self._answer = answer

    def _text(self, request: Request) -> str:
        if not request.plans:
            return self._answer(request)
        plan = super()._text(request)
        return plan.replace("follows", "follows frugally") if "FRUGAL" in request.text else plan


def longer_on_the_harder(request: Request) -> str:
    """Right on the easier ones; with a plan shorter, and right a little less often."""
    number, question = _asked(request)
    level = question.level or 3
    if _planned(request):
        right, words = level <= 3, (1 if "frugally" in request.text else 4) * level
    else:
        right, words = level <= 4 or number % 2 == 0, 9 * level
    return _said(question, right=right, words=words)


def _said(question: Question, *, right: bool, words: int) -> str:
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


def make_program() -> None:
    """Tune in a scripted world, and keep the program with its record as `PROGRAM`."""
    from optim.tuning import GraphProgram, tune  # noqa: PLC0415 -- only when it is made
    from tests.support.chat_model import with_schema  # noqa: PLC0415
    from tests.support.tuning_world import DEV, HELD_OUT, Exact, world  # noqa: PLC0415

    model = world()
    plans = {True: "minimal", False: "usual"}

    def planner(call: Any) -> str:  # noqa: ANN401
        style = plans["FRUGAL" in str(call.messages[0].text)]
        steps = [f"What follows from a {style} plan?", "What is the answer?"]
        return json.dumps({"steps": steps})

    model.planner = planner
    program = GraphProgram(model, settings={"method": "planned_vanilla"}, cap_policy=with_schema)
    with tempfile.TemporaryDirectory() as folder:
        tune(
            program,
            [],
            DEV,
            held_out=HELD_OUT,
            scorer=Exact(),
            about={"dataset": "arithmetic"},
            optimizer="candidates",
            candidates=[FRUGAL, "Plan the steps."],
            run_dir=folder,
        ).save(PROGRAM)
    file = json.loads(PROGRAM.read_text(encoding="utf-8"))
    few = {"method": "planned_vanilla"}  # so that a new setting does not outdate the file
    file["settings"], file["tuning"]["settings_before"] = few, few
    PROGRAM.write_text(json.dumps(file, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
