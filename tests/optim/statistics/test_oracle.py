"""The best row for every question, what that reaches, and where a row's tokens go."""

from __future__ import annotations

import random
from itertools import product

import pytest
from hypothesis import given
from hypothesis import strategies as st

from optim.statistics.oracle import Answer, Answers, oracle, reached, waste
from pb_graph.errors import InputError

answers = st.builds(Answer, st.booleans(), st.integers(1, 500), st.booleans())
one_each = st.lists(st.lists(answers, min_size=3, max_size=3), min_size=1, max_size=5)


def table(rows: list[list[Answer]]) -> dict[str, dict[str, list[Answer]]]:
    """One answer of each row to each question: a list of answers for each question."""
    return {
        f"r{row}": {f"q{number}": [cells[row]] for number, cells in enumerate(rows)}
        for row in range(len(rows[0]))
    }


def e3_of(picked: tuple[Answer, ...]) -> float:
    n = len(picked)
    return (100 * sum(a.right for a in picked) / n) ** 2 / (sum(a.tokens for a in picked) / n)


@given(one_each)
def test_no_other_choice_of_rows_has_a_higher_e3(rows: list[list[Answer]]) -> None:
    best = oracle(table(rows))
    assert best.e3 == pytest.approx(max(map(e3_of, product(*rows))))
    assert not best.split
    assert sum(best.picks.values()) == best.questions == len(rows)


@given(one_each)
def test_no_row_gets_more_than_is_reachable_with_one_answer_each(rows: list[list[Answer]]) -> None:
    found = table(rows)
    best = oracle(found)
    for row in found:
        share = reached(found, row, best)
        assert share.ratio is None or share.ratio <= 1 + 1e-9


@given(
    st.lists(st.lists(answers, min_size=2, max_size=2), min_size=2, max_size=4), st.integers(1, 4)
)
def test_the_parts_add_up_to_what_was_spent(rows: list[list[Answer]], epochs: int) -> None:
    found = {row: {q: cell * epochs for q, cell in of.items()} for row, of in table(rows).items()}
    for row, of in found.items():
        parts = waste(found, row)
        spent = [answer.tokens for cell in of.values() for answer in cell]
        total = parts.needed + parts.overthinking + parts.starvation + parts.missed + parts.futility
        assert total == pytest.approx(sum(spent) / len(spent))


def test_a_question_that_is_too_dear_to_get_right_is_given_up() -> None:
    rows = {
        "cheap": {"easy": [Answer(True, 10)], "hard": [Answer(False, 10)]},
        "dear": {"easy": [Answer(True, 100)], "hard": [Answer(True, 1000)]},
    }
    best = oracle(rows)
    assert (best.accuracy, best.tokens, best.picks) == (50, 10, {"cheap": 2, "dear": 0})
    rows["dear"]["hard"] = [Answer(True, 30)]
    assert (oracle(rows).accuracy, oracle(rows).tokens) == (100, 20)


def test_luck_makes_an_oracle_of_single_answers_and_halves_see_through_it() -> None:
    """Eight rows that are alike: none is better than another, so there is nothing to choose."""
    chance = random.Random(0)  # noqa: S311

    def drawn(epochs: int) -> Answers:
        return {
            f"r{row}": {
                f"q{n}": [Answer(chance.random() < 0.5, 100) for _ in range(epochs)]
                for n in range(300)
            }
            for row in range(8)
        }

    lucky, halved = oracle(drawn(1)), oracle(drawn(2))
    assert lucky.accuracy > 97
    assert halved.split
    assert halved.accuracy == pytest.approx(50, abs=6)


def test_a_difference_that_is_real_is_found_by_halves() -> None:
    rows = {
        "odd": {f"q{n}": [Answer(n % 2 == 1, 50)] * 4 for n in range(40)},
        "even": {f"q{n}": [Answer(n % 2 == 0, 100)] * 4 for n in range(40)},
    }
    best = oracle(rows)
    assert (best.accuracy, best.tokens) == (100, 75)
    share = reached(rows, "odd", best)
    assert share.ratio == pytest.approx((50**2 / 50) / (100**2 / 75))
    assert (share.lower or 1) < share.ratio < (share.upper or 0)


def test_a_dearer_row_is_worth_only_what_it_adds_to_a_cheap_one_that_is_sometimes_right() -> None:
    cheap = [Answer(True, 10), Answer(False, 10), Answer(False, 10)] * 2
    rows = {"cheap": {"q": cheap}, "dear": {"q": [Answer(True, 100)] * 6}}
    assert oracle(rows).picks == {"cheap": 2, "dear": 0}  # (1/3)² / 10 is above 1² / 100
    rows["dear"]["q"] = [Answer(True, 80)] * 6
    assert oracle(rows).picks == {"cheap": 0, "dear": 2}


def test_where_tokens_go() -> None:
    rows = {
        "short": {
            "easy": [Answer(True, 20)],
            "hard": [Answer(False, 50, cut=True)],
            "odd": [Answer(False, 40)],
            "hopeless": [Answer(False, 30)],
        },
        "long": {
            "easy": [Answer(True, 90)],
            "hard": [Answer(True, 200)],
            "odd": [Answer(True, 30)],
            "hopeless": [Answer(False, 400, cut=True)],
        },
    }
    short, long = waste(rows, "short"), waste(rows, "long")
    assert (short.needed, short.overthinking, short.starvation) == (5, 0, 12.5)
    assert (short.missed, short.futility) == (10, 7.5)
    assert (long.needed, long.overthinking) == ((20 + 200 + 30) / 4, 70 / 4)
    assert (long.starvation, long.missed, long.futility) == (0, 0, 100)


def test_only_questions_that_all_rows_have_answered_count() -> None:
    rows = {"a": {"1": [Answer(True, 10)], "2": [Answer(True, 9)]}, "b": {"1": [Answer(False, 5)]}}
    assert oracle(rows).questions == 1
    with pytest.raises(InputError, match="no question was answered by all rows"):
        oracle(rows | {"c": {"3": [Answer(True, 1)]}})
    with pytest.raises(InputError, match="no row"):
        oracle({})
