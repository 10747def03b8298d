"""Define scorers: their interface, their registry, and the adapters for functions and libraries."""

from __future__ import annotations

import asyncio
import functools
import inspect
import json
import sys
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol, TypeVar, Union, runtime_checkable

from typing_extensions import TypeIs

from optim.datasets import Question
from optim.datasets.dataset import EXAMPLE, digest, example_of
from optim.extras import named_object
from pb_graph.answers import boxed_answer, final_answer
from pb_graph.errors import InputError, PlanAndBudgetError, did_you_mean

if TYPE_CHECKING:
    from inspect_ai.scorer import Scorer as TheirScorer
    from inspect_ai.solver import TaskState

_MODEL = "plan-and-budget/answer"
_VALUES = {"C": 1.0, "P": 0.5, "I": 0.0, "N": 0.0}  # correct, partial, incorrect, no answer
_READING = "pb_graph.answers"  # finds the answer in an output, for every scorer of this folder


class ScorerError(PlanAndBudgetError):
    """An answer could not be scored. The answer counts as unscored, not as wrong."""


@dataclass(frozen=True)
class Score:
    """The score of one answer.

    Attributes:
        value: From 0 (wrong) to 1 (perfect).
        answer: The answer that was read out of the output. None when none was found.
        explanation: The reason for the value, for a person.
        metadata: Details of the scorer as plain JSON, for tables and logs.
    """

    value: float
    answer: str | None
    explanation: str
    metadata: Mapping[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if not 0.0 <= self.value <= 1.0:  # also refuses NaN
            msg = f"a score must lie between 0 and 1, not {self.value!r}"
            raise ValueError(msg)
        object.__setattr__(self, "value", float(self.value))  # JSON knows no number of NumPy


@runtime_checkable
class Scorer(Protocol):
    """Scores one output for one question. Several threads may call it.

    A scorer that awaits something, such as a model that judges, also has
    ``async def score_async`` with the same arguments. This method is awaited instead of `score`.
    An empty answer is wrong, and not scored; ``def unanswered(question)`` returns its metadata.
    """

    def score(self, output: str, question: Question) -> Score:
        """Return the score of a whole answer as the model wrote it.

        Raises:
            ScorerError: If the output could not be scored at all.
        """


ScoreFunction = Callable[[str, "Question"], "Score | float"]
"""A function of output and question that returns a number from 0 to 1, a truth value or a `Score`.
"""

ScorerLike = Union[str, Scorer, type[Scorer], ScoreFunction, "TheirScorer"]
"""Whatever `as_scorer` takes."""

_Made = TypeVar("_Made", bound=Callable[..., Any])
SCORERS: dict[str, Callable[..., Any]] = {}
NAMES = SCORERS.keys()
"""Names of the scorers: those of this folder, and all that `register` adds."""


def register(name: str) -> Callable[[_Made], _Made]:
    """Register a scorer: a class that is made without arguments, or a scoring function.

    ::

        @register("exact")
        def exact(output, question):
            return output.strip() in question.targets

    Import slow libraries in the class's ``__init__``: all scorers of this folder are imported when
    one of them is used.
    """

    def decorate(scorer: _Made) -> _Made:
        made: Any = scorer
        made.name, SCORERS[name] = name, scorer
        return scorer

    return decorate


def as_scorer(value: ScorerLike) -> Scorer:
    """Return a scorer. Evaluation, tuning and `optim.e3.metric` take scorers by this one rule.

    Args:
        value: A name of `NAMES`; ``file.py:name`` or ``module:name`` of your own; a function of
            output and question, in this order; an object with ``score(output, question)`` or its
            class; or a scorer of Inspect, such as ``inspect_ai.scorer.match()``. Wrap a metric of
            DSPy's: ``from_dspy(metric)``.

    Raises:
        InputError: If the name is unknown, or a function takes something else.
        ScorerError: If the value is none of these.
        MissingPackageError: If the scorer's libraries are not installed.
    """
    if isinstance(value, str):
        made = SCORERS.get(value) or named_object(value)
        if made is None:
            msg = f"no scorer named {value!r}; available: {', '.join(NAMES)}"
            raise InputError(msg + did_you_mean(value, NAMES))
        return as_scorer(made)
    if isinstance(value, type):
        return as_scorer(value())
    if isinstance(value, Scorer):
        return value
    if _is_inspect(value):
        return InspectScorer(value)
    if not callable(value) or inspect.iscoroutinefunction(value):
        msg = (
            f"{value!r} is not a scorer: give one of {', '.join(NAMES)}, an object with "
            "score(output, question), a function (output, question) that is not async, or a "
            "scorer of Inspect"
        )
        raise ScorerError(msg)
    try:
        parameters = inspect.signature(value)
        if "trace" in parameters.bind("output", "question").signature.parameters:
            raise TypeError  # noqa: TRY301 -- a metric of DSPy
    except TypeError:
        msg = (
            f"a scorer takes (output, question), but {_name_of(value)} takes {parameters}. Wrap a "
            "metric of DSPy's: optim.scorers.from_dspy(metric)."
        )
        raise InputError(msg) from None
    except ValueError:  # a builtin without a signature
        pass
    return FunctionScorer(value)


def scorer_name(scorer: ScorerLike) -> str:
    """Return the name of a scorer, else that of its function or class."""
    return _name_of(as_scorer(scorer))


def scorer_code(scorer: ScorerLike) -> str:
    """Return a digest of the code that decides a scorer's verdicts, or "" where there is none.

    The digest covers the scorer's module, the modules beside it that this module uses, and how an
    answer is found in an output, because all of them change scores. For a scorer of Inspect the
    arguments are digested.
    """
    source: Any = as_scorer(scorer)
    if isinstance(source, InspectScorer):
        return source.arguments
    if isinstance(source, FunctionScorer):
        source = inspect.unwrap(source.function)
    source = source if inspect.isroutine(source) else type(source)
    try:
        lines, number = inspect.findsource(source)
    except (OSError, TypeError):  # typed at a prompt, or not in Python
        return ""
    return digest([source.__qualname__, number, "".join(lines), *_used_by(source.__module__)])


def _used_by(name: str) -> Iterator[str]:
    """Yield the sources of the modules beside a module whose functions and classes it uses."""
    folder = Path(getattr(sys.modules.get(name), "__file__", None) or "").parent
    names = [name]
    for each in names:
        for value in vars(sys.modules[each]).values() if each in sys.modules else ():
            home = getattr(value, "__module__", None)
            file = getattr(sys.modules.get(home), "__file__", None) if home else None
            is_near = home == _READING or (file and Path(file).parent == folder)
            if home not in names and is_near:
                names.append(str(home))
    for each in sorted(names[1:]):
        yield Path(str(sys.modules[each].__file__)).read_text(encoding="utf-8")


def _name_of(scorer: object) -> str:
    name = getattr(scorer, "name", None) or getattr(scorer, "__qualname__", None)
    return str(name or type(scorer).__qualname__)


def _is_inspect(value: object) -> TypeIs[TheirScorer]:
    """Return whether a function with Inspect's ``@scorer`` created this value."""
    return getattr(getattr(value, "__registry_info__", None), "type", None) == "scorer"


class FunctionScorer:
    """Scores with a function, whose source identifies the scorer."""

    def __init__(self, function: ScoreFunction) -> None:
        self.function = function
        self.name = _name_of(function)

    def score(self, output: str, question: Question) -> Score:
        """Score as `Scorer.score`; a failure of the function is a `ScorerError`."""
        try:
            value = self.function(output, question)
            return value if isinstance(value, Score) else Score(float(value), None, self.name)
        except Exception as error:
            msg = f"the scorer {self.name} failed: {type(error).__name__}: {error}"
            raise ScorerError(msg) from error


def from_dspy(metric: Callable[..., Any]) -> FunctionScorer:
    """Return a scorer that asks a metric of DSPy, whose value goes from 0 to 1.

    ::

        tune(program, train, dev, scorer=from_dspy(dspy.evaluate.answer_exact_match))

    Args:
        metric: Function of an example and a prediction with ``answer``. The example is the one that
            the question was made of, with all of its fields; the answer is what the output states
            in a box or as its final answer, else all of it.
    """

    @functools.wraps(metric)  # its source identifies the scorer
    def judged(output: str, question: Question) -> Any:  # noqa: ANN401 -- a metric's value
        import dspy  # noqa: PLC0415 -- takes a second

        example = question.metadata.get(EXAMPLE) or example_of(question)
        answer = boxed_answer(output) or final_answer(output, is_whole=True) or output
        return metric(example, dspy.Prediction(answer=answer))

    judged.__qualname__ = _name_of(metric)
    return FunctionScorer(judged)


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
    """Return the state of a sample with this output; Inspect takes seconds to import."""
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
    letter = SCORERS["choice"](output, question).answer
    for place in range(len(choices)):
        state.choices.mark_choice(place, letter == chr(ord("A") + place))
    return state
