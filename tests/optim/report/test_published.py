import pytest

from optim.e3 import a_over_t, e3
from optim.report.published import PublishedRow, published_rows

METHODS = {
    "vanilla",
    "global_budget",
    "planned_vanilla",
    "planned_global_budget",
    "uniform",
    "weighted",
    "linear",
    "polynomial",
    "exponential",
    "cosine",
}
# The main table prints 0.103, the paper's own A/T table 0.104 for the same cell; 11.66² / 1306.54
# is 0.10406.
MISPRINTED = {"TravelPlanner/Llama-3.1-8B/linear/o4-mini": 0.104}


def name(row: PublishedRow) -> str:
    return f"{row.dataset}/{row.planner}/{row.method}/{row.model}"


def test_there_are_240_different_rows() -> None:
    rows = published_rows()
    assert len({name(row) for row in rows}) == len(rows) == 240
    assert {row.method for row in rows} == METHODS


def test_a_caller_cannot_spoil_the_rows_for_others() -> None:
    assert isinstance(published_rows(), tuple)
    with pytest.raises(AttributeError):
        published_rows()[0].score = 0.0  # type: ignore[misc]


def test_e3_is_the_printed_figure() -> None:
    for row in published_rows():
        printed = MISPRINTED.get(name(row), row.e3)
        half = 0.501 * 10 ** -max(2, len(str(printed).partition(".")[2]))
        assert e3([row.score / 100], [row.tokens]) == pytest.approx(printed, abs=half), name(row)
        assert row.e3 == pytest.approx(printed, abs=0.00101), name(row)


@pytest.mark.parametrize(
    ("method", "model", "printed"),
    [
        ("vanilla", "DeepSeek-R1-Distill-Qwen-32B", 4.26),
        ("vanilla", "o4-mini", 13.10),
        ("planned_global_budget", "DeepSeek-R1-Distill-Llama-70B", 5.57),
        ("linear", "DeepSeek-R1-Distill-Qwen-32B", 6.74),
        ("cosine", "o4-mini", None),
    ],
)
def test_a_over_t_is_a_hundredth_of_what_the_paper_prints(
    method: str, model: str, printed: float | None
) -> None:
    (row,) = [
        row
        for row in published_rows()
        if (row.dataset, row.planner, row.method, row.model)
        == ("MATH-500", "Llama-3.1-8B", method, model)
    ]
    expected = row.score / row.tokens * 100 if printed is None else printed
    assert 100 * a_over_t([row.score / 100], [row.tokens]) == pytest.approx(expected, abs=0.00501)
