import dataclasses
import json
import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from optim.e3 import accuracy_interval, e3, interval, smoothed_e3, token_interval
from optim.statistics.estimates import exp_interval
from tests.benchmarks.interval_coverage import of_accuracy, single

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
    ("accuracy", "questions", "epochs"),
    [(0.4, 5, 1), (0.8, 5, 1), (0.8, 10, 1), (0.9, 20, 1), (0.9, 60, 1), (0.9, 10, 5)],
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
