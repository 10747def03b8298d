import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from optim.statistics.checks import holm, mcnemar


@given(st.integers(0, 200), st.integers(0, 200))
def test_mcnemar_is_the_exact_binomial_test(only_a: int, only_b: int) -> None:
    pairs = only_a + only_b
    expected = stats.binomtest(only_a, pairs).pvalue if pairs else 1
    assert mcnemar(only_a, only_b) == pytest.approx(expected)


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


def test_holm_by_hand() -> None:
    assert holm({"a": 0.04, "b": 0.01, "c": 0.03}) == pytest.approx(
        {"a": 0.06, "b": 0.03, "c": 0.06}
    )
