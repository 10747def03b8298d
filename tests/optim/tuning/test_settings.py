"""The settings search: what it begins with, what it finds, what it gives up, and how it resumes."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from optim.datasets import Question
from optim.e3 import ReferencePoint
from optim.tuning.evaluator import OutageError, SearchEndedError
from optim.tuning.optimizers import OptimizerTask
from optim.tuning.options import OPTIMIZERS, TuneOptions
from optim.tuning.program import Candidate
from optim.tuning.settings import DIMENSIONS, REFERENCES, _scale_budget, _settings_around, halving
from optim.tuning.verdict import Trial
from pb_graph.budget.rules import LevelTable, PerLevel
from pb_graph.settings import Settings
from tests.support.chat_model import Call, Said, ScriptedChat
from tests.support.tuning_world import generate, luck, run

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
FIRST_LEVEL = {round(200 * 2 ** (step / 2)): step for step in range(-4, 5)}

World = Callable[[Settings], tuple[float, float]]
"""Chance of a right answer, and tokens of an answer, under settings."""


def hilly(settings: Settings) -> tuple[float, float]:
    """Best in a single pass, at half the budget, planned in one call, with hard caps."""
    if not settings.has_plan:
        return 0.4, 700
    step = FIRST_LEVEL[settings.budget_for(1)]
    accuracy = 0.72 - 0.03 * abs(step + 2) - 0.1 * (settings.schedule == "uniform")
    tokens = 500 * 2 ** (step / 4)
    tokens *= 0.6 if settings.execution == "single_pass" else 1
    tokens *= 0.8 if settings.planning == "fused" else 1
    tokens *= 1 if settings.is_enforced else 1.4
    tokens *= 0.9 if settings.reserve == 0 else 1
    return accuracy, tokens


@dataclass
class FakeBench:
    """Answers as the world has it; remembers what was asked."""

    world: World
    answers: int = 10**9
    refused: Callable[[Settings], bool] = lambda _: False
    limit: int = 10**6
    options: TuneOptions = field(default_factory=TuneOptions)
    paid: dict[tuple[str, str], Any] = field(default_factory=dict)
    asked: list[tuple[str, str]] = field(default_factory=list)
    met: Counter[Candidate] = field(default_factory=Counter)

    def measure(self, candidate: Candidate, questions: Sequence[Question]) -> list[Any]:
        return [self._one(candidate, question) for question in questions]

    def _one(self, candidate: Candidate, question: Question) -> Any:  # noqa: ANN401
        key = (candidate.identity, question.id)
        if question is DEV[0] and self.refused(candidate.settings):
            raise OutageError
        self.asked.append(key)
        if key not in self.paid:
            if len(self.paid) == self.answers:
                raise SearchEndedError
            accuracy, tokens = self.world(candidate.settings)
            spent = round(tokens * (0.9 + 0.2 * luck(question)))
            right = float(luck(question) < accuracy)
            self.paid[key] = SimpleNamespace(question=question.id, score=right, tokens=spent)
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
    assert len({one.budget_for(1) for one in planned}) > 3
    for name in DIMENSIONS.keys() - {"budget"}:
        assert len({str(getattr(one, name)) for one in planned}) > 1
    assert None in {one.plan_from for one in planned}


def test_it_begins_with_the_methods_without_a_plan_and_never_with_the_original() -> None:
    entered = _settings_around(START, LevelTable(), 10, seed=0)
    assert [settings.method for settings in entered[:2]] == list(REFERENCES)
    assert START not in entered
    assert len({settings.model_dump_json() for settings in entered}) == 10


@pytest.mark.parametrize(
    ("rule", "half"),
    [
        (LevelTable(), LevelTable(tokens={1: 100, 2: 125, 3: 175, 4: 225, 5: 300})),
        (PerLevel(initial=100, per_level=0), LevelTable(tokens=dict.fromkeys(range(1, 6), 50))),
        (1, 1),
    ],
)
def test_budgets_keep_their_proportions(rule: Any, half: Any) -> None:  # noqa: ANN401
    assert _scale_budget(rule, 0.5) == half


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
    tuned = Candidate({"decompose": "Be brief."}, START, {"solve": shown})
    bench = FakeBench(hilly)
    halving(replace(task(bench, answers=300), incumbent=tuned))
    assert {one.text("decompose") for one in bench.met} == {"Be brief."}
    assert all(one.examples == tuned.examples for one in bench.met)


def test_a_question_that_a_server_refuses_under_some_settings_ends_only_those() -> None:
    bench = FakeBench(hilly, refused=lambda one: one.reserve == 0)
    found = halving(task(bench, answers=400))
    assert found
    assert 0 not in {one.settings.reserve for one in found}


def test_the_same_seed_goes_the_same_way_within_its_answers() -> None:
    killed = FakeBench(hilly, answers=200)
    assert halving(task(killed, answers=400)) == []
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
