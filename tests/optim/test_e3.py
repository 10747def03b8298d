import dataclasses
import json
import math
from collections.abc import Sequence

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from optim.e3 import Incumbent, Sample, a_over_t, compare, e3, interval, surrogate
from optim.statistics.p_values import mcnemar, t_p_value, t_quantile

SCORE = st.floats(0, 1).filter(lambda x: x == 0 or x > 1e-6)
TOKENS = st.floats(1, 1e5)
ITEMS = st.lists(st.tuples(SCORE, TOKENS), min_size=1, max_size=30)
SOME_RIGHT = ITEMS.filter(lambda items: any(score for score, _ in items))


def samples(scores: Sequence[float], tokens: Sequence[float], repeats: int = 1) -> list[Sample]:
    return [
        Sample(f"q{i // repeats}", score, spent)
        for i, (score, spent) in enumerate(zip(scores, tokens, strict=True))
    ]


# --- the figures


def test_e3_is_accuracy_in_percent_squared_over_mean_tokens() -> None:
    assert e3([1, 0], [100, 300]) == 50**2 / 200
    assert a_over_t([1, 0], [100, 300]) == 50 / 200


@given(SOME_RIGHT, st.floats(0.1, 10))
def test_e3_falls_as_tokens_grow(items: list[tuple[float, float]], factor: float) -> None:
    scores, tokens = zip(*items, strict=True)
    scaled = e3(scores, [factor * t for t in tokens])
    assert scaled == pytest.approx(e3(scores, tokens) / factor)


@given(ITEMS, st.randoms())
def test_e3_does_not_depend_on_the_order(items: list[tuple[float, float]], random) -> None:  # noqa: ANN001 - hypothesis gives no public type
    before = e3(*zip(*items, strict=True))
    random.shuffle(items)
    assert e3(*zip(*items, strict=True)) == pytest.approx(before)


def test_no_right_answer_gives_zero() -> None:
    assert e3([0, 0], [10, 20]) == 0.0


def test_a_query_without_tokens_counts() -> None:
    assert e3([1, 1], [0, 100]) == 200.0


@pytest.mark.parametrize(
    ("scores", "tokens", "reason"),
    [
        ([], [], "at least one score"),
        ([1], [], "at least one token count"),
        ([1, 0], [5], "2 scores but 1 tokens"),
        ([math.nan], [5], "not NaN"),
        ([None], [5], "a missing one"),
        (["right"], [5], "must be a number"),
        ([50], [5], "not in percent"),
        ([-0.1], [5], r"lie in \[0, 1\]"),
        ([1], [-1], "0 or more"),
        ([1], [math.inf], "unknown must be left out"),
        ([1], [math.nan], "unknown must be left out"),
        ([1, 0], [0, 0], "usage is measured"),
        ([[1, 0]], [5], "flat sequence"),
    ],
)
def test_what_would_mislead_is_refused(scores: list, tokens: list, reason: str) -> None:
    for measure in (e3, a_over_t, interval):
        with pytest.raises(ValueError, match=reason):
            measure(scores, tokens)


# --- the interval


def test_the_standard_error_is_that_of_the_influences() -> None:
    scores, tokens = np.array([1, 0, 1, 1.0]), np.array([100, 250, 80, 120.0])
    psi = 2 * (scores - 0.75) / 0.75 - (tokens - 137.5) / 137.5
    found = interval(scores, tokens)
    assert found.method == "delta"
    assert found.log_se == pytest.approx(psi.std(ddof=1) / 2)
    reach = math.exp(stats.t.ppf(0.975, 3) * psi.std(ddof=1) / 2)
    assert (found.lower, found.upper) == pytest.approx((found.e3 / reach, found.e3 * reach))


@given(SOME_RIGHT.filter(lambda items: len(items) > 1), st.floats(0.5, 0.99))
def test_the_interval_holds_the_estimate(
    items: list[tuple[float, float]], confidence: float
) -> None:
    found = interval(*zip(*items, strict=True), confidence=confidence)
    assert found.lower is not None
    assert found.lower <= found.e3 * (1 + 1e-9)
    assert found.upper is None or found.e3 <= found.upper * (1 + 1e-9)
    json.dumps(dataclasses.asdict(found), allow_nan=False)


@given(SOME_RIGHT.filter(lambda items: len(items) > 1), st.integers(2, 5))
def test_copies_of_a_question_add_no_evidence(items: list[tuple[float, float]], times: int) -> None:
    scores, tokens = zip(*items, strict=True)
    once = interval(scores, tokens)
    ids = list(range(len(items))) * times
    repeated = interval(scores * times, tokens * times, clusters=ids)
    assert repeated.clusters == len(items)
    assert repeated.log_se == pytest.approx(once.log_se, rel=1e-6, abs=1e-12)


def test_one_question_has_no_interval() -> None:
    for found in (interval([1], [10]), interval([1, 0], [10, 20], clusters=["a", "a"])):
        assert found.method == "undefined"
        assert found.lower is found.upper is found.log_se is None
        assert found.e3 > 0


def test_zero_accuracy_is_bounded_from_above() -> None:
    found = interval([0] * 30, [100] * 30)
    assert (found.e3, found.lower, found.method) == (0.0, 0.0, "zero_accuracy")
    chance = stats.binomtest(0, 30).proportion_ci(0.95, "exact").high
    assert found.upper == pytest.approx((100 * chance) ** 2 / 100)


def test_the_zero_accuracy_bound_counts_questions_not_samples() -> None:
    repeated = interval([0] * 60, [100] * 60, clusters=[i // 2 for i in range(60)])
    assert repeated.upper == pytest.approx(interval([0] * 30, [100] * 30).upper)


def test_an_end_beyond_doubles_is_left_open() -> None:
    found = interval([1, 0], [100, 1], confidence=0.9999)
    assert (found.lower, found.upper) == (0.0, None)


@pytest.mark.parametrize("confidence", [0, 1, -1, math.nan])
def test_a_confidence_that_is_none_is_refused(confidence: float) -> None:
    with pytest.raises(ValueError, match="between 0 and 1"):
        interval([1, 0], [1, 2], confidence=confidence)


def test_clusters_of_another_length_are_refused() -> None:
    with pytest.raises(ValueError, match="2 samples but 1 clusters"):
        interval([1, 0], [1, 2], clusters=["a"])


def draw(random: np.random.Generator, questions: int, epochs: int) -> tuple[np.ndarray, np.ndarray]:
    """Scores and tokens of questions that differ in difficulty, wrong answers being longer."""
    ability = random.beta(1.5, 1.5, questions).repeat(epochs)
    right = random.random(questions * epochs) < ability
    tokens = np.exp(random.normal(6 + 0.8 * (1 - ability), 0.5)) * np.where(right, 1, 1.4)
    return right.astype(float), tokens


@pytest.mark.parametrize(("questions", "epochs"), [(30, 1), (100, 1), (40, 5)])
def test_the_interval_covers_as_often_as_it_says(questions: int, epochs: int) -> None:
    random = np.random.default_rng(7)
    truth = e3(*draw(random, 400_000, 1))
    ids = [i // epochs for i in range(questions * epochs)]
    found = [interval(*draw(random, questions, epochs), clusters=ids) for _ in range(400)]
    covered = sum(i.lower <= truth <= i.upper for i in found) / 400
    assert 0.92 <= covered <= 0.98


# --- the comparison


def test_the_ratio_is_paired_by_question_in_any_order() -> None:
    a = samples([1, 1, 0, 1], [100, 90, 200, 120])
    b = samples([1, 0, 0, 1], [150, 160, 210, 170])
    found = compare(a, list(reversed(b)))
    assert found == compare(a, b)
    assert found.ratio == pytest.approx(found.e3_a / found.e3_b)
    assert found.lower < found.ratio < found.upper
    assert found.accuracy_difference == 25.0
    assert (found.questions, found.dropped) == (4, ())


@given(SOME_RIGHT.filter(lambda items: len(items) > 1))
@settings(max_examples=30)
def test_a_method_equals_itself(items: list[tuple[float, float]]) -> None:
    arm = samples(*zip(*items, strict=True))
    found = compare(arm, arm, resamples=50)
    assert (found.ratio, found.lower, found.upper, found.p_value) == (1, 1, 1, 1)
    assert (found.probability_better, found.accuracy_difference) == (0.5, 0)


@given(st.lists(st.tuples(SCORE, TOKENS, SCORE, TOKENS), min_size=2, max_size=20))
@settings(max_examples=50)
def test_swapping_the_methods_inverts_the_comparison(items: list[tuple[float, ...]]) -> None:
    score_a, tokens_a, score_b, tokens_b = zip(*items, strict=True)
    a, b = samples(score_a, tokens_a), samples(score_b, tokens_b)
    there, back = compare(a, b, resamples=50), compare(b, a, resamples=50)
    assert there.probability_better == pytest.approx(1 - back.probability_better)
    assert there.p_value == pytest.approx(back.p_value)
    if there.ratio and back.ratio:
        assert there.ratio == pytest.approx(1 / back.ratio)
    json.dumps(dataclasses.asdict(there), allow_nan=False)


def test_twice_the_tokens_everywhere_is_half_the_e3_for_certain() -> None:
    a = samples([1, 0.5, 1], [10, 20, 30])
    b = samples([1, 0.5, 1], [20, 40, 60])
    found = compare(b, a)
    assert (found.ratio, found.p_value, found.probability_better) == (0.5, 0, 0)


def test_accuracy_alone_is_mcnemars_exact_test() -> None:
    found = compare(samples([1] * 9 + [0], [9] * 10), samples([0] * 8 + [1, 1], [9] * 10))
    assert found.accuracy_test == "mcnemar"
    assert found.accuracy_p_value == pytest.approx(stats.binomtest(1, 9).pvalue)


@pytest.mark.parametrize("repeats", [1, 2])
def test_graded_or_repeated_scores_are_compared_by_a_paired_t_test(repeats: int) -> None:
    random = np.random.default_rng(0)
    scores_a, scores_b = random.random((2, 20))
    found = compare(
        samples(scores_a, [10] * 20, repeats), samples(scores_b, [10] * 20, repeats), resamples=50
    )
    means = [scores.reshape(-1, repeats).mean(axis=1) for scores in (scores_a, scores_b)]
    assert found.accuracy_test == "paired_t"
    assert found.accuracy_p_value == pytest.approx(stats.ttest_rel(*means).pvalue)
    assert found.questions == 20 / repeats


def test_without_a_right_answer_the_log_scale_is_left_out() -> None:
    none, some = samples([0] * 8, [10] * 8), samples([1] * 6 + [0] * 2, [10] * 8)
    worse, better = compare(none, some), compare(some, none)
    assert (worse.ratio, better.ratio) == (0, None)
    assert worse.lower is worse.upper is better.lower is better.log_se is None
    assert worse.p_value_method == better.p_value_method == "mcnemar"
    assert worse.p_value == better.p_value == pytest.approx(2 / 2**6)
    assert better.probability_better > 0.99
    assert compare(none, none).p_value == 1


def test_without_a_right_answer_and_mcnemar_the_bootstrap_decides() -> None:
    none, some = samples([0] * 8, [10] * 8), samples([0.5] * 6 + [0] * 2, [10] * 8)
    found = compare(some, none)
    assert found.p_value_method == "bootstrap"
    assert found.p_value < 0.05


def test_one_question_shows_figures_but_no_test() -> None:
    found = compare([Sample("q", 0.5, 10)], [Sample("q", 0.25, 10)])
    assert found.ratio == 4
    assert (
        found.p_value is found.probability_better is found.accuracy_p_value is found.upper is None
    )


def test_other_questions_are_named_or_dropped_on_request() -> None:
    a, b = samples([1, 0, 1], [1, 2, 3]), samples([1, 0], [1, 2])
    with pytest.raises(ValueError, match=r"1 questions only in a, 0 only in b \(q2\)"):
        compare(a, b)
    found = compare(a, b, missing="drop")
    assert (found.questions, found.dropped, found.samples_a) == (2, ("q2",), 2)
    with pytest.raises(ValueError, match="share no question"):
        compare(a[:1], b[1:], missing="drop")


def test_the_bootstrap_is_seeded() -> None:
    random = np.random.default_rng(3)
    a, b = samples(*draw(random, 30, 1)), samples(*draw(random, 30, 1))
    found = [compare(a, b, seed=seed, resamples=500).probability_better for seed in (1, 1, 2)]
    assert found[0] == found[1] != found[2]


@pytest.mark.parametrize(
    ("options", "reason"),
    [({"missing": "skip"}, "error"), ({"resamples": 0}, "at least 1"), ({"confidence": 2}, "1")],
)
def test_choices_that_do_not_exist_are_refused(options: dict, reason: str) -> None:
    arm = samples([1, 0], [1, 2])
    with pytest.raises(ValueError, match=reason):
        compare(arm, arm, **options)


def test_a_bad_sample_is_named_by_its_question() -> None:
    with pytest.raises(ValueError, match=r"question 'q7'.*percent"):
        Sample("q7", 70, 10)
    with pytest.raises(ValueError, match="question 'q7'"):
        Sample("q7", 1, math.nan)


@pytest.mark.parametrize(("questions", "epochs"), [(40, 1), (30, 3)])
def test_the_paired_interval_covers_as_often_as_it_says(questions: int, epochs: int) -> None:
    random = np.random.default_rng(11)

    def arms(count: int, times: int) -> list[tuple[np.ndarray, np.ndarray]]:
        ability = random.beta(1.5, 1.5, count).repeat(times)
        rights = [random.random(len(ability)) < np.clip(ability + gain, 0, 1) for gain in (0.1, 0)]
        spent = [np.exp(random.normal(6 - ability, 0.5)) * cost for cost in (0.8, 1.0)]
        return list(zip([right.astype(float) for right in rights], spent, strict=True))

    large_a, large_b = arms(400_000, 1)
    truth, covered = e3(*large_a) / e3(*large_b), 0
    for _ in range(300):
        a, b = arms(questions, epochs)
        found = compare(samples(*a, epochs), samples(*b, epochs), resamples=1)
        covered += found.lower <= truth <= found.upper
    assert 0.91 <= covered / 300 <= 0.99


# --- the tangent


@given(ITEMS, st.floats(0.1, 100), st.floats(1, 1e5))
def test_the_mean_surrogate_never_exceeds_the_true_ratio(
    items: list[tuple[float, float]], accuracy: float, tokens: float
) -> None:
    incumbent = Incumbent(accuracy, tokens)
    mean = sum(surrogate(a, t, incumbent) for a, t in items) / len(items)
    ratio = e3(*zip(*items, strict=True)) / (accuracy**2 / tokens)
    assert mean <= ratio + 1e-9 * (1 + abs(mean) + ratio)


@given(SOME_RIGHT, SOME_RIGHT)
def test_a_mean_surrogate_above_one_proves_an_improvement(
    old: list[tuple[float, float]], new: list[tuple[float, float]]
) -> None:
    incumbent = Incumbent.of(*zip(*old, strict=True))
    mean = sum(surrogate(a, t, incumbent) for a, t in new) / len(new)
    if mean > 1 + 1e-9:
        assert e3(*zip(*new, strict=True)) > e3(*zip(*old, strict=True))


@given(SOME_RIGHT)
def test_the_incumbent_itself_scores_one(items: list[tuple[float, float]]) -> None:
    incumbent = Incumbent.of(*zip(*items, strict=True))
    mean = sum(surrogate(a, t, incumbent) for a, t in items) / len(items)
    assert mean == pytest.approx(1)


def test_an_incumbent_without_a_right_answer_asks_for_a_floor() -> None:
    with pytest.raises(ValueError, match="half a correct answer"):
        Incumbent.of([0, 0], [1, 2])
    with pytest.raises(ValueError, match="above 0"):
        Incumbent(50, 0)
    with pytest.raises(ValueError, match="percent"):
        surrogate(30, 10, Incumbent(50, 10))


# --- what stands in for SciPy


@given(st.floats(0.01, 0.999), st.integers(1, 400))
def test_t_quantiles_are_students(confidence: float, degrees: int) -> None:
    expected = stats.t.ppf(0.5 + confidence / 2, degrees)
    assert t_quantile(confidence, degrees) == pytest.approx(expected, rel=1e-9)


@given(st.floats(-50, 50), st.integers(1, 400))
def test_t_p_values_are_students(statistic: float, degrees: int) -> None:
    expected = 2 * stats.t.sf(abs(statistic), degrees)
    assert t_p_value(statistic, degrees) == pytest.approx(expected, abs=1e-12)


@given(st.integers(0, 200), st.integers(0, 200))
def test_mcnemar_is_the_exact_binomial_test(only_a: int, only_b: int) -> None:
    pairs = only_a + only_b
    expected = stats.binomtest(only_a, pairs).pvalue if pairs else 1
    assert mcnemar(only_a, only_b) == pytest.approx(expected)
