"""Adapt scorers of Inspect: match, choice, pattern, model-graded, and your own.

``as_scorer(inspect_ai.scorer.match())`` makes one, so an `Experiment` takes them as they are.
Inspect takes seconds to import, so it is imported when a scorer is made.
"""

from __future__ import annotations

import asyncio
import json
import re
import string
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any

from typing_extensions import TypeIs

from optim.datasets.dataset import digest
from optim.extras import import_or_explain
from optim.scorers.base import Score, ScorerError, register
from optim.scorers.notation import UNSPACED, one_script, unwrapped
from pb_graph.answers import boxed_answer, last_answer, unmarked, without_thinking

if TYPE_CHECKING:
    from inspect_ai.scorer import Scorer as TheirScorer
    from inspect_ai.solver import TaskState

    from optim.datasets import Question

_MODEL = "plan-and-budget/answer"
_VALUES = {"C": 1.0, "P": 0.5, "I": 0.0, "N": 0.0}  # correct, partial, incorrect, no answer
_STATED = re.compile(
    r"\b(?:answer|option|choice|respuesta|réponse|antwort|ответ)"
    r"(?:\s+(?:is|es|est|ist)\b:?|:)[ \t*]*(.*)",
    re.IGNORECASE,
)
_LETTER = re.compile(  # "B", "(B)", "[B]. Paris", "B, since …", but not "B, C" or "A city"
    r"(?:(?:option|choice)\s+)?[(\[<{*\"']*(?P<letter>[A-Za-z])(?![A-Za-z])"
    r"(?P<end>[)\]>}*\"'.:,;]*)\s*(?P<rest>.*)",
    re.DOTALL | re.IGNORECASE,
)
_REASON = re.compile(r"(?:because|since|as|for|so)\b", re.IGNORECASE)
_OTHER = re.compile(r"(?:and|or|&|/)?\s*[(\[<{*]*[A-Z](?![A-Za-z'])", re.IGNORECASE)


def is_inspect_scorer(value: object) -> TypeIs[TheirScorer]:
    """Return whether a function with Inspect's ``@scorer`` created this value."""
    return getattr(getattr(value, "__registry_info__", None), "type", None) == "scorer"


class InspectScorer:
    """Scores with a scorer of Inspect. Tokens of a judging model do not count for the method.

    Attributes:
        name: The scorer's name in Inspect's registry, for logs.
        arguments: A digest of its arguments, which identify the scorer and may contain a key.

    Args:
        theirs: A scorer made by a function under Inspect's ``@scorer``.
    """

    def __init__(self, theirs: Any) -> None:  # noqa: ANN401 -- Inspect declares no such attributes
        self._theirs: TheirScorer = theirs
        self.name: str = theirs.__registry_info__.name.rpartition("/")[2]
        params = theirs.__registry_params__
        texts = json.dumps(params, sort_keys=True, default=lambda value: type(value).__qualname__)
        self.arguments = digest(texts) if params else ""

    def score(self, output: str, question: Question) -> Score:
        """Score as `Scorer.score`, in an event loop of its own: a notebook has one already."""
        with ThreadPoolExecutor(1) as pool:
            return pool.submit(asyncio.run, self.score_async(output, question)).result()

    async def score_async(self, output: str, question: Question) -> Score:
        """Score as `Scorer.score`, in the caller's event loop."""
        try:
            state = _state(output, question)
            score: Any = await self._theirs(state, state.target)
            value = "no score" if score is None else score.value
            value = _VALUES.get(value, value) if isinstance(value, str) else value
            return Score(float(value), score.answer, score.explanation or self.name)
        except Exception as error:
            msg = f"the scorer {self.name} failed: {type(error).__name__}: {error}"
            raise ScorerError(msg) from error


@register("match")
def match(output: str, question: Question) -> Score:
    """Return 1 if the answer ends with a target as a whole word or number, else 0.

    Letter case, punctuation and marks do not count. ``inspect_ai.scorer.match()`` also takes 72
    for 2 and "casino" for "no".
    """
    said = _bare(without_thinking(output))
    targets = map(_bare, question.targets)
    is_right = any(target and _ends_with(said, target) for target in targets)
    expected = " or ".join(question.targets)
    return Score(float(is_right), said or None, f"the end of the answer, against {expected}")


def _bare(text: str) -> str:
    """Return a text in lower case without marks and punctuation around it."""
    text = unwrapped(one_script(text)).casefold()
    return text.strip(
        string.whitespace + string.punctuation.replace("-", "") + "\N{IDEOGRAPHIC FULL STOP}"
    )


def _ends_with(text: str, end: str) -> bool:
    """Return whether a text ends with a word or number that does not begin earlier."""
    before = text.removesuffix(end)
    if before == text or not before:
        return text == end
    if end[0].isdigit() and re.search(r"(?:\d[.,/]|-)$", before):
        return False
    return (
        not before[-1].isalnum() or not end[0].isalnum() or UNSPACED.match(before[-1]) is not None
    )


@register("choice")
class ChoiceScorer(InspectScorer):
    """1 if the answer states the letter of the right choice."""

    def __init__(self) -> None:
        super().__init__(import_or_explain("inspect_ai.scorer").choice())


def _state(output: str, question: Question) -> TaskState:
    """Return the state of a sample with this output."""
    from inspect_ai.model import ChatMessageAssistant, ChatMessageUser, ModelName, ModelOutput  # noqa: PLC0415
    from inspect_ai.scorer import Target  # noqa: PLC0415
    from inspect_ai.solver import TaskState  # noqa: PLC0415

    choices = [str(choice) for choice in question.metadata.get("choices", ())]
    state = TaskState(
        model=ModelName(_MODEL),
        sample_id=question.id,
        epoch=1,
        input=question.question,
        messages=[ChatMessageUser(content=question.question), ChatMessageAssistant(content=output)],
        target=Target(list(question.targets)),
        choices=choices,
        output=ModelOutput.from_content(_MODEL, output),
        completed=True,
    )
    letter = _stated_letter(output)
    for place in range(len(choices)):
        state.choices.mark_choice(place, letter == chr(ord("A") + place))
    return state


def _stated_letter(output: str) -> str | None:
    """Return the letter in the box of an output, after its "Answer:", or after "answer is"."""
    visible = without_thinking(output)
    answers = [boxed_answer(visible), last_answer(visible)]
    for answer in [*answers, *_STATED.findall(visible)[-1:], visible]:
        found = _LETTER.fullmatch(unmarked(unwrapped(one_script(answer or "")).strip()))
        if found is None or _OTHER.match(found["rest"]):
            continue
        is_closed = re.search(r"[)\].:,;]", found["end"]) or _REASON.match(found["rest"])
        if not found["rest"] or (is_closed and found["letter"].isupper()):
            return found["letter"].upper()
    return None
