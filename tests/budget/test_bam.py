"""The allocation that leaves the least uncertainty, against the exact one of `optim`."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from optim import bam as exact
from pb_graph.budget import optimal_allocation

QUERIES = st.lists(st.tuples(st.floats(1e-3, 1e3), st.floats(0.1, 8)), min_size=1, max_size=6)


@given(QUERIES, st.floats(1e-2, 1e6))
def test_it_is_the_exact_optimum(query: list[tuple[float, float]], total: float) -> None:
    c, beta = [one for one, _ in query], [one for _, one in query]
    expected = exact.optimal_allocation(c, beta, total)
    assert optimal_allocation(c, beta, total) == pytest.approx(expected.tolist(), rel=1e-9)


def test_equal_sub_questions_share_equally() -> None:
    assert optimal_allocation([3, 3, 3], [2, 2, 2], 12) == pytest.approx([4, 4, 4])


@pytest.mark.parametrize(
    ("c", "beta", "total"),
    [([], [], 10), ([1, 0], [1, 1], 10), ([1], [-1], 10), ([1], [1], 0), ([1], [1, 2], 10)],
)
def test_an_unusable_argument_is_refused(c: list[float], beta: list[float], total: float) -> None:
    with pytest.raises(ValueError, match=r"must be above 0|zip"):
        optimal_allocation(c, beta, total)
