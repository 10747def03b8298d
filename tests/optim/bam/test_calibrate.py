"""Known parameters are got back from simulated answers, and none are made up."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

import numpy as np
import pytest

from optim.bam.calibrate import Calibration, calibrate
from optim.bam.power_law import error_chance
from optim.records import Record
from pb_graph import InputError, Settings
from pb_graph.budget import LEVELS
from pb_graph.types import Report, Usage

BUDGETS = (25, 50, 100, 200, 400, 800)
TRUE_C = {1: 40.0, 2: 40.0, 3: 40.0, 4: 40.0, 5: 15.0}
TRUE_BETA = {1: 1.2, 2: 1.1, 3: 1.0, 4: 0.9, 5: 0.7}
ALEATORIC = 0.08


def record(
    level: int | None, budget: int | None, question: int, score: float | None, spent: int = 40
) -> Record:
    usage = Usage(
        input_tokens=9, output_tokens=spent, reasoning_tokens=0, cached_tokens=0, calls=1,
        seconds=0.1, measured=True,
    )  # fmt: skip
    report = Report(
        method="global_budget", execution=None, schedule=None, level=level, budget=budget,
        ceiling=budget, answer="", steps=[], usage={**usage, "by_node": {"answer": usage}},
        warnings=[],
    )  # fmt: skip
    return Record(
        dataset="arithmetic", method=f"global_budget[{budget}+0L]", model="m", planner="m",
        question=f"q{question}", epoch=1, level=level, score=score,
        error=None if score is not None else "refused", output="", target="1", report=report,
        question_text="?", explanation="",
    )  # fmt: skip


def logged(
    n: int,
    budgets: Iterable[int] = BUDGETS,
    levels: Iterable[int] = LEVELS,
    *,
    c: Mapping[int, float] = TRUE_C,
    seed: int = 0,
) -> list[Record]:
    """Answers to n questions of each level at each budget, right by chance as Eq. 2 says."""
    rng = np.random.default_rng(seed)
    found = []
    for level in levels:
        for budget in budgets:
            epistemic = np.array(c[level] / budget ** TRUE_BETA[level])
            wrong = float(error_chance(epistemic, np.array(ALEATORIC)))
            right = rng.random(n) >= wrong
            found += [record(level, budget, i, float(score)) for i, score in enumerate(right)]
    return found


@pytest.fixture(scope="module")
def plenty() -> list[Record]:
    return logged(1000)


@pytest.fixture(scope="module")
def usual(plenty: list[Record]) -> Calibration:
    return calibrate(plenty)


def test_known_parameters_are_got_back(plenty: list[Record]) -> None:
    found = calibrate(plenty, confidence=0.999)
    assert [fit.level for fit in found.levels] == list(LEVELS)
    for fit in found.levels:
        assert fit.source == "fit"
        for curve, true in (
            (fit.curve.c, TRUE_C[fit.level]),
            (fit.curve.beta, TRUE_BETA[fit.level]),
            (fit.curve.aleatoric, ALEATORIC),
        ):
            assert curve.lower <= true <= curve.upper
        assert fit.curve.beta.value == pytest.approx(TRUE_BETA[fit.level], rel=0.25)
        assert fit.curve.beta.upper < 2.5 * fit.curve.beta.lower
    assert found.warnings == []


def test_what_comes_out_is_a_settings_file(usual: Calibration) -> None:
    chosen = Settings.read(usual.settings())
    assert chosen.schedule == "bam"
    assert chosen.bam.c == {fit.level: fit.curve.c.value for fit in usual.levels}
    assert chosen.bam.beta == {fit.level: fit.curve.beta.value for fit in usual.levels}


def test_a_known_floor_narrows_the_rest(plenty: list[Record], usual: Calibration) -> None:
    free, fixed = usual.levels[2], calibrate(plenty, aleatoric=ALEATORIC).levels[2]
    assert fixed.curve.aleatoric.value == pytest.approx(ALEATORIC)
    assert fixed.curve.beta.upper - fixed.curve.beta.lower < 0.8 * (
        free.curve.beta.upper - free.curve.beta.lower
    )


@pytest.mark.parametrize(
    ("records", "complaint"),
    [
        (logged(200, [100]), "level 1: only 1 budget, and 3 are needed;"),
        (logged(200, [100, 400]), "only 2 budgets, and 3 are needed, or tell --aleatoric"),
        (logged(4),
         r"level 3: beta is anything from 0\.\S+ to 8, wider than a factor of 10 \(4 questions a "),
        (logged(500, levels=[1, 2, 4, 5]), r"do not tell c and beta\. level 3: no answers\. "),
        (
            [record(level, b, i, float(i < 6)) for level in LEVELS for b in BUDGETS
             for i in range(10)],
            "60 % with 25, 60 % with 50, 60 % with 100",
        ),
    ],
    ids=["one budget", "two budgets", "few questions", "a level without", "flat"],
)  # fmt: skip
def test_parameters_that_the_answers_do_not_tell_are_refused(
    records: Sequence[Record], complaint: str
) -> None:
    with pytest.raises(InputError, match=complaint) as refused:
        calibrate(records)
    assert "Measure more questions" in str(refused.value)
    assert str(refused.value).endswith(
        "let these levels have what all levels together tell: --pool"
    )


def test_levels_borrow_only_when_told_to_and_say_so() -> None:
    found = calibrate(logged(600, levels=[1, 3]), pool=True)
    assert [fit.source for fit in found.levels] == ["fit", "pooled", "fit", "pooled", "pooled"]
    own, pooled = found.levels[0].curve, found.levels[1]
    assert pooled.cells == []
    assert own.beta.value != pooled.curve.beta.value
    assert {fit.curve.beta.value for fit in found.levels if fit.source == "pooled"} == {
        pooled.curve.beta.value
    }
    assert "Level 2 has the parameters of all levels together: no answers." in found.warnings


def test_nothing_is_pooled_from_nothing() -> None:
    with pytest.raises(InputError, match="all levels together do not tell either: only 1 budget"):
        calibrate(logged(200, [100]), pool=True)


def test_levels_with_budgets_of_their_own_are_not_pooled() -> None:
    records = [*logged(300, [25, 50, 100], [1]), *logged(300, [50, 100, 200], [2])]
    with pytest.raises(InputError, match="either: they had different budgets"):
        calibrate(records, pool=True)


def test_a_wide_interval_is_said_to_be_wide() -> None:
    found = calibrate(logged(30), pool=True)
    wide = [
        fit.level for fit in found.levels
        if fit.source == "fit" and fit.curve.beta.upper > 4 * fit.curve.beta.lower
    ]  # fmt: skip
    assert wide
    warned = [text for text in found.warnings if "beta lies anywhere from" in text]
    assert [int(text[6]) for text in warned] == wide


def test_answers_that_tell_nothing_are_left_out(plenty: list[Record], usual: Calibration) -> None:
    idle = [
        replace(record(None, 100, 0, 1.0), level=None),
        record(3, None, 0, 1.0),
        record(3, 100, 0, None),
    ]
    assert calibrate([*plenty, *idle]) == usual
    with pytest.raises(InputError, match="no answer has a budget, a score and a level"):
        calibrate(idle)
    with pytest.raises(InputError, match="no answer of the method 'vanilla' has a budget"):
        calibrate(plenty, method="vanilla")


def test_an_estimated_level_serves_where_there_is_no_label(
    plenty: list[Record], usual: Calibration
) -> None:
    assert calibrate([replace(r, level=None) for r in plenty]) == usual


def test_asking_again_does_not_make_more_questions(
    plenty: list[Record], usual: Calibration
) -> None:
    again = [replace(r, epoch=2) for r in plenty]
    assert calibrate([*plenty, *again]) == usual


def test_several_methods_need_a_choice(plenty: list[Record], usual: Calibration) -> None:
    other = [replace(r, method=r.method.replace("global_budget", "cosine")) for r in logged(5)]
    with pytest.raises(InputError, match=r"several methods \(cosine, global_budget\).* --method"):
        calibrate([*plenty, *other])
    assert calibrate([*plenty, *other], method="global_budget") == usual


@pytest.mark.parametrize(("field", "what"), [("model", "models"), ("dataset", "data sets")])
def test_models_and_data_sets_are_not_mixed(plenty: list[Record], field: str, what: str) -> None:
    other = [replace(r, **{field: "other"}) for r in logged(5)]  # type: ignore[arg-type]
    with pytest.raises(InputError, match=f"answers of several {what} "):
        calibrate([*plenty, *other])


def test_budgets_that_were_not_kept_are_doubted() -> None:
    loud = [record(level, b, i, float(i % 7 < b / 100 * 2), spent=1500)
            for level in LEVELS for b in BUDGETS for i in range(300)]  # fmt: skip
    doubts = calibrate(loud, pool=True).warnings
    assert doubts[0].startswith("Answers took 5.7 times the tokens they were granted")


def test_planned_questions_are_said_to_be_whole_ones(plenty: list[Record]) -> None:
    step = {"index": 0, "question": "?", "hint": "", "depends_on": [], "level": 1, "credit": None}
    planned = replace(plenty[0], report=plenty[0].report | {"steps": [step]})  # type: ignore[typeddict-item]
    warnings = calibrate([planned, *plenty[1:]]).warnings
    assert [text[:28] for text in warnings] == ["These questions were planned"]
