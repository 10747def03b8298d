"""Estimates of one method, comparisons of two, and proofs: how often what is said holds."""

from __future__ import annotations

import dataclasses
import json
import math
from collections.abc import Sequence

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from optim.e3 import (
    Sample,
    accuracy_interval,
    compare,
    describe,
    e3,
    holm,
    interval,
    smoothed_e3,
    token_interval,
)
from optim.reporting.certificate import NonInferiorityTest, Scores, order_for_testing, run_in_order
from optim.reporting.certificate import _clopper_pearson_upper as flip_bound
from optim.reporting.certificate import betting_upper_bound as loss_bound
from optim.statistics.estimates import exp_interval
from tests.benchmarks.interval_coverage import of_accuracy, paired, single

SCORE = st.floats(0, 1).filter(lambda x: x == 0 or x > 1e-6)
TOKENS = st.floats(1, 1e5)
ITEMS = st.lists(st.tuples(SCORE, TOKENS), min_size=1, max_size=30)
SEVERAL = ITEMS.filter(lambda items: len(items) > 1)


def test_e3_is_accuracy_in_percent_squared_over_mean_tokens() -> None:
    assert e3([1, 0], [100, 300]) == 50**2 / 200
    assert e3([1, 1], [0, 100]) == 200.0
    assert e3([0, 0], [10, 20]) == 0.0


@pytest.mark.parametrize(
    ("scores", "tokens", "reason"),
    [
        ([], [], "is empty"),
        ([1, 0], [5], "2 scores but 1 tokens"),
        ([None], [5], r"lie in \[0, 1\].* got nan"),
        ([50], [5], "not in percent: got 50"),
        ([1], [-1], "0 or more: got -1"),
        ([1, 0], [0, 0], "usage is measured"),
    ],
)
def test_what_would_mislead_is_refused(scores: list, tokens: list, reason: str) -> None:
    for measure in (e3, interval):
        with pytest.raises(ValueError, match=reason):
            measure(scores, tokens)


def test_the_standard_error_is_that_of_the_data_and_the_pseudo_questions() -> None:
    scores, tokens = np.array([1, 0, 1, 1.0]), np.array([100, 250, 80, 120.0])
    more, weights = np.append(scores, [1, 0]), np.array([1, 1, 1, 1, 0.75, 0.75])
    costs = np.append(tokens, [137.5, 137.5])
    accuracy = np.average(more, weights=weights)
    psi = 2 * (more - accuracy) / accuracy - (costs - 137.5) / 137.5
    error = math.sqrt((weights @ psi**2) / 5.5 / 4.5)
    found = interval(scores, tokens)
    assert found.e3 == 75**2 / 137.5
    assert found.log_se == pytest.approx(error)
    centre, reach = (100 * accuracy) ** 2 / 137.5, math.exp(stats.t.ppf(0.975, 3) * error)
    cheapest = 137.5 * math.exp(-stats.t.ppf(0.975, 3) * tokens.std(ddof=1) / 2 / 137.5)
    assert found.lower == pytest.approx(centre / reach)
    assert found.upper == pytest.approx(min(centre * reach, 100**2 / cheapest))


@given(SEVERAL, st.floats(0.5, 0.99))
def test_the_interval_holds_the_estimate(
    items: list[tuple[float, float]], confidence: float
) -> None:
    found = interval(*zip(*items, strict=True), confidence=confidence)
    assert found.lower is not None
    assert found.lower <= found.e3
    assert found.upper is None or found.e3 <= found.upper
    json.dumps(dataclasses.asdict(found), allow_nan=False)


@given(SEVERAL, st.integers(2, 5))
def test_copies_of_a_question_add_no_evidence(items: list[tuple[float, float]], times: int) -> None:
    scores, tokens = zip(*items, strict=True)
    ids = list(range(len(items))) * times
    repeated = interval(scores * times, tokens * times, clusters=ids)
    assert repeated.clusters == len(items)
    once = interval(scores, tokens).log_se
    assert repeated.log_se == pytest.approx(once, rel=1e-6, abs=1e-12)
    accuracy = accuracy_interval(scores * times, clusters=ids)
    assert accuracy == pytest.approx(accuracy_interval(scores))
    cost = token_interval(tokens * times, clusters=ids)
    assert cost == pytest.approx(token_interval(tokens), rel=1e-6)


def test_one_question_has_no_interval() -> None:
    for found in (interval([1], [10]), interval([1, 0], [10, 20], clusters=["a", "a"])):
        assert found.lower is found.upper is found.log_se is None
        assert found.e3 > 0


def test_nothing_right_is_no_special_case() -> None:
    found = interval([0] * 30, [100] * 30)
    assert (found.e3, found.lower) == (0.0, 0.0)
    # At least as careful as the exact limit on the accuracy.
    chance = stats.binomtest(0, 30).proportion_ci(0.95, "exact").high
    assert (100 * chance) ** 2 / 100 < found.upper < 20**2 * 2


@pytest.mark.parametrize(
    ("accuracy", "questions", "epochs"), [(0.8, 5, 1), (0.9, 20, 1), (0.9, 10, 5)]
)
def test_the_intervals_cover_as_often_as_they_say(
    accuracy: float, questions: int, epochs: int
) -> None:
    assert single(accuracy, questions, 600, epochs) >= 0.92
    assert of_accuracy(accuracy, questions, 600, epochs) >= 0.92


@given(st.integers(0, 40), st.integers(1, 40))
def test_the_interval_of_right_answers_is_agrestis_and_coulls(right: int, wrong: int) -> None:
    n = right + wrong + 4
    share = (right + 2) / n
    reach = stats.t.ppf(0.975, n - 1) * math.sqrt(share * (1 - share) / (n - 1))
    low, high = accuracy_interval([1] * right + [0] * wrong)
    plain = 100 * right / (right + wrong)
    assert low == pytest.approx(min(plain, max(0, 100 * (share - reach))))
    assert high == pytest.approx(max(plain, min(100, 100 * (share + reach))))


def test_tokens_by_hand() -> None:
    tokens = np.array([100, 200, 300.0])
    reach = stats.t.ppf(0.975, 2) * tokens.std(ddof=1) / math.sqrt(3) / 200
    assert token_interval(tokens) == pytest.approx((200 * math.exp(-reach), 200 * math.exp(reach)))
    assert token_interval([0, 0]) == (None, None)


@given(ITEMS)
def test_smoothing_adds_half_a_right_and_half_a_wrong_question(
    items: list[tuple[float, float]],
) -> None:
    scores, tokens = zip(*items, strict=True)
    accuracy = 100 * (sum(scores) + 0.5) / (len(items) + 1)
    assert smoothed_e3(scores, tokens) == pytest.approx(accuracy**2 / np.mean(tokens))


def test_an_end_that_no_double_can_hold_is_none() -> None:
    assert exp_interval(700.0, 20.0) == (pytest.approx(math.exp(680.0)), None)
    assert exp_interval(0.0, 700.0) == (pytest.approx(math.exp(-700.0)), math.exp(700.0))


PAIRS = st.lists(st.tuples(SCORE, TOKENS, SCORE, TOKENS), min_size=2, max_size=20)
# Small numbers of right and wrong answers, where the borderline cases are.
GRADES = st.tuples(st.sampled_from([0, 0.5, 1]), st.sampled_from([1, 10, 30, 1000]))
GRADED = st.lists(st.tuples(GRADES, GRADES), min_size=2, max_size=12)


def samples(scores: Sequence[float], tokens: Sequence[float], repeats: int = 1) -> list[Sample]:
    return [
        Sample(f"q{i // repeats}", score, spent)
        for i, (score, spent) in enumerate(zip(scores, tokens, strict=True))
    ]


def test_the_ratio_is_paired_by_question_in_any_order() -> None:
    a = samples([1, 1, 0, 1], [100, 90, 200, 120])
    b = samples([1, 0, 0, 1], [150, 160, 210, 170])
    found = compare(a, list(reversed(b)))
    assert found == compare(a, b)
    assert found.ratio == pytest.approx(found.e3_a / found.e3_b)
    assert found.lower < found.ratio < found.upper
    assert found.accuracy_difference == 25.0
    assert (found.questions, found.dropped) == (4, ())


@given(PAIRS)
@settings(max_examples=30)
def test_a_method_equals_itself(items: list[tuple[float, ...]]) -> None:
    arm = samples([item[0] for item in items], [item[1] for item in items])
    found = compare(arm, arm)
    assert (found.p_value, found.probability_higher) == (1, 0.5)
    assert (found.ratio, found.tokens_ratio) == (1 if found.e3_a else None, 1)
    assert (found.accuracy_difference, found.discordant) == (0, 0)
    assert found.lower < 1
    assert found.upper is None or found.upper > 1


@given(PAIRS)
@settings(max_examples=50)
def test_swapping_the_methods_inverts_the_comparison(items: list[tuple[float, ...]]) -> None:
    score_a, tokens_a, score_b, tokens_b = zip(*items, strict=True)
    a, b = samples(score_a, tokens_a), samples(score_b, tokens_b)
    there, back = compare(a, b), compare(b, a)
    assert there.p_value == pytest.approx(back.p_value)
    assert there.probability_higher == pytest.approx(1 - back.probability_higher)
    assert there.tokens_ratio == pytest.approx(1 / back.tokens_ratio)
    assert there.discordant == back.discordant
    if there.ratio and back.ratio:
        assert there.ratio == pytest.approx(1 / back.ratio)
    json.dumps(dataclasses.asdict(there), allow_nan=False)


@given(GRADED, st.integers(1, 3), st.floats(0.5, 0.99))
@settings(max_examples=200)
def test_p_value_interval_and_probability_say_the_same(
    items: list[tuple[tuple[float, float], tuple[float, float]]], repeats: int, confidence: float
) -> None:
    a, b = (
        samples([one[side][0] for one in items], [one[side][1] for one in items], repeats)
        for side in (0, 1)
    )
    found = compare(a, b, confidence=confidence)
    if found.questions == 1:
        assert found.lower is found.upper is found.p_value is found.probability_higher is None
        return
    upper = math.inf if found.upper is None else found.upper
    if found.ratio is not None:
        assert found.lower <= found.ratio <= upper
    assert (found.p_value < 1 - confidence) == (not found.lower <= 1 <= upper)
    if found.probability_higher > 0.5 + found.p_value:
        assert found.e3_a > found.e3_b
    assert found.p_value == pytest.approx(
        2 * min(found.probability_higher, 1 - found.probability_higher)
    )


def test_accuracy_alone_is_mcnemars_exact_test() -> None:
    found = compare(samples([1] * 9 + [0], [9] * 10), samples([0] * 8 + [1, 1], [9] * 10))
    assert found.accuracy_test == "mcnemar"
    assert found.accuracy_p_value == pytest.approx(stats.binomtest(1, 9).pvalue)


@pytest.mark.parametrize("repeats", [1, 2])
def test_graded_or_repeated_scores_are_compared_by_a_paired_t_test(repeats: int) -> None:
    random = np.random.default_rng(0)
    scores_a, scores_b = random.random((2, 20))
    found = compare(samples(scores_a, [10] * 20, repeats), samples(scores_b, [10] * 20, repeats))
    means = [scores.reshape(-1, repeats).mean(axis=1) for scores in (scores_a, scores_b)]
    assert found.accuracy_test == "paired_t"
    assert found.accuracy_p_value == pytest.approx(stats.ttest_rel(*means).pvalue)
    assert found.questions == 20 / repeats


def test_without_a_right_answer_on_one_side_the_interval_has_one_end() -> None:
    none, some = samples([0] * 8, [10] * 8), samples([1] * 6 + [0] * 2, [10] * 8)
    worse, better = compare(none, some), compare(some, none)
    assert (worse.ratio, better.ratio) == (0, None)
    assert (worse.lower, better.upper) == (0, None)
    assert worse.upper == pytest.approx(1 / better.lower)
    assert worse.p_value == pytest.approx(better.p_value)
    assert better.probability_higher == pytest.approx(1 - better.p_value / 2)
    assert better.probability_higher > 0.9
    assert worse.accuracy_p_value == pytest.approx(2 / 2**6)


def test_nothing_right_on_both_sides_speaks_for_neither_whatever_it_costs() -> None:
    dear, cheap = samples([0] * 30, [5000] * 30), samples([0] * 30, [5] * 30)
    for found in (compare(dear, cheap), compare(cheap, dear)):
        assert (found.p_value, found.probability_higher, found.ratio) == (1, 0.5, None)
        assert found.lower <= 1 <= found.upper


def test_other_questions_are_named_or_dropped_on_request() -> None:
    a, b = samples([1, 0, 1], [1, 2, 3]), samples([1, 0], [1, 2])
    with pytest.raises(ValueError, match="only one method answered q2"):
        compare(a, b)
    found = compare(a, b, missing="drop")
    assert (found.questions, found.dropped) == (2, ("q2",))
    with pytest.raises(ValueError, match="share no question"):
        compare(a[:1], b[1:], missing="drop")


@pytest.mark.parametrize(
    ("accuracies", "cost", "questions", "epochs"),
    [([0.5, 0.35], 1.3, 5, 1), ([0.9, 0.8], 1.0, 20, 1), ([0.5, 0.35], 1.3, 20, 3)],
)
def test_the_paired_interval_covers_as_often_as_it_says(
    accuracies: list[float], cost: float, questions: int, epochs: int
) -> None:
    covered, _ = paired(accuracies, cost, questions, 300, epochs)
    assert covered >= 0.92


@pytest.mark.parametrize(
    ("scores_a", "scores_b", "words"),
    [
        ([0, 0], [0, 0], "accuracy undecided: no question differs; tokens 1.00 times"),
        ([1, 1], [0, 0], "; E³ has no ratio: the second has no right answer; n = 2"),
        ([1], [1], "tokens 1.00 times; E³ 1.00 times; n = 1; below 30"),
    ],
)
def test_a_comparison_is_said_in_a_sentence(
    scores_a: list[float], scores_b: list[float], words: str
) -> None:
    a, b = (samples(scores, [10] * len(scores)) for scores in (scores_a, scores_b))
    assert words in describe(compare(a, b))


P_VALUES = st.dictionaries(st.text(max_size=3), st.floats(0, 1), min_size=1, max_size=12)


@given(P_VALUES, st.floats(0.001, 0.5))
def test_holm_rejects_as_its_steps_down_do(p_values: dict[str, float], level: float) -> None:
    rejected = set()
    ranked = sorted(p_values, key=lambda n: p_values[n])
    for left, name in zip(range(len(p_values), 0, -1), ranked, strict=True):
        if p_values[name] * left > level:
            break
        rejected.add(name)
    assert {name for name, p in holm(p_values).items() if p <= level} == rejected


def trial(
    name: str, reference: Scores, row: Scores, *, loss: float, confidence: float
) -> NonInferiorityTest:
    [found] = run_in_order([name], reference, {name: row}, loss=loss, confidence=confidence)
    return found


def scores(right: int, wrong: int) -> dict[str, list[float]]:
    """So many questions right, then so many wrong."""
    return {str(n): [float(n < right)] for n in range(right + wrong)}


@pytest.mark.parametrize(
    ("flips", "questions", "bound"), [(3, 300, 2.56), (13, 1319, 1.56), (0, 99, 2.98)]
)
def test_the_bound_of_flips_is_the_exact_binomial_one(
    flips: int, questions: int, bound: float
) -> None:
    assert 100 * flip_bound(flips, questions, 0.95) == pytest.approx(bound, abs=0.005)


@given(st.lists(st.floats(-1, 1), min_size=1, max_size=80), st.floats(0.5, 0.99))
def test_the_bound_by_betting_is_never_below_the_mean_it_bounds(
    losses: list[float], confidence: float
) -> None:
    bound = loss_bound(losses, confidence)
    assert np.mean(losses) - 1e-9 <= bound <= 1.0
    assert bound <= loss_bound(losses, (1 + confidence) / 2) + 1e-9


def test_the_bound_by_betting_holds_as_often_as_it_says() -> None:
    random = np.random.default_rng(1)
    missed = sum(
        loss_bound(random.choice([-0.5, 0.0, 0.5], p=[0.1, 0.6, 0.3], size=120).tolist(), 0.9) < 0.1
        for _ in range(400)
    )
    assert 0 < missed <= 0.1 * 400 + 3 * math.sqrt(0.09 * 400)


def test_one_right_or_wrong_answer_each_is_counted_in_flips() -> None:
    found = trial("terse", scores(200, 100), scores(197, 103), loss=0.03, confidence=0.95)
    assert (found.worse, found.better, found.kind) == (3, 0, "exact")
    assert found.bound == pytest.approx(flip_bound(3, 300, 0.95))
    assert found.is_proven


def test_gains_do_not_make_up_for_flips_but_do_for_graded_scores() -> None:
    before = {str(n): [float(n % 2)] for n in range(400)}
    after = {str(n): [float(n % 2 == 0)] if n < 60 else before[str(n)] for n in range(400)}
    flipped = trial("other", before, after, loss=0.05, confidence=0.95)
    assert (flipped.loss, flipped.worse, flipped.better, flipped.is_proven) == (0.0, 30, 30, False)
    twice = trial(
        "other", {q: s * 2 for q, s in before.items()}, {q: s * 2 for q, s in after.items()},
        loss=0.05, confidence=0.95,
    )  # fmt: skip
    assert (twice.kind, twice.is_proven) == ("betting", True)


def test_candidates_are_cheaper_and_beaten_by_none_that_is_cheaper_still_dearest_first() -> None:
    rows = {
        "reference": (100.0, 0.8),
        "dear": (120.0, 0.9),
        "same cost": (100.0, 0.7),
        "good": (80.0, 0.78),
        "wasteful": (70.0, 0.4),
        "fair": (60.0, 0.6),
        "cheap": (20.0, 0.1),
    }
    assert order_for_testing(rows, "reference") == ["good", "fair", "cheap"]
