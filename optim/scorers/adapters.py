"""Adapt scorers of Inspect and metrics of DSPy.

``as_scorer(inspect_ai.scorer.match())`` makes one, so an `Experiment` takes them as they are.
Inspect takes seconds to import, so it is imported when a scorer is made.
"""

from __future__ import annotations

import asyncio
import functools
import json
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any

from typing_extensions import TypeIs

from optim.datasets.dataset import digest
from optim.datasets.examples import known_example
from optim.scorers.base import FunctionScorer, Score, ScorerError, name_of
from optim.scorers.letters import stated_letter

if TYPE_CHECKING:
    from inspect_ai.scorer import Scorer as TheirScorer
    from inspect_ai.solver import TaskState

    from optim.datasets import Question

_MODEL = "plan-and-budget/answer"
_VALUES = {"C": 1.0, "P": 0.5, "I": 0.0, "N": 0.0}  # correct, partial, incorrect, no answer


def is_inspect_scorer(value: object) -> TypeIs[TheirScorer]:
    """Return whether a function with Inspect's ``@scorer`` created this value."""
    return getattr(getattr(value, "__registry_info__", None), "type", None) == "scorer"


class InspectScorer:
    """Scores with a scorer of Inspect. Tokens of a judging model do not count for the method.

    Attributes:
        name: The scorer's name in Inspect's registry, for logs.
        arguments: A digest of its arguments, which identify the scorer and may contain a key.
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
    letter = stated_letter(output)
    for place in range(len(choices)):
        state.choices.mark_choice(place, letter == chr(ord("A") + place))
    return state


def from_dspy(metric: Callable[..., Any]) -> FunctionScorer:
    """Return a scorer that asks a metric of DSPy, whose value goes from 0 to 1.

    ::

        tune(program, train, dev, scorer=from_dspy(dspy.evaluate.answer_exact_match))

    Args:
        metric: Function of an example and a prediction with ``answer``. The example is the one that
            the question was made of, with all of its fields.
    """

    @functools.wraps(metric)  # its source identifies the scorer
    def judged(output: str, question: Question) -> Any:  # noqa: ANN401 -- a metric's value
        import dspy  # noqa: PLC0415 -- takes a second

        return metric(known_example(question), dspy.Prediction(answer=output))

    judged.__qualname__ = name_of(metric)
    return FunctionScorer(judged)
