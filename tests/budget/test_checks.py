"""What passes for a number."""

from fractions import Fraction

import numpy as np
import pytest

from pb_graph.budget.checks import real_number, whole_number


@pytest.mark.parametrize("value", [2, 2.0, Fraction(2), np.float32(2), np.int64(2)])
def test_any_real_type_is_a_real_number(value: float) -> None:
    assert real_number("x", value) == 2.0


@pytest.mark.parametrize("value", [True, "2", None, 2j, [2], np.True_])
def test_what_is_no_number_is_refused_by_name(value: object) -> None:
    with pytest.raises(ValueError, match=r"^x must be a number"):
        real_number("x", value)


@pytest.mark.parametrize("value", [float("nan"), float("inf"), -float("inf"), 10**400])
def test_what_no_finite_float_holds_is_refused(value: float) -> None:
    with pytest.raises(ValueError, match=r"^x must be finite"):
        real_number("x", value)


def test_whole_numbers_have_no_upper_end() -> None:
    assert whole_number("n", 10**30, least=1) == 10**30
    assert whole_number("n", np.int32(3), least=3) == 3


@pytest.mark.parametrize("value", [2, 3.0, True, "3", None])
def test_the_least_is_named_when_a_whole_number_is_refused(value: object) -> None:
    with pytest.raises(ValueError, match=r"^n must be a whole number of at least 3, not "):
        whole_number("n", value, least=3)
