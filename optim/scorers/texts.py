"""Score texts: by their end, the letter of a choice, their words, or reasoning-gym's checker."""

# ruff: noqa: RUF001 -- marks of other scripts

from __future__ import annotations

import re
import string
import unicodedata
from functools import cache

from optim.datasets import Question
from optim.datasets.reasoning_gym import make_task
from optim.extras import import_or_explain
from optim.scorers.mathematics import UNSPACED, one_script, unwrapped
from optim.scorers.scorer import Score, ScorerError, register
from pb_graph.answers import boxed_answer, final_answer, unmarked, without_thinking

_STATED = re.compile(
    r"(?:\b(?:answer|option|choice|respuesta|réponse|antwort|ответ)"
    r"(?:\s+correct[ea]?)?(?:\s+(?:is|es|est|ist)\b:?|:)(?:\s+la\b)?"
    r"|\bit(?:['’]s| is)(?=\W+(?-i:[A-Z])\W*\Z)"
    r"|(?:答案|选项|正解|정답)(?:[是为は은:：]+)|(?<!不)[选選][择擇]?)[ \t*]*(.*)",
    re.IGNORECASE,
)
_LETTER = re.compile(  # "B", "(B)", "[B]. Paris", "B, since …", but not "B, C" or "A city"
    r"(?:(?:option|choice)\s+)?[(\[<{*\"']*(?P<letter>[A-Za-z])(?![A-Za-z])"
    r"(?P<end>[)\]>}*\"'.:,;。]*)\s*(?P<rest>.*)",
    re.DOTALL | re.IGNORECASE,
)
_LONGER = re.compile(
    r"(?:\d[.,\s]\s*|[-\u2010-\u2015/:^*+<>√]\s*|[<>]=\s*|\\[a-z]+\s*)$"
)  # 3 1/2, 2^5, ≥ 5
_OTHERWISE = re.compile(r"(?:\b(?:not|never|nor|or)|n['\u2019]t)\s+(?:the\s+|an?\s+)?$")
_REASON = re.compile(
    r"(?:because|since|as|for|so|is (?:the )?(?:correct|right|best))\b|[-–—]\s|です|입니다",
    re.IGNORECASE,
)
_OTHER = re.compile(  # a second letter
    r"(?:and|or|&|/|[-–—])?\s*[(\[<{*]*[A-Z](?![A-Za-z'])|.*\b(?-i:[A-Z])[):]",
    re.IGNORECASE | re.DOTALL,
)
_MAX_LENGTH = 100_000  # characters read from the end
# A word in letters that are not Latin, or a letter of a script without spaces.
_FOREIGN = re.compile(rf"[^\W\d_A-Za-z\u00aa-\u024f\u1e00-\u1eff]{{2}}|{UNSPACED.pattern}")


@register("match")
def match(output: str, question: Question) -> Score:
    """Return 1 if the answer ends with a target as a whole word or number, else 0.

    Letter case, punctuation and marks do not count. ``inspect_ai.scorer.match()`` also takes 72
    for 2 and "casino" for "no".
    """
    said = _bare(without_thinking(output).removesuffix("</answer>"))
    is_right = any(_ends_with(said, target) for target in map(_bare, question.targets) if target)
    expected = " or ".join(question.targets)
    return Score(float(is_right), said or None, f"the end of the answer, against {expected}")


def _bare(text: str) -> str:
    """Return a text in lower case without marks and punctuation around it."""
    marks = (
        string.whitespace
        + re.sub(r"[-<>=+/^\\]", "", string.punctuation)
        + "\N{IDEOGRAPHIC FULL STOP}"
    )
    return unwrapped(one_script(text)).casefold().strip(marks)


def _ends_with(text: str, end: str) -> bool:
    """Return whether a text ends with a word or number that does not begin earlier."""
    before = text.removesuffix(end)
    if before == text or not before:
        return text == end
    if _OTHERWISE.search(before) or (end[0].isdigit() and _LONGER.search(before)):
        return False
    is_inside = before[-1].isalnum() and end[0].isalnum()
    return not is_inside or UNSPACED.match(before[-1]) is not None


@register("choice")
def choice(output: str, question: Question) -> Score:
    """Return 1 if the answer states the letter of the right choice, else 0.

    It is the letter in the box of an output, after its "Answer:", or after "answer is".
    """
    visible, letter = without_thinking(output), None
    said = final_answer(visible, is_lenient=True)
    places = [boxed_answer(visible), said, *_STATED.findall(visible)[-1:], visible]
    for answer in places:
        found = _LETTER.fullmatch(unmarked(unwrapped(one_script(answer or "")).strip()))
        if found is None or _OTHER.match(found["rest"]):
            continue
        is_closed = re.search(r"[)\].:,;]", found["end"]) or _REASON.match(found["rest"])
        if not found["rest"] or (is_closed and found["letter"].isupper()):
            letter = found["letter"].upper()
            break
    expected = " or ".join(question.targets)
    return Score(float(letter in question.targets), letter, f"the letter, against {expected}")


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
        library = import_or_explain("rouge_score.rouge_scorer")  # slow
        self._stemmer = library.tokenizers.DefaultTokenizer(use_stemmer=True)
        self._latin, self._foreign = (
            library.RougeScorer(["rougeL"], tokenizer=each) for each in (self._stemmer, self)
        )

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
        is_foreign = _FOREIGN.search(f"{answer}\n{target}")
        rouge = self._foreign if is_foreign else self._latin
        return float(rouge.score(target, answer)["rougeL"].fmeasure)

    def tokenize(self, text: str) -> list[str]:
        """Return the words of a text in any script; Latin ones are stemmed."""
        spaced = UNSPACED.sub(r" \g<0> ", unicodedata.normalize("NFKC", text).lower())
        kept = "".join(c if unicodedata.category(c)[0] in "LMN" else " " for c in spaced)
        tokens = [self._stemmer.tokenize(w) if w.isascii() else [w] for w in kept.split()]
        return [token for each in tokens for token in each]


def read_answer(output: str, *, is_whole: bool = False) -> str:
    """Return the answer in an output: the last box, else a "Final answer:", else all of it.

    A final answer ends with its paragraph, or with the output if `is_whole`.
    """
    text = without_thinking(output)[-_MAX_LENGTH:]
    boxed = boxed_answer(text)
    if boxed is not None:
        return unwrapped(boxed)
    return final_answer(text, is_whole=is_whole) or text


_make_task = cache(make_task)


@register("reasoning_gym")
def score_reasoning_gym(output: str, question: Question) -> Score:
    """Score the boxed or final answer as `Scorer.score`, by reasoning-gym's own checker."""
    answer = read_answer(output)
    place = dict(question.metadata)
    index = place.pop("index")
    questions = _make_task(**place)
    value = questions.score_answer(answer, questions[index])
    expected = f"expected {' or '.join(question.targets)}"
    return Score(min(1.0, max(0.0, value)), answer or None, expected)
