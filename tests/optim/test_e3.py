import pytest
from hypothesis import given
from hypothesis import strategies as st

from optim.e3 import ReferencePoint, e3, surrogate

SCORE = st.floats(0, 1).filter(lambda x: x == 0 or x > 1e-6)
TOKENS = st.floats(1, 1e5)
ITEMS = st.lists(st.tuples(SCORE, TOKENS), min_size=1, max_size=30)
SOME_RIGHT = ITEMS.filter(lambda items: any(score for score, _ in items))


@given(ITEMS, st.floats(0.1, 100), st.floats(1, 1e5))
def test_the_mean_surrogate_never_exceeds_the_true_ratio(
    items: list[tuple[float, float]], accuracy: float, tokens: float
) -> None:
    incumbent = ReferencePoint(accuracy, tokens)
    mean = sum(surrogate(a, t, incumbent) for a, t in items) / len(items)
    ratio = e3(*zip(*items, strict=True)) / (accuracy**2 / tokens)
    assert mean <= ratio + 1e-9 * (1 + abs(mean) + ratio)


@given(SOME_RIGHT, SOME_RIGHT)
def test_a_mean_surrogate_above_one_proves_an_improvement(
    old: list[tuple[float, float]], new: list[tuple[float, float]]
) -> None:
    incumbent = ReferencePoint.of(*zip(*old, strict=True))
    mean = sum(surrogate(a, t, incumbent) for a, t in new) / len(new)
    if mean > 1 + 1e-9:
        assert e3(*zip(*new, strict=True)) > e3(*zip(*old, strict=True))


def test_an_incumbent_without_a_right_answer_asks_for_a_floor() -> None:
    with pytest.raises(ValueError, match="none of the 2 answers is right"):
        ReferencePoint.of([0, 0], [1, 2])
    with pytest.raises(ValueError, match="above 0"):
        ReferencePoint(50, 0)
    with pytest.raises(ValueError, match="percent"):
        surrogate(30, 10, ReferencePoint(50, 10))
