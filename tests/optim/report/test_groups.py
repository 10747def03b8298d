from __future__ import annotations

import pytest

from optim.e3 import Sample, compare, holm
from optim.records import Record
from optim.report import studies
from optim.summary import rows
from pb_graph import InputError
from tests.optim.report.samples import record, records


def test_a_study_is_a_data_set_with_a_solver_and_a_planner() -> None:
    mixed = [*records(["vanilla"]), *records(["vanilla"], dataset="gsm8k")]
    mixed += records(["vanilla"], planner="another")
    found = studies(mixed)
    assert [(s.dataset, s.planner == "another") for s in found] == [
        ("math500", False),
        ("gsm8k", False),
        ("math500", True),
    ]
    assert [len(study.records) for study in found] == [30, 30, 30]
    assert found[0].rows == rows(records(["vanilla"]))


def test_all_methods_are_compared_with_the_baseline() -> None:
    [study] = studies(records(), "vanilla")
    assert study.baseline == "vanilla"
    assert [versus.method for versus in study.versus] == study.methods[1:]
    for versus in study.versus:
        found = versus.comparison
        assert found is not None
        assert found.questions == 30 - len(found.dropped)
        share = 100 * (versus.gained - versus.lost) / found.questions
        assert found.accuracy_difference == pytest.approx(share)


@pytest.mark.parametrize(
    ("methods", "expected"),
    [
        (("vanilla", "cosine", "global_budget"), "global_budget"),
        (("cosine", "vanilla"), "vanilla"),
        (("cosine", "linear"), "cosine"),
        (("global_budget",), None),
    ],
)
def test_without_a_choice_the_usual_baseline_is_taken(
    methods: tuple[str, ...], expected: str | None
) -> None:
    [study] = studies(records(methods))
    assert study.baseline == expected
    assert bool(study.versus) is (expected is not None)


def test_an_unknown_baseline_is_an_error_that_names_those_there_are() -> None:
    with pytest.raises(InputError, match=r"no baseline named 'best'; there are: vanilla, cosine$"):
        studies(records(["vanilla", "cosine"]), "best")


def test_nothing_to_report_on_is_an_error() -> None:
    with pytest.raises(InputError, match="no answer"):
        studies([])


def test_p_values_are_corrected_for_their_number() -> None:
    [study] = studies(records())
    pairs = [
        (versus.comparison.p_value, versus.adjusted_p)
        for versus in study.versus
        if versus.comparison is not None
    ]
    ordered = sorted((p or 0.0, q or 0.0) for p, q in pairs)
    assert ordered[0][1] == pytest.approx(min(1.0, len(ordered) * ordered[0][0]))
    assert all(q >= p for p, q in ordered)
    assert [q for _, q in ordered] == sorted(q for _, q in ordered)


def test_better_and_worse_are_told_of_means_that_differ_by_more_than_rounding() -> None:
    """Of three graded answers each, whose means are both 0.2."""
    scores = {"vanilla": (0.2, 0.2, 0.2), "cosine": (0.1, 0.2, 0.3)}
    [study] = studies(
        [record(m, 0, n, score=one) for m, each in scores.items() for n, one in enumerate(each)]
        + [record(m, 1, score=0.5) for m in scores]
    )
    [versus] = study.versus
    assert versus.comparison is not None
    assert versus.comparison.accuracy_undecided
    assert (versus.gained, versus.lost) == (0, 0)


def test_methods_without_a_shared_question_say_so() -> None:
    apart = [record("vanilla", q) for q in range(5)] + [record("cosine", q) for q in range(5, 9)]
    [study] = studies(apart)
    assert study.versus[0].comparison is None
    assert "share no question" in str(study.versus[0].why_not)
    assert study.incomplete() == {"vanilla": 4, "cosine": 5}


def test_what_is_missing_is_counted_in_questions_however_often_they_were_asked() -> None:
    found = records(["vanilla", "cosine"], questions=6, epochs=2)
    assert studies(found)[0].incomplete() == {}
    last = found[-1].question
    few = [r for r in found if r.method == "vanilla" or r.question != last]
    assert studies(few)[0].incomplete() == {"cosine": 1}


def test_questions_come_easiest_first() -> None:
    [study] = studies(records(["vanilla"], questions=7))
    numbers = [question.split("/")[-1] for question in study.questions]
    assert numbers == [f"{n}.json" for n in (100, 105, 101, 106, 102, 103, 104)]


def test_accuracys_p_values_are_corrected_like_those_of_e3() -> None:
    found = records(["vanilla"], skill=0, errors=False) + records(["cosine", "linear"])
    [study] = studies(found)
    plain = {v.method: v.comparison.accuracy_p_value for v in study.versus if v.comparison}
    assert {v.method: v.adjusted_accuracy_p for v in study.versus} == holm(plain)  # type: ignore[arg-type]
    assert any((v.adjusted_accuracy_p or 0) > (plain[v.method] or 0) for v in study.versus)


def test_the_comparison_is_the_one_of_e3() -> None:
    found = records(["global_budget", "cosine"], errors=False)
    [study] = studies(found)
    a, b = (
        [_sample(r) for r in found if r.method == method] for method in ("cosine", "global_budget")
    )
    assert study.versus[0].comparison == compare(a, b)


def _sample(one: Record) -> Sample:
    assert one.score is not None
    return Sample(one.question, one.score, one.tokens)
