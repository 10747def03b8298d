"""A world to tune in: how often the solver is right, and how much it writes, is up to the plan.

The planner writes a style into its plan that depends on a word in its instruction; the solver
follows the style. A question that one style solves is solved by every style that is right more
often, as in life.
"""

from __future__ import annotations

import hashlib
import itertools
import json
import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import dspy

from optim.datasets import Question, load
from optim.datasets.mathematics import parse_arithmetic
from optim.scorers import Score
from optim.tuning import GraphProgram
from optim.tuning.evaluator import Evaluator, Reflector
from optim.tuning.evaluator import language_model as model_for_dspy
from optim.tuning.options import Optimizer, TuneOptions
from optim.tuning.program import Candidate, predictor_of
from optim.tuning.run import split_of
from optim.tuning.search import Search
from pb_graph import Settings
from pb_graph.models.client import ChatClient
from pb_graph.models.options import CallOptions
from pb_graph.models.reply import BLOCKING, run_sync
from pb_graph.types import Purpose
from tests.support.chat_model import Call, Said, ScriptedChat, with_schema


def generate(count: int, split: str) -> list[Question]:
    """Make questions, the levels in turn. The first 30 of 60 are the 30 of another call."""
    made = []
    for index in range(count):
        level, place = index % 5 + 1, index // 5
        key = f"{split}-0-{level}-{place}"
        a, b = hashlib.sha256(key.encode()).digest()[:2]
        question = f"In draw {key}, Ada has {a} beads. She finds {b} more. How many are there now?"
        row = {"id": f"arithmetic-{key}", "question": question, "answer": a + b, "level": level}
        made.append(parse_arithmetic(row))
    return made


MINIMAL = "Be MINIMAL and ask only for what is needed."
THOROUGH = "Be THOROUGH: ask for everything, and twice."
PLAIN = "Plan the steps."
DEV = generate(60, "dev")
TRAIN = generate(30, "train")
HELD_OUT = generate(100, "held-out")
FEW, REST = DEV[:12], HELD_OUT[:6]


@dataclass(frozen=True)
class Style:
    """Chance of a right answer, and words of a usual answer; harder questions take more."""

    accuracy: float
    words: int

    def answer(self, question: Question) -> str:
        """What the solver writes."""
        words = round(self.words * (0.7 + 0.15 * ((question.level or 3) - 1)))
        right = luck(question) < self.accuracy
        return "so " * (words - 1) + (question.targets[0] if right else "wrong")


TRADE_OFF = {"minimal": Style(0.67, 430), "thorough": Style(0.84, 2590), "usual": Style(0.57, 922)}
"""E³ of about 10.2, 2.7 and 3.5."""
NOTHING_BETTER = TRADE_OFF | {"minimal": Style(0.20, 430)}

_ASKED = re.compile(r"<question>\n(.*?)\n</question>", re.DOTALL)
_SETS = (DEV, TRAIN, HELD_OUT, load("arithmetic"))  # of which a command draws its own
_BY_TEXT = {question.question: question for questions in _SETS for question in questions}


class Exact:
    """Scores 1 when the output ends with the target, in a box or not."""

    def score(self, output: str, question: Any) -> Score:  # noqa: ANN401 -- the scorers' protocol
        said = output.removesuffix("}").rpartition("\\boxed{")[2]
        right = said.split()[-1:] == [question.targets[0]]
        return Score(float(right), None, "")


def world(styles: dict[str, Style] | None = None, **fields: Any) -> ScriptedChat:  # noqa: ANN401
    """Planner and solver."""
    chosen = styles or TRADE_OFF

    def solve(call: Call) -> Said:
        return chosen.get(style_in(call), chosen["usual"]).answer(asked_in(call))

    return ScriptedChat(planner=_planner, solve=solve, **fields)


def style_in(call: Call) -> str:
    """The name of the style that a call of the solver is to follow."""
    return next((name for name in TRADE_OFF if f"{name} plan" in str(call.messages)), "usual")


def asked_in(call: Call) -> Question:
    """The question that a call of the solver is about."""
    text = "\n".join(str(message.text) for message in call.messages)
    found = _ASKED.findall(text)  # examples come first
    assert found, text
    return _BY_TEXT[found[-1]]


def says(*replies: Said) -> ScriptedChat:
    """A reflection model that says these in turn, over and over, in the form that DSPy asks for."""
    turns = itertools.cycle(replies)
    return ScriptedChat(solve=lambda call: _in_form(call, next(turns)))


def language_model(*replies: Said) -> dspy.LM:
    """The same as DSPy's optimizers want it."""
    client = ChatClient(says(*replies), with_schema)
    options = CallOptions(2048, 60.0, purpose=Purpose("reflect"))
    return model_for_dspy(lambda asked: run_sync(client.call(asked, options, BLOCKING)))


def _in_form(call: Call, said: Said) -> Said:
    if not said or not isinstance(said, str):
        return said
    if fields := re.findall(r"`\[\[ ## (\w+) ## \]\]`", call.ask):
        return "\n\n".join(f"[[ ## {name} ## ]]\n{said}" for name in fields)
    *_, last = call.ask.split("\n")
    fields = re.findall(r"`(\w+)`", last) if "JSON object" in last else []
    return json.dumps(dict.fromkeys(fields, said)) if fields else said


def examples(questions: Sequence[Question]) -> list[dspy.Example]:
    """What a notebook would hold."""
    return [
        dspy.Example(question=q.question, answer=q.targets[0], level=q.level).with_inputs(
            "question", "level"
        )
        for q in questions
    ]


def program_of(model: ScriptedChat | None = None, **options: Any) -> GraphProgram:  # noqa: ANN401
    """The graph in this world: a plan, then one call."""
    chosen: dict[str, Any] = {"settings": {"method": "planned_vanilla", "plan_from": 1}} | options
    return GraphProgram(model or world(), cap_policy=with_schema, **chosen)


def original(**settings: Any) -> Candidate:  # noqa: ANN401
    """The package's own instructions, in one call after the plan."""
    return Candidate(
        settings=Settings(**({"method": "planned_vanilla", "plan_from": 1} | settings))
    )


def bench_in(
    folder: Path,
    model: ScriptedChat | None = None,
    *,
    scorer: Any = None,  # noqa: ANN401
    answers: int = 10**6,
    **options: Any,  # noqa: ANN401
) -> Evaluator:
    """A bench for this world."""
    chosen = TuneOptions(run_dir=folder, budget=answers, **options)
    return Evaluator(program_of(model), scorer or Exact(), chosen)


def trying(*instructions: str) -> Optimizer:
    """An optimizer that proposes these."""
    return Optimizer("candidates", lambda task: task.candidates(instructions))


def run(  # noqa: PLR0913 -- all but three by name
    folder: Path,
    optimizer: Optimizer,
    model: ScriptedChat | None = None,
    *,
    start: Candidate | None = None,
    tuned: str = "decompose",
    reflection: ScriptedChat | None = None,
    train: Sequence[Question] = (),
    dev: Sequence[Question] = FEW,
    held_out: Sequence[Question] | None = REST,
    answers: int = 300,
    callback: Callable[[str], None] = lambda _: None,
    **options: Any,  # noqa: ANN401
) -> Search:
    """Search on a few questions."""
    start = start or original()
    with bench_in(folder, model, answers=answers, tuned=tuned, **options) as bench:
        split = split_of(train, dev, held_out, bench.options.seed)
        predictor = predictor_of(start.settings, tuned)
        reflector = Reflector(reflection, bench) if reflection else None
        start = replace(start, estimate_level=bench.options.estimate_level)
        return Search(bench, split, optimizer, predictor, reflector, callback).run(start)


def texts(candidates: Iterable[Any]) -> list[str]:
    """The instructions for decomposition of candidates, or of trials."""
    return [getattr(one, "candidate", one).text("decompose") for one in candidates]


def _planner(call: Call) -> str:
    told = str(call.messages[0].text)
    style = "minimal" if "MINIMAL" in told else "thorough" if "THOROUGH" in told else "usual"
    problem = str(call.messages[-1].text).rpartition("Problem:\n")[2]
    thing = max(re.findall(r"[a-z]+", problem.partition("\n")[0]), key=len)  # of the task
    return json.dumps({"steps": [f"What {thing} follow a {style} plan?", "What is the answer?"]})


def luck(question: Question) -> float:
    """Between 0 and 1, the same on every machine. A style is right where it is below its accuracy.

    Spread evenly in each set of this world, so that an accuracy is met to the question.
    """
    return _LUCK.get(question.id, int.from_bytes(_lot(question)[:8]) / 2**64)


def _lot(question: Question) -> bytes:
    return hashlib.sha256(question.id.encode()).digest()


_LUCK = {
    question.id: (rank + 0.5) / len(questions)
    for questions in _SETS
    for rank, question in enumerate(sorted(questions, key=_lot))
}
