from collections import Counter

from hypothesis import given
from hypothesis import strategies as st

from optim.datasets import Question, level_examples, sample


def question(name: str, level: int | None, text: str | None = None) -> Question:
    return Question(name, text or f"text of {name}", level, ("1",), None, "i", "f", "d")


LEVELS = st.lists(st.sampled_from([1, 2, 3, 4, 5, None]), min_size=1, max_size=60)
SEED = st.integers(0, 10)


def pool(levels: list[int | None]) -> list[Question]:
    return [question(f"q{i}", level) for i, level in enumerate(levels)]


def test_thirty_of_five_levels_are_six_of_each() -> None:
    skewed = pool([1] * 50 + [2] * 9 + [3] * 6 + [4] * 100 + [5] * 35)
    assert Counter(q.level for q in sample(skewed, 30, 0)) == dict.fromkeys(range(1, 6), 6)


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


def test_another_seed_draws_other_questions_and_begins_with_other_levels() -> None:
    there = pool([1, 2, 3, 4, 5] * 8)
    firsts = [sample(there, 1, seed)[0] for seed in range(20)]
    assert {question.level for question in firsts} == {1, 2, 3, 4, 5}
    assert len({question.id for question in firsts}) > 10


@given(LEVELS, st.integers(0, 40), SEED)
def test_examples_are_never_evaluated(levels: list[int | None], n: int, seed: int) -> None:
    everything = pool(levels)
    left = {f"Level {q.level}: {q.question}" for q in everything[n:]}
    found = level_examples(everything, everything[:n], seed).splitlines()
    assert set(found) <= left
    assert [int(line[6]) for line in found] == sorted({q.level for q in everything[n:] if q.level})


@given(st.integers(1, 15), st.integers(1, 15), SEED)
def test_examples_stay_when_more_is_evaluated(n: int, more: int, seed: int) -> None:
    everything = pool([1, 2, 3, 4, 5] * 8)
    few, many = sample(everything, n, seed), sample(everything, n + more, seed)
    assert level_examples(everything, few, seed) == level_examples(everything, many, seed)


def test_the_same_text_under_another_id_is_no_example() -> None:
    evaluated = [question("a", 1, "What is  2 + 2?")]
    copies = [question("b", 1, "what is 2 + 2? \n"), question("c", 2)]
    assert level_examples(copies, evaluated, 0) == "Level 2: text of c"


def test_examples_of_each_level_are_lines_of_bounded_length() -> None:
    there = [question("a", 1, "Short\n and  sweet"), question("b", 5, "long " * 1_000)]
    first, second = level_examples([question("e", 2), *there], [question("e", 2)], 0).splitlines()
    assert first == "Level 1: Short and sweet"
    assert second.startswith("Level 5: long long")
    assert second.endswith(" …")
    assert len(second) < 420
    assert level_examples([question("c", None)], [], 0) == ""
