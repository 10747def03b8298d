from __future__ import annotations

import sys

import pytest

from optim.scorers import NAMES, Score, ScorerError, scorer


@pytest.mark.parametrize("name", NAMES)
def test_every_name_makes_a_scorer(name: str) -> None:
    assert callable(scorer(name).score)


def test_an_unknown_name_lists_the_known_ones() -> None:
    with pytest.raises(ScorerError, match="math, rouge, rouge_compatible, travelplanner"):
        scorer("bleu")


def test_a_missing_library_is_named_with_its_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "rouge_score", None)
    monkeypatch.delitem(sys.modules, "optim.scorers.rouge", raising=False)
    with pytest.raises(ScorerError, match=r"rouge_score.*plan-and-budget\[eval\]"):
        scorer("rouge")


@pytest.mark.parametrize("value", [-0.1, 1.1, float("nan")])
def test_a_score_lies_between_0_and_1(value: float) -> None:
    with pytest.raises(ValueError, match="between 0 and 1"):
        Score(value, None, "")
