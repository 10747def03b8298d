"""Scorers of Inspect as scorers of ours: match, choice, pattern, model-graded, and your own.

``as_scorer(inspect_ai.scorer.match())`` makes one, so an `Experiment` takes them as they are.
Inspect takes seconds to import, so that is done when one is made.
"""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from optim.datasets.dataset import digest
from optim.scorers.base import Score, ScorerError, register
from pb_graph.answers import stated_answer, without_text_commands, without_thinking

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from inspect_ai.scorer import Score as TheirScore
    from inspect_ai.scorer import Scorer as TheirScorer
    from inspect_ai.solver import TaskState

    from optim.datasets import Question

_LONGEST = 60  # characters of an argument; of longer ones, such as templates, a digest is shown
_WORTH = {"C": 1.0, "P": 0.5, "I": 0.0, "N": 0.0}  # Inspect's words for right, partly, wrong, none
_SAYS = re.compile(
    r"(?:^[ \t*]*answer[ \t]*:|\b(?:answer|option|choice) is\b:?)[ \t*]*(.*)$",
    re.IGNORECASE | re.MULTILINE,
)
_LETTER = re.compile(r"(?<![^\W_])[(*$]*([A-Za-z])[)*$.]*(?![^\W_])")
_HEAD = re.compile(r"[(*]*([A-Za-z])[)*]*[).:][)*]*[ \t]+\w{2}")  # "B) Paris"


class InspectScorer:
    """Scores with a scorer of Inspect; its tokens, of a judge for example, are not the method's.

    Attributes:
        name: The scorer's and its arguments, for logs.

    Args:
        theirs: What a function under Inspect's ``@scorer`` has made.
    """

    def __init__(self, theirs: TheirScorer) -> None:
        self._theirs = theirs
        self.name = _name(theirs)

    def score(self, output: str, question: Question) -> Score:
        """Score the output; for callers outside an event loop.

        Raises:
            ScorerError: As `score_async`.
        """
        return asyncio.run(self.score_async(output, question))

    async def score_async(self, output: str, question: Question) -> Score:
        """Score the output in the caller's event loop.

        Raises:
            ScorerError: The scorer failed, or gave no single value from 0 to 1.
        """
        from inspect_ai.scorer import Target  # noqa: PLC0415

        try:
            state = _state(output, question)
            found = await self._theirs(state, Target(list(question.targets)))
            return _ours(found, self.name)
        except Exception as error:
            msg = f"the scorer {self.name} failed: {type(error).__name__}: {error}"
            raise ScorerError(msg) from error


@register("match")
class MatchScorer(InspectScorer):
    """Whether the answer ends with a target; letter case and punctuation do not count."""

    def __init__(self) -> None:
        from inspect_ai.scorer import match  # noqa: PLC0415

        super().__init__(match())


@register("choice")
class ChoiceScorer(InspectScorer):
    """Whether the letter that the answer states is that of the right choice."""

    def __init__(self) -> None:
        from inspect_ai.scorer import choice  # noqa: PLC0415

        super().__init__(choice())


def _name(theirs: Callable[..., Any]) -> str:
    """``match``, or ``match(location="any")``: other arguments are another scorer."""
    info = getattr(theirs, "__registry_info__", None)
    name = str(getattr(info, "name", type(theirs).__qualname__)).rpartition("/")[2]
    given = getattr(theirs, "__registry_params__", {})
    texts = (f"{key}={_told(value)}" for key, value in given.items())
    return f"{name}({', '.join(texts)})" if given else name


def _told(value: object) -> str:
    """An argument in short; of a model only its name, since its arguments may hold a key."""
    if isinstance(value, Mapping) and "model_args" in value:
        return _told(value.get("model"))
    if isinstance(value, list | tuple):
        return f"[{', '.join(map(_told, value))}]"
    text = json.dumps(value, default=lambda other: type(other).__qualname__)
    return text if len(text) <= _LONGEST else f"#{digest(text)[:8]}"


def _state(output: str, question: Question) -> TaskState:
    """The state of a sample that was answered so."""
    from inspect_ai.model import (  # noqa: PLC0415
        ChatMessageAssistant,
        ChatMessageUser,
        ModelName,
        ModelOutput,
    )
    from inspect_ai.scorer import Target  # noqa: PLC0415
    from inspect_ai.solver import TaskState  # noqa: PLC0415

    choices = list(map(str, question.metadata.get("choices", ())))
    state = TaskState(
        model=ModelName("plan-and-budget/answer"),
        sample_id=question.id,
        epoch=1,
        input=question.question,
        messages=[ChatMessageUser(content=question.question), ChatMessageAssistant(content=output)],
        target=Target(list(question.targets)),
        choices=choices,
        output=ModelOutput.from_content("plan-and-budget/answer", output),
        completed=True,
    )
    chosen = _letters(output, len(choices))
    for place in range(len(choices)):
        state.choices.mark_choice(place, place in chosen)
    return state


def _letters(output: str, choices: int) -> Sequence[int]:
    r"""Which choices an output states: in its box, "Final answer:" line, or after "answer is".

    None where it states none, or something beside letters of choices.
    """
    said = without_thinking(output)
    stated = stated_answer(output) or (_SAYS.findall(said) or [said])[-1]
    text = without_text_commands(stated).strip()
    head = _HEAD.match(text)
    letters = [head[1]] if head else _LETTER.findall(text)
    more = not head and re.sub(r"\band\b|[\s,;]", "", _LETTER.sub("", text))
    places = [ord(letter.upper()) - ord("A") for letter in letters]
    return () if more or any(place >= choices for place in places) else places


def _ours(found: TheirScore | None, name: str) -> Score:
    if found is None:
        msg = "it gave no score"
        raise ValueError(msg)
    value = _WORTH.get(found.value, found.value) if isinstance(found.value, str) else found.value
    if not isinstance(value, int | float):
        msg = f"it gave {value!r:.80}, not one number from 0 to 1"
        raise TypeError(msg)
    return Score(float(value), found.answer, found.explanation or name)
