"""The settings search: what it begins with, what it finds, what it gives up, and how it resumes."""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import optuna
import pytest

from optim.datasets import Question, load
from optim.datasets.arithmetic import generate
from optim.e3 import Incumbent, e3
from optim.evaluate.limits import BudgetSpentError, Limits
from optim.tune.candidate import Candidate
from optim.tune.command import TuneOptions, run
from optim.tune.evaluator import Result
from optim.tune.loop import search
from optim.tune.proposer import Task
from optim.tune.search_space import REFERENCES, SearchSpace, scaled
from optim.tune.settings_search import SettingsSearch
from optim.tune.split import split_of
from pb_graph.artefact import Artefact
from pb_graph.budget.rules import Fixed, LevelTable, PerLevel
from pb_graph.settings import Settings
from tests.support.chat_model import Call, Said, ScriptedChat, with_schema
from tests.support.tuning_world import Exact, bench_in, luck

DEV = generate(40, split="settings")
SPLIT = split_of([], DEV[:18], None, seed=0)
OF_THE_COMMAND = load("arithmetic", limit=24)
OWN: dict[str, Any] = {
    "execution": "stepwise",
    "schedule": "cosine",
    "enforcement": "force",
    "budget": LevelTable(),
}
START = Settings(**OWN)
FIRST_LEVEL = {step: round(200 * 2 ** (step / 2)) for step in range(-4, 5)}
STEP_OF = {tokens: step for step, tokens in FIRST_LEVEL.items()}

FRUGAL = Settings(execution="single_pass", enforcement="prompt")

World = Callable[[Settings], tuple[float, float]]
"""Chance of a right answer, and tokens of an answer, under settings."""


def hilly(settings: Settings) -> tuple[float, float]:
    """Best in a single pass, at half the budget, planned in one call, with hard caps."""
    if not settings.plans:
        return 0.4, 700
    step = STEP_OF[settings.budget_rule.total(1)]
    accuracy = 0.72 - 0.03 * abs(step + 2) - 0.1 * (settings.schedule == "uniform")
    tokens = 500 * 2 ** (step / 4)
    tokens *= 0.6 if settings.execution == "single_pass" else 1
    tokens *= 0.8 if settings.planning == "fused" else 1
    tokens *= {"prompt": 1.4, "cap": 0.9, "force": 1}[settings.enforcement]
    return accuracy, tokens


def flat(settings: Settings) -> tuple[float, float]:
    """The original is as good as it gets."""
    return (0.7, 300) if settings == START else (0.5, 400)


@dataclass
class FakeBench:
    """Answers as the world has it; remembers what was asked."""

    world: World
    calls: int = 10**9
    asked: list[tuple[str, str]] = field(default_factory=list)
    paid: dict[tuple[str, str], Result] = field(default_factory=dict)

    def measure(self, candidate: Candidate, questions: Sequence[Question]) -> list[Result]:
        return [self._one(candidate, question) for question in questions]

    def _one(self, candidate: Candidate, question: Question) -> Result:
        key = (candidate.identity, question.id)
        self.asked.append(key)
        if key not in self.paid:
            if len(self.paid) == self.calls:
                msg = "spent"
                raise BudgetSpentError(msg)
            accuracy, tokens = self.world(candidate.settings)
            right = luck(question) < accuracy
            spent = round(tokens * (0.9 + 0.2 * luck(question)))
            self.paid[key] = Result(question.id, float(right), spent, None, None)  # type: ignore[arg-type]
        return self.paid[key]


def task(bench: FakeBench, calls: int = 10**6, seed: int = 0, **changes: Any) -> Task:  # noqa: ANN401
    return Task(
        bench=bench,  # type: ignore[arg-type]
        incumbent=Candidate(settings=START.model_copy(update=changes)),
        baseline=Incumbent(50, 500),
        train=DEV,
        dev=DEV,
        predictor="decompose",
        reflector=None,
        calls=calls,
        seed=seed,
    )


def e3_of(bench: FakeBench, candidate: Candidate) -> float:
    results = bench.measure(candidate, DEV)
    return e3([one.score for one in results], [one.tokens for one in results])


def best_there_is(bench: FakeBench) -> float:
    """By trying everything that matters in the hilly world."""
    choices = itertools.product(
        ("stepwise", "single_pass"), ("two_call", "fused"), ("prompt", "cap", "force"), range(-4, 5)
    )
    return max(
        e3_of(
            bench,
            Candidate(
                settings=Settings(
                    execution=execution,
                    planning=planning,
                    enforcement=enforcement,
                    budget=scaled(LevelTable(), 2 ** (step / 2)),
                )
            ),
        )
        for execution, planning, enforcement, step in choices
    )


class TestSearch:
    @pytest.mark.parametrize("seed", [0, 1, 2])
    def test_it_finds_about_the_best_there_is(self, seed: int) -> None:
        found = SettingsSearch(60).propose(task(FakeBench(hilly), seed=seed))
        bench = FakeBench(hilly)
        assert e3_of(bench, found[0]) > 0.9 * best_there_is(bench)
        assert found[0].settings.execution == "single_pass"
        assert found[0].settings.planning == "fused"

    def test_what_it_gives_is_ordered_by_exact_e3_on_all_of_dev(self) -> None:
        bench = FakeBench(hilly)
        found = SettingsSearch(20).propose(task(bench))
        assert all((one.identity, q.id) in bench.paid for one in found for q in DEV)
        values = [e3_of(bench, one) for one in found]
        assert values == sorted(values, reverse=True)

    def test_where_nothing_is_better_the_original_comes_first(self) -> None:
        found = SettingsSearch(25).propose(task(FakeBench(flat)))
        assert found[0] == Candidate(settings=START)

    def test_it_begins_with_the_original_and_the_methods_without_a_plan(self) -> None:
        seeking = SettingsSearch(1)
        seeking.propose(task(FakeBench(hilly), power=3.0))
        tried = [candidate.settings for candidate, _ in seeking.tried]
        assert tried[0] == START.model_copy(update={"power": 3.0})
        assert [settings.method for settings in tried[1:3]] == list(REFERENCES)

    def test_a_method_without_a_plan_may_win(self) -> None:
        def easy(settings: Settings) -> tuple[float, float]:
            return 0.9, 500 if settings.plans else 200 if settings.budgets else 100

        found = SettingsSearch(3).propose(task(FakeBench(easy)))
        assert [one.settings.method for one in found[:2]] == ["vanilla", "global_budget"]

    def test_instructions_stay_what_they_are(self) -> None:
        own = task(FakeBench(hilly))
        tuned = own.incumbent.told("decompose", "Be brief.")
        found = SettingsSearch(20).propose(
            Task(**{name: getattr(own, name) for name in Task.__slots__} | {"incumbent": tuned})
        )
        assert {one.text("decompose") for one in found} == {"Be brief."}

    def test_the_hopeless_are_given_up_early_and_not_proposed(self) -> None:
        seeking = SettingsSearch(40)
        bench = FakeBench(hilly)
        found = seeking.propose(task(bench))
        sizes = [len(standing.results) for _, standing in seeking.tried]
        assert {10, 40} <= set(sizes) <= {10, 20, 40}
        assert len(found) == sizes.count(40)
        assert len(bench.paid) == sum(sizes) < 0.8 * len(sizes) * 40

    def test_none_is_given_up_on_a_few_questions(self) -> None:
        few = task(FakeBench(hilly))
        fields = {name: getattr(few, name) for name in Task.__slots__} | {"dev": DEV[:8]}
        seeking = SettingsSearch(30)
        assert len(seeking.propose(Task(**fields))) == len(seeking.tried)

    def test_answers_that_all_fail_are_hopeless(self) -> None:
        def broken(settings: Settings) -> tuple[float, float]:
            return (0.5, 400) if settings.execution == "stepwise" else (0.0, 0)

        found = SettingsSearch(20).propose(task(FakeBench(broken)))
        assert {one.settings.execution for one in found} == {"stepwise"}


class TestLimits:
    def test_it_asks_for_no_more_answers_than_it_may(self) -> None:
        bench = FakeBench(hilly)
        SettingsSearch().propose(task(bench, calls=400))
        assert 400 - len(DEV) < len(bench.asked) <= 400

    def test_a_spent_budget_ends_it_with_what_it_has(self) -> None:
        found = SettingsSearch().propose(task(FakeBench(hilly, calls=150)))
        assert [one.settings.method for one in found].count("plan_and_budget") == 1
        assert len(found) == 3

    def test_a_space_that_is_used_up_ends_it(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(SearchSpace, "drawn", lambda *_: START)
        bench = FakeBench(hilly)
        SettingsSearch(200).propose(task(bench))
        assert len(bench.asked) == 3 * len(DEV)

    def test_the_same_seed_goes_the_same_way_and_pays_for_nothing_twice(self) -> None:
        killed = FakeBench(hilly, calls=500)
        SettingsSearch(30).propose(task(killed))
        again, fresh = FakeBench(hilly, paid=killed.paid), FakeBench(hilly)
        assert SettingsSearch(30).propose(task(again)) == SettingsSearch(30).propose(task(fresh))
        assert again.asked == fresh.asked
        assert again.asked[:500] == killed.asked[:500]

    def test_another_seed_goes_another_way(self) -> None:
        asked = []
        for seed in (0, 1):
            bench = FakeBench(hilly)
            SettingsSearch(20).propose(task(bench, seed=seed))
            asked.append({identity for identity, _ in bench.asked})
        assert asked[0] != asked[1]


class TestSpace:
    def drawn(self, base: Settings, **chosen: Any) -> Settings:  # noqa: ANN401
        return SearchSpace(base).drawn(optuna.trial.FixedTrial(chosen))

    def starts(self, base: Settings) -> list[Settings]:
        return [self.drawn(base, **start) for start in SearchSpace(base).starts()]

    @pytest.mark.parametrize("schedule", ["uniform", "polynomial", "exponential", "cosine", "bam"])
    def test_the_first_start_is_the_original(self, schedule: Any) -> None:  # noqa: ANN401
        base = Settings(schedule=schedule, max_steps=3, budget=PerLevel(initial=50, per_level=10))
        assert self.starts(base)[0] == base

    def test_the_others_change_one_thing(self) -> None:
        base = START
        changed = [
            [name for name, value in settings if value != getattr(base, name)]
            for settings in self.starts(base)[1:]
        ]
        assert all(len(names) == 1 for names in changed)
        assert {names[0] for names in changed} == {
            "execution", "planning", "budget", "enforcement", "prompt_unit",
        }  # fmt: skip

    def test_changes_that_helped_are_joined(self) -> None:
        space = SearchSpace(START)
        own, *others = space.starts()
        gains = {"single_pass": 1.5, "fused": 0.9, "cap": 1.1, "prompt": 1.2, -2: 1.01, 2: 1.0}
        worth = [
            (start, next(v for k, v in gains.items() if k in start.values()))
            for start in others[:-1]
        ]
        helped = {"execution": "single_pass", "enforcement": "prompt", "budget_step": -2}
        assert space.joined(worth) == own | helped

    def test_a_number_beyond_the_range_starts_at_its_end(self) -> None:
        assert self.starts(Settings(schedule="polynomial", power=9))[0].power == 4

    def test_a_method_without_a_plan_starts_with_one(self) -> None:
        assert self.starts(Settings(method="vanilla"))[0] == Settings()

    @pytest.mark.parametrize(
        ("rule", "half"),
        [
            (LevelTable(), LevelTable(tokens={1: 100, 2: 125, 3: 175, 4: 225, 5: 300})),
            (PerLevel(initial=0, per_level=30), PerLevel(initial=0, per_level=15)),
            (Fixed(tokens=1), Fixed(tokens=1)),
        ],
    )
    def test_budgets_keep_their_proportions(self, rule: Any, half: Any) -> None:  # noqa: ANN401
        assert scaled(rule, 0.5) == half

    def test_whatever_is_drawn_is_valid(self) -> None:
        study = optuna.create_study(sampler=optuna.samplers.RandomSampler(seed=0))
        for _ in range(60):
            settings = SearchSpace(Settings(cutoff=700)).drawn(study.ask())
            assert (settings.method, settings.cutoff) == ("plan_and_budget", 700)


class TestTuning:
    """The loop with the search, on the graph itself: a plan is needed, and one call is enough."""

    def test_better_settings_are_found_judged_and_adopted(self, tmp_path: Path) -> None:
        with bench_in(tmp_path, ScriptedChat(solve=_needs_a_plan)) as bench:
            result = search(bench, SPLIT, SettingsSearch(3), start=Candidate(settings=START))
        assert result.adopted
        assert result.candidate.settings.execution == "single_pass"
        assert result.optimizer == "settings"

    def test_where_nothing_is_better_the_original_is_kept(self, tmp_path: Path) -> None:
        with bench_in(tmp_path, ScriptedChat(solve=_needs_a_plan)) as bench:
            result = search(bench, SPLIT, SettingsSearch(4), start=Candidate(settings=FRUGAL))
        assert (result.verdict.verdict, result.candidate) == ("kept", Candidate(settings=FRUGAL))

    def test_a_second_start_pays_for_nothing(self, tmp_path: Path) -> None:
        model = ScriptedChat(solve=_needs_a_plan)
        results = []
        for _ in range(2):
            with bench_in(tmp_path, model) as bench:
                results.append(
                    search(bench, SPLIT, SettingsSearch(3), start=Candidate(settings=START))
                )
        first, second = results
        assert second.candidate == first.candidate
        assert (second.spent.calls, second.spent.tokens) == (first.spent.calls, first.spent.tokens)

    def test_the_command_leaves_a_program_a_page_and_a_picture(self, tmp_path: Path) -> None:
        tuning = TuneOptions(
            dataset="arithmetic",
            tuned="settings",
            settings=OWN,
            limit=24,
            model=ScriptedChat(solve=_needs_a_plan),
            scorer=Exact(),
            limits=Limits(calls=140),
            run_dir=tmp_path,
            cap_policy=with_schema,
        )
        tuned = run(tuning, audience=Mock())
        program = Artefact.load(tuned.path)
        assert program.settings
        assert program.settings.execution == "single_pass"
        assert program.tuning
        assert program.tuning.optimizer == "settings"
        assert program.tuning.settings_before == START
        assert program.tuning.versions["optuna"]
        roles = Counter(one.role for one in program.tuning.candidates)
        assert (roles["original"], roles["chosen"], roles["reference"]) == (1, 1, 2)
        given_up = [one for one in program.tuning.candidates if one.questions < 16]
        assert given_up
        assert all(one.settings for one in given_up)
        page, picture = tuned.pictures
        assert "execution=single_pass" in page.read_text(encoding="utf-8")
        assert picture.read_bytes().startswith(b"\x89PNG")


def _needs_a_plan(call: Call) -> Said:
    text = "\n".join(str(message.text) for message in call.messages)
    question = next(one for one in [*DEV, *OF_THE_COMMAND] if one.question in text)
    planned = "What follows?" in text
    return "so " * 60 + (question.targets[0] if planned else "wrong")
