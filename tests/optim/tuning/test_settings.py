"""The settings search: what it begins with, what it finds, what it gives up, and how it resumes."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from optim.datasets import Question
from optim.e3 import ReferencePoint
from optim.records import Record
from optim.tuning.evaluator import OutageError, SearchEndedError
from optim.tuning.optimizers import OptimizerTask
from optim.tuning.options import OPTIMIZERS, TuneOptions
from optim.tuning.program import Candidate
from optim.tuning.search import Trial
from optim.tuning.settings import DIMENSIONS, REFERENCES, halving
from pb_graph.budget.allocation import LevelTable
from pb_graph.settings import Settings
from tests.optim.reporting.samples import answered
from tests.support.chat_model import Call, Said, ScriptedChat
from tests.support.tuning_world import DEV as WORDS
from tests.support.tuning_world import asked_in, generate, luck, run

DEV = generate(40, "settings")
START = Settings(
    method="plan_and_budget",
    plan_from=1,
    style="prose",
    planning="two_call",
    execution="stepwise",
    schedule="cosine",
    enforcement="force",
    budget=LevelTable(),
)
World = Callable[[Settings], tuple[float, float]]
"""Chance of a right answer, and tokens of an answer, under settings."""


def hilly(settings: Settings) -> tuple[float, float]:
    """Best in a single pass, planned in one call, with hard caps."""
    if not settings.has_plan or settings.plan_from is None:
        return 0.4, 700
    tokens = 500.0
    tokens *= 0.6 if settings.execution == "single_pass" else 1
    tokens *= 0.8 if settings.planning == "fused" else 1
    tokens *= 1 if settings.enforcement == "force" else 1.4
    tokens *= 0.9 if settings.reserve == 0 else 1
    return 0.72 - 0.1 * (settings.schedule == "uniform"), tokens


@dataclass
class FakeBench:
    """Answers as the world has it; remembers what was asked."""

    world: World
    answers: int = 10**9
    refused: Callable[[Settings], bool] = lambda _: False
    limit: int = 10**6
    options: TuneOptions = field(default_factory=TuneOptions)
    prompt_price: float = 0.0
    told: dict[Candidate, list[Record]] = field(default_factory=dict)
    paid: dict[tuple[str, str], Any] = field(default_factory=dict)
    asked: list[tuple[str, str]] = field(default_factory=list)
    met: Counter[Candidate] = field(default_factory=Counter)

    def add(self, candidate: Candidate, records: list[Record]) -> None:
        self.told[candidate] = records

    def measure(self, candidate: Candidate, questions: Sequence[Question]) -> list[Any]:
        return [self._one(candidate, question) for question in questions]

    def _one(self, candidate: Candidate, question: Question) -> Any:  # noqa: ANN401
        key = (candidate.identity, question.id)
        if question is DEV[0] and self.refused(candidate.settings):
            raise OutageError(question, "failed", "HTTP 400.")
        self.asked.append(key)
        if key not in self.paid:
            if len(self.paid) == self.answers:
                raise SearchEndedError
            accuracy, tokens = self.world(candidate.settings)
            spent = round(tokens * (0.9 + 0.2 * luck(question)))
            right = float(luck(question) < accuracy)
            self.paid[key] = answered(int(question.id[-1]), spent, right, level=question.level or 1)
            self.paid[key] = replace(self.paid[key], question=question.id)
            self.met[candidate] += 1
        return self.paid[key]


def task(bench: FakeBench, answers: int = 10**6) -> OptimizerTask:
    bench.limit = answers
    return OptimizerTask(
        evaluator=bench,  # type: ignore[arg-type]
        incumbent=Candidate(settings=START),
        reference=ReferencePoint(50, 500),
        train=DEV,
        dev=DEV,
        predictor="decompose",
        reflector=None,
    )


def test_forty_questions_and_four_hundred_answers_vary_everything() -> None:
    bench = FakeBench(hilly)
    halving(task(bench, answers=360))
    tried = [candidate.settings for candidate in bench.met]
    planned = [one for one in tried if one.has_plan]
    assert {one.method for one in tried} == {"plan_and_budget", *REFERENCES}
    assert len({one.budget_for(1) for one in planned}) > 2
    for name in DIMENSIONS:
        assert len({str(getattr(one, name)) for one in planned}) > 1
    assert None in {one.plan_from for one in planned}


def test_one_run_without_a_cap_tells_every_cap(tmp_path: Path) -> None:
    """Its right answers are short, so a cap has the same accuracy at fewer tokens."""

    def solve(call: Call) -> Said:
        question = asked_in(call)
        is_right = luck(question) < 0.7
        return "so " * (60 if is_right else 600) + (question.targets[0] if is_right else "wrong")

    start = Candidate(settings=Settings(plan_from=None, style="prose", budget=2000))
    sets: dict[str, Any] = {"dev": WORDS[:12], "held_out": WORDS[12:20], "tuned": "settings"}
    model = ScriptedChat(solve=solve)
    found = run(tmp_path, OPTIMIZERS["halving"], model, start=start, answers=42, **sets)
    capped = found.candidate.settings
    assert (capped.budget, capped.reserve, found.verdict.verdict) == (70, 0, "better")
    assert sum(call.cap == 70 for call in model.calls) == 8  # on held-out questions only
    best = next(trial for trial in found.trials if trial.candidate == found.candidate)
    _, asked = found.verdict.held_out
    assert max(best.costs) == max(asked.costs) == 70  # read off, and then truly asked


def test_it_finds_better_settings_and_gives_up_worse_ones_early() -> None:
    bench = FakeBench(hilly)
    found = halving(task(bench, answers=1000))
    assert {one.settings.method: n for one, n in bench.met.items()}["vanilla"] < len(DEV)
    start, *trials = (
        Trial(one, bench.measure(one, DEV)).e3 for one in (Candidate(settings=START), *found)
    )
    assert max(trials) > 2 * start


def test_prompts_and_examples_of_the_original_stay() -> None:
    shown = [{"problem": "6 * 7?", "solution": "42"}]
    tuned = Candidate(
        settings=START, instructions={"decompose": "Be brief."}, examples={"solve": shown}
    )
    bench = FakeBench(hilly)
    halving(replace(task(bench, answers=300), incumbent=tuned))
    assert {one.text("decompose") for one in bench.met} == {"Be brief."}
    assert all(one.examples == tuned.examples for one in bench.met)


def test_a_question_that_a_server_refuses_under_some_settings_ends_only_those() -> None:
    bench = FakeBench(hilly, refused=lambda one: one.reserve == 0)
    found = halving(task(bench, answers=400))
    assert found
    assert 0 not in {one.settings.reserve for one in found}
    assert not bench.told  # the run without a cap ends by itself, too


def test_the_same_seed_goes_the_same_way_within_its_answers() -> None:
    killed = FakeBench(hilly, answers=200)
    assert halving(task(killed, answers=400)) == [*killed.told]
    again, fresh = FakeBench(hilly, paid=killed.paid), FakeBench(hilly)
    assert halving(task(again, answers=400)) == halving(task(fresh, answers=400))
    assert again.asked == fresh.asked
    assert 250 < fresh.met.total() <= 360  # the original has answered the other 40


def test_better_settings_of_the_graph_are_found_and_adopted(tmp_path: Path) -> None:
    """A plan is needed, and one call is enough."""

    def needs_a_plan(call: Call) -> Said:
        text = "\n".join(str(message.text) for message in call.messages)
        question = next(one for one in DEV if one.question in text)
        return "so " * 60 + (question.targets[0] if "What follows?" in text else "wrong")

    start = Candidate(settings=START)
    sets: dict[str, Any] = {"dev": DEV[:18], "held_out": None, "tuned": "settings"}
    model = ScriptedChat(solve=needs_a_plan)
    found = run(tmp_path, OPTIMIZERS["halving"], model, start=start, answers=200, **sets)
    assert found.candidate.settings.execution == "single_pass"
