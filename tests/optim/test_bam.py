from __future__ import annotations

import numpy as np
import pytest

from optim.bam import fit, level_shares
from pb_graph.errors import InputError
from tests.benchmarks.schedules import RULES, closed_form, optimum, simulate


def is_unimodal(shares: list[float]) -> bool:
    rises = np.sign(np.diff(shares))
    return rises[0] > 0 > rises[-1] and bool((np.diff(rises) <= 0).all())


def test_the_closed_form_gives_the_middle_level_most() -> None:
    shares = level_shares(total=250)
    assert is_unimodal(shares["closed_form"])
    assert int(np.argmax(shares["closed_form"])) == 2
    assert is_unimodal(shares["optimal"])
    assert sum(shares["optimal"]) == pytest.approx(250)


def test_no_rule_beats_the_exact_optimum_in_its_world() -> None:
    for budget in (200, 800):
        outcomes = simulate(budget, questions=2000)
        assert tuple(outcomes) == RULES
        assert max(outcomes, key=lambda rule: outcomes[rule].utility) == "optimal"
        assert simulate(budget, questions=2000) == outcomes


def test_a_fit_recovers_c_and_beta() -> None:
    budgets = np.array([25, 50, 100, 200, 400])
    right = 5000 * (1 - 0.05 - 20 / budgets**1.0)
    found = fit(budgets, [5000] * 5, right.clip(0))
    assert found.beta == pytest.approx(1.0, abs=0.05)
    assert found.c == pytest.approx(20, rel=0.15)
    assert found.aleatoric == pytest.approx(0.05, abs=0.01)
    assert found.beta_lower <= found.beta <= found.beta_upper


def test_answers_that_never_change_do_not_bound_beta() -> None:
    found = fit([50, 100, 200], [20] * 3, [20] * 3)
    assert (found.beta_lower, found.beta_upper) == pytest.approx((0.05, 8))
    with pytest.raises(InputError, match="2 budgets do not determine 3 parameters"):
        fit([50, 100], [20, 20], [10, 15])


def test_no_token_of_an_optimum_is_better_moved() -> None:
    rng = np.random.default_rng(0)
    c, beta = rng.uniform(0.1, 10, (3, 4)), rng.uniform(0.5, 4, (3, 4))
    tokens = optimum(c, beta, [20, 100, 900])
    assert tokens.sum(axis=-1) == pytest.approx([20, 100, 900])
    worth = c * beta / tokens ** (beta + 1)
    assert worth == pytest.approx(np.broadcast_to(worth[:, :1], worth.shape))
    same = np.full_like(beta, 1.5)
    assert closed_form(c, same, 90) == pytest.approx(optimum(c, same, 90))
