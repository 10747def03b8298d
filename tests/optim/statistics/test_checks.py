import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from optim.statistics.checks import holm, mcnemar, t_p_value, t_quantile


@given(st.floats(0.01, 0.999), st.integers(1, 400))
def test_t_quantiles_are_students(confidence: float, degrees: int) -> None:
    expected = stats.t.ppf(0.5 + confidence / 2, degrees)
    assert t_quantile(confidence, degrees) == pytest.approx(expected, rel=1e-9)


@given(st.floats(-50, 50), st.integers(1, 400))
def test_t_p_values_are_students(statistic: float, degrees: int) -> None:
    expected = 2 * stats.t.sf(abs(statistic), degrees)
    # Near 0, scipy's own figure is wrong in the ninth digit: with one degree it is known exactly.
    assert t_p_value(statistic, degrees) == pytest.approx(expected, rel=1e-8, abs=1e-12)


@given(st.integers(0, 200), st.integers(0, 200))
def test_mcnemar_is_the_exact_binomial_test(only_a: int, only_b: int) -> None:
    pairs = only_a + only_b
    expected = stats.binomtest(only_a, pairs).pvalue if pairs else 1
    assert mcnemar(only_a, only_b) == pytest.approx(expected)


P_VALUES = st.dictionaries(st.text(max_size=3), st.floats(0, 1), max_size=12)


@given(P_VALUES)
def test_holm_only_raises_and_keeps_the_order(p_values: dict[str, float]) -> None:
    adjusted = holm(p_values)
    assert list(adjusted) == list(p_values)
    assert all(p_values[name] <= adjusted[name] <= 1 for name in p_values)
    ranked = sorted(p_values, key=lambda name: p_values[name])
    assert [adjusted[name] for name in ranked] == sorted(adjusted.values())


@given(P_VALUES.filter(bool), st.floats(0.001, 0.5))
def test_holm_rejects_as_its_steps_down_do(p_values: dict[str, float], level: float) -> None:
    rejected = set()
    for left, name in zip(
        range(len(p_values), 0, -1), sorted(p_values, key=lambda n: p_values[n]), strict=True
    ):
        if p_values[name] * left > level:
            break
        rejected.add(name)
    assert {name for name, p in holm(p_values).items() if p <= level} == rejected


def test_holm_by_hand() -> None:
    assert holm({"a": 0.04, "b": 0.01, "c": 0.03}) == pytest.approx(
        {"a": 0.06, "b": 0.03, "c": 0.06}
    )
    assert holm({}) == {}
