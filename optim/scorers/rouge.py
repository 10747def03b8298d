"""Free-text answers: ROUGE-L F-measure with Porter stemming, for texts of every script."""

from __future__ import annotations

import re
import unicodedata
from typing import TYPE_CHECKING

from optim.extras import import_or_explain
from optim.scorers.mathematics import UNSPACED, unwrapped
from optim.scorers.scorer import Score, ScorerError, register
from pb_graph.answers import boxed_answer, final_answer, without_thinking

if TYPE_CHECKING:
    from optim.datasets import Question

_MAX_LENGTH = 100_000  # characters read from the end
# A word in letters that are not Latin, or a letter of a script without spaces.
_FOREIGN = re.compile(rf"[^\W\d_A-Za-z\u00aa-\u024f\u1e00-\u1eff]{{2}}|{UNSPACED.pattern}")


@register("rouge")
class RougeScorer:
    r"""ROUGE-L F-measure (Porter stemming) of the answer against the best of the targets.

    The answer is the last `\boxed{…}`, else all that follows "Final answer:", else the whole output
    without its thinking. A text that equals a target up to spacing scores 1.

    The words of Latin text are those of the rouge-score package (a-z and 0-9), so its figures are
    equal. Where either text has words of another script, all words count, and scripts without
    spaces, such as Chinese, Japanese and Thai, are compared by character.
    """

    def __init__(self) -> None:
        library = import_or_explain("rouge_score.tokenizers")  # slow
        self._tokenizer = library.DefaultTokenizer(use_stemmer=True)

    def score(self, output: str, question: Question) -> Score:
        """Score as `Scorer.score`, against the question's targets."""
        targets = question.targets
        if not targets:
            msg = "a question without a target cannot be scored by the rouge scorer"
            raise ScorerError(msg)
        answer = read_answer(output, is_whole=True)
        values = [self._f_measure(answer, target) for target in targets]
        best = max(range(len(values)), key=values.__getitem__)
        explanation = f"ROUGE-L {values[best]:.3f} against {targets[best]!r}"
        return Score(values[best], answer or None, explanation, {"target": best})

    def _f_measure(self, answer: str, target: str) -> float:
        if target.split() == answer.split():
            return 1.0
        is_latin = not _FOREIGN.search(f"{answer}\n{target}")
        words = self._tokenizer.tokenize if is_latin else self._words
        said, meant = words(answer), words(target)
        shared = _longest_common(said, meant)
        precision, recall = shared / max(1, len(said)), shared / max(1, len(meant))
        return 2 * precision * recall / (precision + recall) if shared else 0.0

    def _words(self, text: str) -> list[str]:
        """Return the words of a text in any script; Latin ones are stemmed."""
        spaced = UNSPACED.sub(r" \g<0> ", unicodedata.normalize("NFKC", text).lower())
        kept = "".join(c if unicodedata.category(c)[0] in "LMN" else " " for c in spaced)
        tokens = [self._tokenizer.tokenize(w) if w.isascii() else [w] for w in kept.split()]
        return [token for each in tokens for token in each]


def _longest_common(first: list[str], second: list[str]) -> int:
    """Return the length of the longest common subsequence, by the bits of one number (Hyyrö)."""
    places: dict[str, int] = {}
    for place, word in enumerate(first):
        places[word] = places.get(word, 0) | 1 << place
    full = row = (1 << len(first)) - 1
    for word in second:
        both = row & places.get(word, 0)
        row = (row + both | row - both) & full
    return len(first) - row.bit_count()


def read_answer(output: str, *, is_whole: bool = False) -> str:
    """Return the answer in an output: the last box, else a "Final answer:", else all of it.

    A final answer ends with its paragraph, or with the output if `is_whole`.
    """
    text = without_thinking(output)[-_MAX_LENGTH:]
    boxed = boxed_answer(text)
    if boxed is not None:
        return unwrapped(boxed)
    return final_answer(text, is_whole=is_whole) or text
