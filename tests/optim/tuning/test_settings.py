"""The settings search: what it begins with, what it finds, what it gives up, and how it resumes."""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pytest

from optim.datasets import Question
from optim.e3 import ReferencePoint
from optim.tuning.evaluator import BudgetSpentError, OutageError, Result
from optim.tuning.optimizers import OptimizerTask
from optim.tuning.options import SETTINGS_SEARCH
from optim.tuning.program import Candidate
from optim.tuning.settings import (
    DIMENSIONS,
    MOST,
    REFERENCES,
    design,
    first_rung,
    rungs_of,
    scale_budget,
    search_settings,
    settings_at,
)
from optim.tuning.verdict import Trial
from pb_graph.budget.rules import Fixed, LevelTable, PerLevel
from pb_graph.settings import Settings
from tests.support.chat_model import Call, Said, ScriptedChat
from tests.support.questions import generate
from tests.support.tuning_world import luck, run

DEV = generate(40, split="settings")
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
START_AS_IT_IS = Candidate(settings=START)
OWN = {name: 0 if name == "budget" else getattr(START, name) for name in DIMENSIONS}
FIRST_LEVEL = {round(200 * 2 ** (step / 2)): step for step in range(-4, 5)}

World = Callable[[Settings], tuple[float, float]]
"""Chance of a right answer, and tokens of an answer, under settings."""


def hilly(settings: Settings) -> tuple[float, float]:
    """Best in a single pass, at half the budget, planned in one call, with hard caps."""
    if not settings.has_plan:
        return 0.4, 700
    step = FIRST_LEVEL[settings.budget_rule.total(1)]
    accuracy = 0.72 - 0.03 * abs(step + 2) - 0.1 * (settings.schedule == "uniform")
    tokens = 500 * 2 ** (step / 4)
    tokens *= 0.6 if settings.execution == "single_pass" else 1
    tokens *= 0.8 if settings.planning == "fused" else 1
    tokens *= {"prompt": 1.4, "cap": 0.9, "force": 1}[settings.enforcement]
    return accuracy, tokens


@dataclass
class FakeBench:
    """Answers as the world has it; remembers what was asked."""

    world: World
    answers: int = 10**9
    refused: Callable[[Settings], bool] = lambda _: False
    refusal: None = None
    paid: dict[tuple[str, str], Result] = field(default_factory=dict)
    asked: list[tuple[str, str]] = field(default_factory=list)
    met: Counter[Candidate] = field(default_factory=Counter)

    def measure(self, candidate: Candidate, questions: Sequence[Question]) -> list[Result]:
        return [self._one(candidate, question) for question in questions]

    def _one(self, candidate: Candidate, question: Question) -> Result:
        key = (candidate.identity, question.id)
        if question is DEV[0] and self.refused(candidate.settings):
            raise OutageError
        self.asked.append(key)
        if key not in self.paid:
            if len(self.paid) == self.answers:
                raise BudgetSpentError
            accuracy, tokens = self.world(candidate.settings)
            spent = round(tokens * (0.9 + 0.2 * luck(question)))
            right = float(luck(question) < accuracy)
            self.paid[key] = Result(question.id, right, spent, None, None)  # type: ignore[arg-type]
            self.met[candidate] += 1
        return self.paid[key]


def task(bench: FakeBench, answers: int = 10**6, seed: int = 0) -> OptimizerTask:
    return OptimizerTask(
        evaluator=bench,  # type: ignore[arg-type]
        incumbent=Candidate(settings=START),
        reference=ReferencePoint(50, 500),
        train=DEV,
        dev=DEV,
        predictor="decompose",
        reflector=None,
        answers=answers,
        seed=seed,
    )


# What it begins with


@pytest.mark.parametrize("answers", [100, 400, 1000])
@pytest.mark.parametrize("questions", [8, 40, 67])
def test_a_plan_stays_within_its_answers(questions: int, answers: int) -> None:
    rungs = rungs_of(questions, answers)
    asked = [0, *(count for _, count in rungs)]
    paid = sum(kept * (count - past) for (kept, count), past in zip(rungs, asked, strict=False))
    assert rungs[0][0] == 1 or paid <= answers - questions
    assert rungs[0][0] == MOST - 1 or paid > 0.6 * (answers - questions)


@pytest.mark.parametrize("seed", range(3))
def test_forty_questions_and_four_hundred_answers_vary_everything(seed: int) -> None:
    bench = FakeBench(hilly)
    search_settings(task(bench, answers=360, seed=seed))
    tried = [candidate.settings for candidate in bench.met]
    planned = [one for one in tried if one.has_plan]
    assert {one.method for one in tried} == {"plan_and_budget", *REFERENCES}
    assert {one.budget_rule.total(1) for one in planned} > {100, 200, 400}
    for name in ("schedule", "execution", "planning", "enforcement", "prompt_unit"):
        assert {getattr(one, name) for one in planned} == set(DIMENSIONS[name])


def test_each_dimension_is_left_alone_in_half_of_the_cases() -> None:
    points = list(itertools.islice(design(OWN, 12, seed=1), 12))
    assert {sum(point[name] == OWN[name] for point in points) for name in DIMENSIONS} == {6}


def test_it_begins_with_the_original_and_the_methods_without_a_plan() -> None:
    entered = first_rung(START, 10, seed=0)
    assert entered[0] == START == settings_at(START, OWN)
    assert [settings.method for settings in entered[1:3]] == list(REFERENCES)
    assert len({settings.model_dump_json() for settings in entered}) == 10
    plain = first_rung(Settings(method="vanilla", cutoff=700), 5, seed=0)
    assert [one.method for one in plain][:3] == ["vanilla", "global_budget", "plan_and_budget"]
    assert {one.cutoff for one in plain} == {700}


@pytest.mark.parametrize(
    ("rule", "half"),
    [
        (LevelTable(), LevelTable(tokens={1: 100, 2: 125, 3: 175, 4: 225, 5: 300})),
        (PerLevel(initial=0, per_level=30), PerLevel(initial=0, per_level=15)),
        (Fixed(tokens=1), Fixed(tokens=1)),
    ],
)
def test_budgets_keep_their_proportions(rule: Any, half: Any) -> None:  # noqa: ANN401
    assert scale_budget(rule, 0.5) == half


# What it finds


@pytest.mark.parametrize("seed", [0, 1])
def test_it_finds_better_settings_and_ranks_them(seed: int) -> None:
    bench = FakeBench(hilly)
    found = search_settings(task(bench, answers=1000, seed=seed))
    start, *trials = (Trial(one, bench.measure(one, DEV)).e3 for one in (START_AS_IT_IS, *found))
    assert trials == sorted(trials, reverse=True)
    assert trials[0] > 2 * start
    assert found[0].settings.execution == "single_pass"


def test_a_method_without_a_plan_may_win_and_is_given_up_early_where_it_is_worse() -> None:
    def easy(settings: Settings) -> tuple[float, float]:
        return 0.9, 500 if settings.has_plan else 200 if settings.has_budget else 100

    assert search_settings(task(FakeBench(easy), answers=400))[0].settings.method == "vanilla"
    bench = FakeBench(hilly)
    search_settings(task(bench, answers=400))
    assert {one.settings.method: n for one, n in bench.met.items()}["vanilla"] < len(DEV)


def test_prompts_and_examples_of_the_original_stay() -> None:
    shown = [{"problem": "6 * 7?", "solution": "42"}]
    tuned = Candidate({"decompose": "Be brief."}, START, {"solve": shown})
    bench = FakeBench(hilly)
    found = search_settings(replace(task(bench, answers=300), incumbent=tuned))
    assert tuned in found
    assert {one.text("decompose") for one in bench.met} == {"Be brief."}
    assert all(one.examples == tuned.examples for one in bench.met)


# Limits


@pytest.mark.parametrize("answers", [120, 400])
def test_it_asks_for_no_more_answers_than_it_may(answers: int) -> None:
    bench = FakeBench(hilly)
    search_settings(task(bench, answers=answers))
    assert 0.8 * answers < len(bench.asked) <= answers


def test_a_spent_budget_ends_it_with_the_settings_that_are_measured() -> None:
    found = search_settings(task(FakeBench(hilly, answers=150), answers=400))
    assert [one.settings for one in found] == [START]


def test_a_question_that_a_server_refuses_under_some_settings_ends_only_those() -> None:
    bench = FakeBench(hilly, refused=lambda one: one.enforcement == "cap")
    found = search_settings(task(bench, answers=400))
    assert found
    assert "cap" not in {one.settings.enforcement for one in found}


def test_the_same_seed_goes_the_same_way_and_pays_for_nothing_twice() -> None:
    killed = FakeBench(hilly, answers=200)
    search_settings(task(killed, answers=400))
    again, fresh = FakeBench(hilly, paid=killed.paid), FakeBench(hilly)
    found = [search_settings(task(one, answers=400)) for one in (again, fresh)]
    assert found[0] == found[1]
    assert again.asked == fresh.asked
    assert again.asked[:200] == killed.asked[:200]
    other = FakeBench(hilly)
    search_settings(task(other, answers=400, seed=1))
    assert set(other.met) != set(fresh.met)


def test_better_settings_of_the_graph_are_found_judged_and_adopted(tmp_path: Path) -> None:
    """A plan is needed, and one call is enough; a second start finds the same."""

    def needs_a_plan(call: Call) -> Said:
        text = "\n".join(str(message.text) for message in call.messages)
        question = next(one for one in DEV if one.question in text)
        return "so " * 60 + (question.targets[0] if "What follows?" in text else "wrong")

    model, results, calls = ScriptedChat(solve=needs_a_plan), [], []
    for _ in range(2):
        chosen, start = SETTINGS_SEARCH(most=16), Candidate(settings=START)
        sets: dict[str, Any] = {"dev": DEV[:18], "held_out": None, "answers": None}
        results.append(run(tmp_path, chosen, model, start=start, tuned="settings", **sets))
        calls.append(len(model.calls))
    first, second = results
    assert first.candidate.settings.execution == "single_pass"
    assert second.candidate == first.candidate
    assert calls[1] == calls[0]
