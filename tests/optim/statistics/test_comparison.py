import dataclasses
import json
import math
from collections.abc import Sequence

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from optim.e3 import Sample, compare, describe, holm
from tests.benchmarks.interval_coverage import paired

SCORE = st.floats(0, 1).filter(lambda x: x == 0 or x > 1e-6)
TOKENS = st.floats(1, 1e5)
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
    [
        ([0.5, 0.35], 1.3, 5, 1),
        ([0.5, 0.35], 1.3, 10, 1),
        ([0.9, 0.8], 1.0, 20, 1),
        ([0.4, 0.4], 1.0, 60, 1),
        ([0.5, 0.35], 1.3, 20, 3),
    ],
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
        (
            [1, 1],
            [0, 0],
            "; E³ has no ratio: the second has no right answer; n = 2",
        ),
        ([1, 0], [1, 1], "accuracy -50.0 points (-100.0 to"),
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
