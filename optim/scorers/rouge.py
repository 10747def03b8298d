"""Free-text answers: ROUGE-L F-measure with Porter stemming."""

from __future__ import annotations

from typing import TYPE_CHECKING

from optim.extras import import_or_explain
from optim.scorers.base import Score, ScorerError, register, without_text_commands
from pb_graph.answers import boxed_answer, final_answer, without_thinking

if TYPE_CHECKING:
    from optim.datasets import Question

_LONGEST = 20_000  # characters kept from the end; ROUGE-L is quadratic in the length


@register("rouge")
class RougeScorer:
    r"""ROUGE-L F-measure (Porter stemming) of the answer against the best of the targets.

    The answer is the last `\boxed{…}`, else the rest of a "Final answer:" line, else the whole
    output without its thinking. A text that equals a target up to spacing scores 1, also where
    ROUGE's tokenizer (which keeps a-z and 0-9 only) finds no token in it.
    """

    def __init__(self) -> None:
        library = import_or_explain("rouge_score.rouge_scorer")  # slow
        self._rouge = library.RougeScorer(["rougeL"], use_stemmer=True)

    def score(self, output: str, question: Question) -> Score:
        """Score as `Scorer.score`, against the question's targets."""
        targets = question.targets
        if not targets:
            msg = "a question without a target cannot be scored by the rouge scorer"
            raise ScorerError(msg)
        answer = read_answer(output)
        values = [
            1.0
            if target.split() == answer.split()
            else float(self._rouge.score(target, answer)["rougeL"].fmeasure)
            for target in targets
        ]
        best = max(range(len(values)), key=values.__getitem__)
        explanation = f"ROUGE-L {values[best]:.3f} against {targets[best]!r}"
        return Score(values[best], answer or None, explanation, {"target": best})


def read_answer(output: str) -> str:
    """Return the answer in an output: the last box, else a "Final answer:" line, else all of it."""
    text = without_thinking(output)[-_LONGEST:]
    boxed = boxed_answer(text)
    if boxed is not None:
        return without_text_commands(boxed)
    return final_answer(text) or text
