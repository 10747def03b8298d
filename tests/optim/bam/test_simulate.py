"""The simulated world, against the formulas it is made of."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from optim.bam.simulate import (
    BLOCK,
    RULES,
    Outcome,
    Queries,
    World,
    allocations,
    draw,
    simulate,
    worth,
)
from pb_graph import InputError, Settings
from pb_graph.budget import LEVELS, allocate
from pb_graph.settings import Bam

SCHEDULES = RULES[:6]
ORDER_BLIND = {"uniform", "weighted", "bam", "closed_form", "optimal"}

worlds = st.builds(
    World,
    steps=st.integers(1, 8),
    front_loaded=st.booleans(),
    graded=st.booleans(),
    c_spread=st.floats(0, 2),
    beta_spread=st.floats(0, 1),
    aleatoric=st.floats(0, 1),
)


def played(world: World, n: int = 200, total: float = 300, seed: int = 0) -> dict[str, Outcome]:
    found = simulate(world, [int(total)], queries=n, seed=seed)
    return {outcome.rule: outcome for outcome in found}


@settings(max_examples=40)
@given(worlds, st.integers(0, 1000), st.floats(5, 5000))
def test_no_rule_beats_the_exact_optimum_on_any_query(
    world: World, seed: int, total: float
) -> None:
    queries = draw(world, 100, seed=seed)
    utility = {
        rule: worth(queries, tokens)[0] for rule, tokens in allocations(world, queries, total)
    }
    assert tuple(utility) == RULES
    for rule in RULES:
        lost = utility["optimal"] - utility[rule]
        assert (lost >= -1e-9 * (1 + abs(utility[rule]))).all(), rule


@settings(max_examples=20)
@given(worlds, st.floats(0.2, 4))
def test_with_one_beta_for_all_the_closed_form_is_the_optimum(world: World, beta: float) -> None:
    shared = Settings(bam=Bam(beta=dict.fromkeys(LEVELS, beta)))
    world = replace(world, settings=shared, beta_spread=0.0)
    queries = draw(world, 50)
    tokens = dict(allocations(world, queries, 300))
    assert tokens["closed_form"] == pytest.approx(tokens["optimal"], rel=1e-9)


def test_with_different_betas_it_falls_behind() -> None:
    found = played(World())
    assert found["closed_form"].shortfall > 5 * found["closed_form"].shortfall_se > 0
    assert found["optimal"].shortfall == found["optimal"].shortfall_se == 0


@settings(max_examples=20)
@given(worlds, st.floats(5, 5000))
def test_every_rule_spends_the_whole_budget_and_leaves_no_step_without(
    world: World, total: float
) -> None:
    for rule, tokens in allocations(world, draw(world, 20), total):
        assert tokens.shape == (world.steps, 20), rule
        assert tokens.sum(axis=0) == pytest.approx(total), rule
        assert (tokens > 0).all(), rule


def test_credits_by_position_go_before_the_levels() -> None:
    credited = (16.0, 18.0, 20.0, 22.0, 24.0)
    splits = dict(allocations(World(credits=credited), draw(World(), 3), 300.0))
    for query in range(3):
        assert splits["weighted"][:, query] == pytest.approx([3.0 * each for each in credited])
        assert splits["uniform"][:, query] == pytest.approx([60.0] * 5)
    for wrong in ((1.0, 2.0), (0.0, 1.0, 1.0, 1.0, 1.0)):
        with pytest.raises(InputError, match="a credit above 0 for each of the 5 steps"):
            World(credits=wrong)


@pytest.mark.parametrize("graded", [True, False])
@pytest.mark.parametrize("schedule", SCHEDULES)
def test_schedules_split_as_the_graph_does(schedule: str, graded: bool) -> None:
    chosen = Settings(power=3, gamma=0.7, epsilon=0.3)
    world = World(settings=chosen, front_loaded=False, graded=graded)
    queries = draw(world, 30)
    tokens = dict(allocations(world, queries, 400))[schedule]
    for level, share in zip(queries.level.T.tolist(), tokens.T, strict=True):
        whole = allocate(
            level if graded else [1] * 5, 400, schedule, power=3, gamma=0.7, epsilon=0.3
        )  # fmt: skip
        assert np.abs(share - whole).max() < 1


def test_without_spread_the_schedule_bam_knows_all() -> None:
    found = played(World(c_spread=0.0, beta_spread=0.0))
    assert found["bam"].shortfall == pytest.approx(0, abs=1e-12)
    assert played(World())["bam"].shortfall > 1e-3


def test_order_matters_only_to_rules_that_look_at_position() -> None:
    first, mixed = (played(World(front_loaded=order)) for order in (True, False))
    same = {rule for rule in RULES if first[rule].utility == pytest.approx(mixed[rule].utility)}
    assert same == ORDER_BLIND


def test_without_grades_credits_say_nothing() -> None:
    found = played(World(graded=False))
    assert found["weighted"] == replace(found["uniform"], rule="weighted")


def test_front_loaded_queries_begin_with_the_hardest() -> None:
    levels = draw(World(), 50).level
    assert (np.diff(levels, axis=0) <= 0).all()
    mixed = draw(World(front_loaded=False), 50).level
    assert sorted(levels.ravel()) == sorted(mixed.ravel())
    assert (np.diff(mixed, axis=0) > 0).any()


def test_draws_follow_the_stated_distributions() -> None:
    world = World(front_loaded=False)
    queries = draw(world, BLOCK)
    size = queries.level.size
    for level in LEVELS:
        at = queries.level == level
        assert at.mean() == pytest.approx(0.2, abs=4 * (0.16 / size) ** 0.5)
        error = at.sum() ** -0.5
        for values, typical, spread in (
            (queries.c, world.settings.bam.c, 0.5),
            (queries.beta, world.settings.bam.beta, 0.1),
        ):
            logs = np.log(values[at] / typical[level]) / spread
            assert logs.mean() == pytest.approx(0, abs=4 * error)
            assert logs.std() == pytest.approx(1, abs=4 * error)
    assert 0 <= queries.aleatoric.min() < queries.aleatoric.max() <= 0.1
    assert queries.aleatoric.mean() == pytest.approx(0.05, abs=4 * 0.03 * size**-0.5)


def test_a_query_is_right_when_all_its_steps_are() -> None:
    queries = Queries(
        level=np.array([[1], [1]]),
        c=np.array([[2.0], [9.0]]),
        beta=np.array([[1.0], [2.0]]),
        aleatoric=np.array([[0.1], [0.2]]),
    )
    utility, accuracy = worth(queries, np.array([[5.0], [6.0]]))
    assert utility == pytest.approx([(1 - 0.4 - 0.1) + (1 - 0.25 - 0.2)])
    assert accuracy == pytest.approx([0.5 * 0.55])
    utility, accuracy = worth(queries, np.array([[5.0], [1.0]]))
    assert utility == pytest.approx([0.5 + 1 - 9 - 0.2])
    assert accuracy == pytest.approx([0])


def test_figures_are_means_over_all_queries_with_their_standard_errors() -> None:
    world, n, budget = World(steps=2), BLOCK + 100, 150
    blocks = [draw(world, BLOCK, seed=3), draw(world, 100, seed=3, block=1)]
    found = {o.rule: o for o in simulate(world, [budget], queries=n, seed=3)}
    for rule in ("cosine", "optimal"):
        parts = [worth(q, dict(allocations(world, q, budget))[rule]) for q in blocks]
        utility, chance = (np.concatenate(values) for values in zip(*parts, strict=True))
        outcome, accuracy = found[rule], 100 * chance
        assert outcome.utility == pytest.approx(utility.mean())
        assert outcome.utility_se == pytest.approx(utility.std(ddof=1) / n**0.5)
        assert outcome.accuracy == pytest.approx(accuracy.mean())
        assert outcome.accuracy_se == pytest.approx(accuracy.std(ddof=1) / n**0.5)
        assert outcome.e3 == pytest.approx(accuracy.mean() ** 2 / budget)
        relative = outcome.e3_se / outcome.e3
        assert relative == pytest.approx(2 * outcome.accuracy_se / outcome.accuracy)
    lost = found["optimal"].utility - found["cosine"].utility
    assert found["cosine"].shortfall == pytest.approx(lost)


def test_a_seed_gives_the_same_queries_however_many_are_drawn() -> None:
    few, many = draw(World(), 10, seed=4), draw(World(), 1000, seed=4)
    for one, other in zip(few, many, strict=True):
        assert (one == other[:, :10]).all()
    assert simulate(World(), [100], queries=50, seed=4) == simulate(
        World(), [100], queries=50, seed=4
    )
    assert (draw(World(), 10, seed=5).c != few.c).any()
    assert (draw(World(), 10, seed=4, block=1).c != few.c).any()


def test_budgets_share_their_queries_and_come_in_the_order_asked() -> None:
    both = simulate(World(), [400, 100], queries=60)
    assert [(o.budget, o.rule) for o in both] == [(b, r) for b in (400, 100) for r in RULES]
    assert both[len(RULES) :] == simulate(World(), [100], queries=60)


@pytest.mark.parametrize(
    ("options", "complaint"),
    [
        ({"steps": 0}, "1 to 20 steps, not 0"),
        ({"c_spread": -1}, "c_spread lies between 0 and 3"),
        ({"beta_spread": float("nan")}, "beta_spread lies between 0 and 3"),
        ({"aleatoric": 1.5}, "between 0 and 1, not 1.5"),
        ({"settings": Settings(epsilon=0)}, "no token under the cosine schedule"),
    ],
)
def test_a_world_that_cannot_be_is_refused(options: dict[str, object], complaint: str) -> None:
    with pytest.raises(InputError, match=complaint):
        World(**options)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("budgets", "options", "complaint"),
    [
        ([], {}, "budgets of at least 1 token"),
        ([100, 0], {}, "budgets of at least 1 token"),
        ([100, 100], {}, "each once"),
        ([100], {"queries": 1}, "at least 2 queries, not 1"),
        ([100], {"seed": -1}, "a seed is at least 0"),
    ],
)
def test_a_simulation_that_cannot_be_is_refused(
    budgets: list[int], options: dict[str, int], complaint: str
) -> None:
    with pytest.raises(InputError, match=complaint):
        simulate(World(), budgets, **options)
