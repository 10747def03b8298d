"""The settings search: what it begins with, what it finds, what it gives up, and how it resumes."""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pytest

from optim.datasets import Question, load
from optim.e3 import Incumbent, e3
from optim.evaluation.limits import BudgetSpentError, Limits
from optim.tuning.candidate import Candidate
from optim.tuning.command import TuneOptions, run
from optim.tuning.evaluator import OutageError, Result
from optim.tuning.examples import split_of
from optim.tuning.optimizer import NOT_ANSWERED, NOT_MEASURED, Round
from optim.tuning.search import search
from optim.tuning.settings_search import (
    DIMENSIONS,
    MOST,
    REFERENCES,
    Plan,
    design,
    first_rung,
    point_of,
    scaled,
    settings_at,
    settings_search,
)
from pb_graph.budget.rules import Fixed, LevelTable, PerLevel
from pb_graph.program import PlannerProgram
from pb_graph.settings import Settings
from tests.support.chat_model import Call, Said, ScriptedChat, with_schema
from tests.support.questions import generate
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
    if not settings.has_plan:
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
    refused: Callable[[Settings], bool] = lambda _: False
    refusal: None = None
    asked: list[tuple[str, str]] = field(default_factory=list)
    paid: dict[tuple[str, str], Result] = field(default_factory=dict)

    met: Counter[Candidate] = field(default_factory=Counter)

    def measure(self, candidate: Candidate, questions: Sequence[Question]) -> list[Result]:
        if questions and candidate not in self.met:
            self.met[candidate] = 0
        return [self._one(candidate, question) for question in questions]

    def _one(self, candidate: Candidate, question: Question) -> Result:
        key = (candidate.identity, question.id)
        if question is DEV[0] and self.refused(candidate.settings):
            msg = "refused"
            raise OutageError(msg)
        self.asked.append(key)
        if key not in self.paid:
            if len(self.paid) == self.calls:
                msg = "spent"
                raise BudgetSpentError(msg)
            accuracy, tokens = self.world(candidate.settings)
            right = luck(question) < accuracy
            spent = round(tokens * (0.9 + 0.2 * luck(question)))
            self.paid[key] = Result(question.id, float(right), spent, None, None)  # type: ignore[arg-type]
            self.met[candidate] += 1
        return self.paid[key]


def task(bench: FakeBench, calls: int = 10**6, seed: int = 0, **changes: Any) -> Round:  # noqa: ANN401
    return Round(
        evaluator=bench,  # type: ignore[arg-type]
        incumbent=Candidate(settings=START.model_copy(update=changes)),
        baseline=Incumbent(50, 500),
        train=DEV,
        dev=DEV,
        predictor="decompose",
        reflector=None,
        calls=calls,
        seed=seed,
    )


def test_the_examples_of_the_original_go_along_and_it_is_paid_for_once() -> None:
    bench = FakeBench(hilly)
    shown = [{"problem": "6 * 7?", "solution": "42"}]
    round_ = task(bench, calls=400)
    original = round_.incumbent.with_examples("solve", shown)
    found = settings_search.propose(replace(round_, incumbent=original))
    assert original in found
    assert all(candidate.examples == original.examples for candidate in bench.met)


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
                settings=Settings.read(
                    {
                        "execution": execution,
                        "planning": planning,
                        "enforcement": enforcement,
                        "budget": scaled(LevelTable(), 2 ** (step / 2)),
                    }
                )
            ),
        )
        for execution, planning, enforcement, step in choices
    )


class TestPlan:
    @pytest.mark.parametrize("calls", [100, 200, 400, 1000])
    @pytest.mark.parametrize("questions", [8, 20, 40, 67])
    def test_it_stays_within_its_answers(self, questions: int, calls: int) -> None:
        plan = Plan.of(questions, calls)
        assert plan.settings == 2 or plan.answers() <= calls - questions
        wider = Plan(plan.settings + 1, plan.rungs)
        assert wider.answers() > calls - questions or plan.settings == MOST

    def test_questions_double_until_they_are_all_of_dev(self) -> None:
        assert Plan.of(67, 400).rungs == [5, 10, 20, 40, 67]
        assert Plan.of(4, 400).rungs == [4]


class TestFirstRung:
    @pytest.mark.parametrize("seed", range(20))
    def test_forty_questions_and_four_hundred_answers_vary_everything(self, seed: int) -> None:
        """As with 40 dev and 20 held-out questions: 40 answers are kept back for the end."""
        bench = FakeBench(hilly, calls=400 - 40)
        settings_search.propose(task(bench, calls=400 - 40, seed=seed))
        tried = [candidate.settings for candidate in bench.met]
        assert {one.method for one in tried} == {"plan_and_budget", *REFERENCES}
        planned = [one for one in tried if one.has_plan]
        assert {one.schedule for one in planned} == set(DIMENSIONS["schedule"])
        assert {one.budget_rule.total(1) for one in planned} > {100, 200, 400}
        for name in ("execution", "planning", "enforcement", "prompt_unit"):
            assert {getattr(one, name) for one in planned} == set(DIMENSIONS[name])

    @pytest.mark.parametrize("count", [6, 12, 25])
    def test_each_dimension_is_left_alone_in_half_of_the_cases(self, count: int) -> None:
        own = point_of(START)
        points = list(itertools.islice(design(own, count, seed=1), count))
        for name in DIMENSIONS:
            assert sum(point[name] == own[name] for point in points) == count // 2

    def test_it_begins_with_the_original_and_the_methods_without_a_plan(self) -> None:
        entered = first_rung(START.model_copy(update={"power": 3.0}), Plan(10, [5]), seed=0)
        assert entered[0][0] == START.model_copy(update={"power": 3.0})
        assert [settings.method for settings, _ in entered[1:3]] == list(REFERENCES)
        assert len({settings.model_dump_json() for settings, _ in entered}) == 10

    def test_a_method_without_a_plan_is_searched_around_the_same_settings_with_one(self) -> None:
        entered = first_rung(Settings(method="vanilla", cutoff=700), Plan(5, [5]), seed=0)
        assert [settings.method for settings, _ in entered][:3] == [
            "vanilla", "global_budget", "plan_and_budget",
        ]  # fmt: skip
        assert {settings.cutoff for settings, _ in entered} == {700}

    def test_what_the_budget_does_not_reach_is_said(self) -> None:
        say = settings_search.forecast
        assert say is not None
        small = say(40, 150, Candidate(settings=START), 0)
        assert "This budget does not reach: schedule " in small
        assert "budget 0.25 times" in say(40, 60, Candidate(settings=START), 0)
        assert "does not reach" not in say(40, 2000, Candidate(settings=START), 0)
        assert "method global_budget" in say(40, 60, Candidate(settings=START), 0)


class TestSearch:
    @pytest.mark.parametrize("seed", [0, 1, 2])
    def test_it_finds_about_the_best_there_is(self, seed: int) -> None:
        proposed = settings_search.propose(task(FakeBench(hilly), calls=1000, seed=seed))
        bench = FakeBench(hilly)
        assert e3_of(bench, proposed[0]) > 0.9 * best_there_is(bench)
        assert proposed[0].settings.execution == "single_pass"

    def test_what_it_gives_is_ordered_by_exact_e3_on_all_of_dev(self) -> None:
        bench = FakeBench(hilly)
        proposed = settings_search.propose(task(bench, calls=400))
        assert all((one.identity, q.id) in bench.paid for one in proposed for q in DEV)
        values = [e3_of(bench, one) for one in proposed]
        assert values == sorted(values, reverse=True)

    def test_where_nothing_is_better_the_original_comes_first(self) -> None:
        proposed = settings_search.propose(task(FakeBench(flat), calls=400))
        assert proposed[0] == Candidate(settings=START)

    def test_a_method_without_a_plan_may_win(self) -> None:
        def easy(settings: Settings) -> tuple[float, float]:
            return 0.9, 500 if settings.has_plan else 200 if settings.has_budget else 100

        proposed = settings_search.propose(task(FakeBench(easy), calls=400))
        assert proposed[0].settings.method == "vanilla"

    def test_a_method_without_a_plan_that_is_worse_is_given_up_early(self) -> None:
        bench = FakeBench(hilly)
        settings_search.propose(task(bench, calls=400))
        met = {one.settings.method: count for one, count in bench.met.items()}
        assert met["vanilla"] < len(DEV)

    def test_instructions_stay_what_they_are(self) -> None:
        tuned = Candidate({"decompose": "Be brief."}, START)
        own = replace(task(FakeBench(hilly), calls=300), incumbent=tuned)
        assert {one.text("decompose") for one in settings_search.propose(own)} == {"Be brief."}

    def test_what_is_given_up_is_listed_with_its_figures(self) -> None:
        bench, own = FakeBench(hilly), task(FakeBench(hilly), calls=400)
        own = replace(own, evaluator=bench)  # type: ignore[arg-type]
        proposed = settings_search.propose(own)
        assert len(proposed) + len(own.dropped) == len(bench.met)
        for one in own.dropped:
            assert one.measurement is not None
            count = len(one.measurement.results)
            assert count == bench.met[one.candidate] < len(DEV)
            assert one.fell == f"lost on its first {count} questions to better settings"

    def test_answers_that_all_fail_never_win(self) -> None:
        def broken(settings: Settings) -> tuple[float, float]:
            return (0.5, 400) if settings.execution == "stepwise" else (0.0, 0)

        proposed = settings_search.propose(task(FakeBench(broken), calls=400))
        assert {one.settings.execution for one in proposed} == {"stepwise"}


class TestLimits:
    @pytest.mark.parametrize("calls", [120, 200, 400, 1000])
    def test_it_asks_for_no_more_answers_than_it_may(self, calls: int) -> None:
        bench = FakeBench(hilly)
        settings_search.propose(task(bench, calls=calls))
        assert 0.85 * calls < len(bench.asked) <= calls

    def test_a_spent_budget_ends_it_with_what_it_has(self) -> None:
        bench = FakeBench(hilly, calls=150)
        own = task(bench, calls=400)
        proposed = settings_search.propose(own)
        assert [one.settings for one in proposed] == [START]
        assert {one.fell for one in own.dropped} >= {NOT_MEASURED}

    def test_a_question_that_a_server_refuses_under_some_settings_ends_only_those(self) -> None:
        bench = FakeBench(hilly, refused=lambda one: one.enforcement == "cap")
        own = task(bench, calls=400)
        settings_search.propose(own)
        fell = [one.candidate for one in own.dropped if one.fell == NOT_ANSWERED]
        assert {one.settings.enforcement for one in fell} == {"cap"}
        assert NOT_MEASURED not in {one.fell for one in own.dropped}

    def test_the_same_seed_goes_the_same_way_and_pays_for_nothing_twice(self) -> None:
        killed = FakeBench(hilly, calls=200)
        settings_search.propose(task(killed, calls=400))
        again, fresh = FakeBench(hilly, paid=killed.paid), FakeBench(hilly)
        proposals = [settings_search.propose(task(one, calls=400)) for one in (again, fresh)]
        assert proposals[0] == proposals[1]
        assert again.asked == fresh.asked
        assert again.asked[:200] == killed.asked[:200]

    def test_another_seed_goes_another_way(self) -> None:
        met = []
        for seed in (0, 1):
            bench = FakeBench(hilly)
            settings_search.propose(task(bench, calls=400, seed=seed))
            met.append(set(bench.met))
        assert met[0] != met[1]


class TestSpace:
    @pytest.mark.parametrize("schedule", ["uniform", "polynomial", "exponential", "cosine", "bam"])
    def test_the_originals_point_is_the_original(self, schedule: Any) -> None:  # noqa: ANN401
        rule = PerLevel(initial=50, per_level=10)
        base = Settings(schedule=schedule, power=9, max_steps=3, budget=rule)
        assert settings_at(base, point_of(base)) == base

    def test_a_shape_bears_on_its_schedule_only(self) -> None:
        point = point_of(START) | {"shape": "higher"}
        assert settings_at(START, point).epsilon > START.epsilon
        assert settings_at(START, point | {"schedule": "linear"}).epsilon == START.epsilon

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


class TestTuning:
    """The loop with the search, on the graph itself: a plan is needed, and one call is enough."""

    def test_better_settings_are_found_judged_and_adopted(self, tmp_path: Path) -> None:
        with bench_in(tmp_path, ScriptedChat(solve=_needs_a_plan)) as bench:
            result = search(bench, SPLIT, settings_search(most=16), start=Candidate(settings=START))
        assert result.adopted
        assert result.candidate.settings.execution == "single_pass"
        assert result.optimizer == "settings"

    def test_where_nothing_is_better_the_original_is_kept(self, tmp_path: Path) -> None:
        with bench_in(tmp_path, ScriptedChat(solve=_needs_a_plan)) as bench:
            start = Candidate(settings=FRUGAL)
            result = search(bench, SPLIT, settings_search(most=3), start=start)
        assert (result.verdict.verdict, result.candidate) == ("kept", Candidate(settings=FRUGAL))

    def test_a_second_start_pays_for_nothing(self, tmp_path: Path) -> None:
        model = ScriptedChat(solve=_needs_a_plan)
        results = []
        for _ in range(2):
            with bench_in(tmp_path, model) as bench:
                results.append(
                    search(bench, SPLIT, settings_search(most=16), start=Candidate(settings=START))
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
        tuned = run(tuning)
        program = PlannerProgram.load(tuned.path)
        assert program.settings
        assert program.settings.execution == "single_pass"
        record = tuned.result.record
        assert record.optimizer == "settings"
        assert record.settings_before == START
        roles = Counter(one.role for one in record.candidates)
        assert (roles["original"], roles["chosen"]) == (1, 1)
        given_up = [one for one in record.candidates if one.questions < 16]
        assert given_up
        assert all(one.settings for one in given_up)
        assert "execution=single_pass" in tuned.page.read_text(encoding="utf-8")


def _needs_a_plan(call: Call) -> Said:
    text = "\n".join(str(message.text) for message in call.messages)
    question = next(one for one in [*DEV, *OF_THE_COMMAND] if one.question in text)
    planned = "What follows?" in text
    return "so " * 60 + (question.targets[0] if planned else "wrong")
