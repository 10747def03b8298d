from __future__ import annotations

from pathlib import Path
from typing import Any
from unittest.mock import patch

import pytest

from optim.datasets import Question
from optim.scorers import NAMES, Score, ScorerError, as_scorer, register, scorer_code, scorer_name
from optim.scorers.rouge import RougeScorer
from optim.scorers.scorer import SCORERS
from pb_graph.errors import InputError

QUESTION = Question("q", "Where?", targets=("Paris", "Lyon"))


@pytest.mark.parametrize("name", NAMES)
def test_every_name_makes_a_scorer(name: str) -> None:
    assert callable(as_scorer(name).score)


@patch.dict(SCORERS)  # takes it away again at the end
def test_a_scorer_is_one_function_under_the_decorator() -> None:
    @register("exact")
    def exact(output: str, question: Question) -> bool:
        return output.strip() in question.targets

    assert "exact" in NAMES
    assert [as_scorer("exact").score(text, QUESTION).value for text in ("Paris ", "Rome")] == [1, 0]
    with pytest.raises(InputError, match=r"math, .*rouge.*exact; did you mean 'rouge'"):
        as_scorer("rogue")


def test_names_objects_classes_and_functions_are_scorers() -> None:
    made = RougeScorer()
    assert as_scorer(made) is made
    assert isinstance(as_scorer("rouge"), RougeScorer)
    assert isinstance(as_scorer(RougeScorer), RougeScorer)
    assert as_scorer(lambda output, _: len(output) / 10).score("12345", QUESTION).value == 0.5
    whole = Score(0.25, "x", "because", {"why": 1})
    assert as_scorer(lambda _, __: whole).score("", QUESTION) is whole


def test_a_scorer_of_ones_own_is_named_by_its_file(tmp_path: Path) -> None:
    file = tmp_path / "mine.py"
    file.write_text("from beside import GOLD\ndef exact(output, question): return output in GOLD\n")
    file.with_name("beside.py").write_text("GOLD = ['Paris']\n")
    name = f"{file}:exact"
    assert as_scorer(name).score("Paris", QUESTION).value == 1.0
    assert (scorer_name(name), len(scorer_code(name))) == ("exact", 32)
    assert scorer_code(name) == scorer_code(as_scorer(name))
    for wrong in (f"{file}:exakt", f"{tmp_path}/yours.py:exact", "no_module:exact"):
        with pytest.raises(InputError, match=r"cannot import .*Give module:NAME or FILE\.py:NAME"):
            as_scorer(wrong)


def test_the_digest_of_a_scorer_covers_all_that_decides_its_verdict(tmp_path: Path) -> None:
    with patch.object(Path, "read_text", autospec=True, side_effect=Path.read_text) as read:
        math = scorer_code("math")
    assert {"worker.py", "answers.py"} <= {call.args[0].name for call in read.call_args_list}
    assert len({math, scorer_code("rouge"), scorer_code("travelplanner")}) == 3
    mine = tmp_path / "judge.py"
    mine.write_text("from helper import of\ndef judge(output, question): return of(output)\n")
    mine.with_name("helper.py").write_text("def of(text): return 1.0\n")
    before = scorer_code(f"{mine}:judge")
    mine.with_name("helper.py").write_text("def of(text): return 0.0\n")
    assert scorer_code(f"{mine}:judge") != before


@pytest.mark.parametrize(
    "metric",
    [
        lambda gold, pred, trace=None: gold == pred,  # noqa: ARG005
        lambda example, pred, trace, pred_name, pred_trace: 1.0,  # noqa: ARG005
        lambda output: 1.0,  # noqa: ARG005
    ],
)
def test_a_metric_of_dspy_has_to_be_wrapped(metric: Any) -> None:  # noqa: ANN401
    with pytest.raises(InputError, match=r"takes \(output, question\), but .*from_dspy"):
        as_scorer(metric)


async def later(output: str, question: Question) -> float:
    return float(output in question.targets)


@pytest.mark.parametrize("value", [7, later])
def test_what_is_no_scorer_is_refused(value: object) -> None:
    with pytest.raises(ScorerError, match=r"is not a scorer: give one of .*rouge"):
        as_scorer(value)  # type: ignore[arg-type]


@pytest.mark.parametrize("result", [2, None, float("nan")])
def test_a_function_that_gives_no_score_is_an_error_not_a_0(result: object) -> None:
    with pytest.raises(ScorerError, match=r"the scorer .* failed"):
        as_scorer(lambda _, __: result).score("", QUESTION)  # type: ignore[arg-type,return-value]
