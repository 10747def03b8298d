r"""Free-text answers: ROUGE-L F with stemming, best of the references."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rouge_score import rouge_scorer  # type: ignore[import-untyped]

from optim.scorers import release_normalizer
from optim.scorers.reading import (
    boxed_answer,
    final_answer,
    without_text_commands,
    without_thinking,
)
from optim.scorers.score import Score, ScorerError

if TYPE_CHECKING:
    from optim.scorers.score import Question

_LONGEST = 20_000  # characters kept from the end; ROUGE-L is quadratic in the length


class RougeScorer:
    r"""ROUGE-L F-measure (Porter stemming) of the answer against the best of the targets.

    The answer is the last `\boxed{…}`, else what a "Final answer:" line says, else the whole
    output; thinking does not count. A text that is equal to a target, up to spacing, scores 1
    also where ROUGE's tokenizer (which keeps a-z and 0-9 only) sees nothing in it.

    Args:
        reference_compatible: Score as the released implementation of the paper does, to compare
            with its published numbers. Only the first target counts, thinking is not removed, and
            the answer passes, twice, through a normalizer written for mathematics; the target does
            not. See `optim.scorers.release_normalizer` for what it destroys: a perfect boxed
            answer scores about 0.6 on average, and hardly ever 1 when it has several words.
    """

    def __init__(self, *, reference_compatible: bool = False) -> None:
        self._reference_compatible = reference_compatible
        self._rouge = rouge_scorer.RougeScorer(["rougeL"], use_stemmer=True)

    def score(self, output: str, question: Question) -> Score:
        """Score an output against the question's targets.

        Raises:
            ScorerError: The question has no target.
        """
        if not question.targets:
            msg = "a question without a target cannot be scored by the rouge scorer"
            raise ScorerError(msg)
        targets = question.targets[:1] if self._reference_compatible else question.targets
        answer = self._read(output)
        values = [self._f_measure(target, answer) for target in targets]
        best = max(range(len(values)), key=values.__getitem__)
        return Score(
            value=values[best],
            answer=answer or None,
            explanation=f"ROUGE-L {values[best]:.3f} against {targets[best]!r}",
            metadata={"target": best, "reference_compatible": self._reference_compatible},
        )

    def _read(self, output: str) -> str:
        if self._reference_compatible:
            return release_normalizer.read_answer(output[-_LONGEST:])
        return read_answer(output)

    def _f_measure(self, target: str, answer: str) -> float:
        if not self._reference_compatible and target.split() == answer.split():
            return 1.0
        return float(self._rouge.score(target, answer)["rougeL"].fmeasure)


def compatible() -> RougeScorer:
    """The scorer that reproduces the released implementation."""
    return RougeScorer(reference_compatible=True)


def read_answer(output: str) -> str:
    r"""The answer in an output: the last box, else a "Final answer:" line, else all of it."""
    text = without_thinking(output)[-_LONGEST:]
    boxed = boxed_answer(text)
    if boxed is not None:
        return without_text_commands(boxed)
    return final_answer(text) or text
