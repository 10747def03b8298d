from collections import Counter

from hypothesis import given
from hypothesis import strategies as st

from optim.datasets import Question, sample

LEVELS = st.lists(st.sampled_from([1, 2, 3, 4, 5, None]), min_size=1, max_size=60)
SEED = st.integers(0, 10)


def pool(levels: list[int | None]) -> list[Question]:
    return [Question(f"q{i}", f"text of q{i}", level) for i, level in enumerate(levels)]


@given(LEVELS, st.integers(1, 70), SEED)
def test_levels_differ_by_one_at_most_unless_one_runs_out(
    levels: list[int | None], n: int, seed: int
) -> None:
    drawn = sample(pool(levels), n, seed)
    assert len({q.id for q in drawn}) == len(drawn) == min(n, len(levels))
    there, taken = Counter(levels), Counter(q.level for q in drawn)
    most = max(taken.values())
    assert all(taken[level] >= min(most - 1, there[level]) for level in there)


@given(LEVELS, st.integers(1, 30), st.integers(0, 30), SEED)
def test_samples_are_nested(levels: list[int | None], n: int, more: int, seed: int) -> None:
    assert sample(pool(levels), n + more, seed)[:n] == sample(pool(levels), n, seed)


@given(LEVELS, st.randoms(), SEED)
def test_the_order_of_the_file_does_not_matter(levels: list[int | None], random, seed: int) -> None:  # noqa: ANN001 - hypothesis gives no public type
    shuffled = pool(levels)
    random.shuffle(shuffled)
    assert sample(shuffled, 10, seed) == sample(pool(levels), 10, seed)


def test_the_draw_is_the_same_on_every_machine() -> None:
    drawn = sample(pool([1, 2, 3] * 10), 6, seed=0)
    assert [q.id for q in drawn] == ["q15", "q16", "q26", "q29", "q27", "q13"]
