"""The package's optimizers by name; choices that do not go together are refused.

DSPy's are wrapped so that prompts get no examples, a trial is a whole split wherever that can be,
and nothing is paid for twice. GEPA and the settings search have modules of their own.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING

import dspy

from optim.e3 import e3
from optim.tuning.candidate import Texts, own_texts, read_texts
from optim.tuning.examples import examples
from optim.tuning.gepa import gepa, worth
from optim.tuning.optimizer import REGISTERED, Optimizer, Round, optimizer
from optim.tuning.options import OPTIMIZERS, TUNED
from optim.tuning.reflection import compiling
from optim.tuning.settings_search import settings_search
from optim.tuning.shortest import shortest
from pb_graph.errors import InputError, did_you_mean

if TYPE_CHECKING:
    from optim.e3 import Incumbent
    from optim.tuning.candidate import Candidate

__all__ = [
    "OPTIMIZERS",
    "TUNED",
    "candidates",
    "check",
    "choose",
    "copro",
    "gepa",
    "miprov2",
    "random_search",
    "settings_search",
    "shortest",
    "simba",
]

_USUAL = {"settings": "settings", "solve": "shortest"}  # else gepa


@optimizer(
    "copro",
    "DSPy's COPRO: instructions are written, seen with their E³, and rewritten",
    reflects=True,
)
def copro(task: Round, *, breadth: int = 6, depth: int = 2) -> Sequence[Candidate]:
    """Give every instruction that was measured; all of dev is one example, so E³ is exact.

    COPRO also tunes the words that lead up to the reply. Our prompts have none, so of what it
    finds only the instruction counts.

    Args:
        task: The round.
        breadth: Instructions for each depth, the incumbent's among the first.
        depth: How often the reflection model gets to see how they did.
    """
    split = _WholeSplit(task)
    made = dspy.COPRO(
        prompt_model=task.reflection.language_model(),
        metric=lambda gold, pred, trace=None: pred.ratio,  # noqa: ARG005 -- DSPy's signature
        breadth=breadth,
        depth=depth,
    )
    whole = dspy.Example(split="dev").with_inputs("split")
    how = {"num_threads": 1, "display_progress": False, "display_table": 0}
    with compiling(task):
        made.compile(split, trainset=[whole], eval_kwargs=how)
    return task.measured(split.program)


class _WholeSplit(dspy.Module):  # type: ignore[misc]  # dspy carries no types
    """Answers all of dev at once; ``ratio`` is E³ over the incumbent's, 0 where not measured."""

    def __init__(self, task: Round) -> None:
        super().__init__()
        self._task = task
        self.program = task.program()

    def forward(self, split: str) -> dspy.Prediction:  # noqa: ARG002 -- there is one
        """Answer them all."""
        task = self._task
        try:
            candidate = self.program.candidate
            self.program.seen.setdefault(candidate.identity, candidate)
            results = task.evaluator.measure(candidate, task.dev)
        except Exception as error:  # noqa: BLE001 -- an unusable instruction must not end the others
            return dspy.Prediction(ratio=0.0, error=str(error))
        value = e3([result.score for result in results], [result.tokens for result in results])
        baseline = task.baseline
        return dspy.Prediction(ratio=value * baseline.tokens / baseline.accuracy**2, error=None)


def clipped(baseline: Incumbent) -> Callable[..., float | bool]:
    """Give the metric s = 2a/A0 - t/T0 for optimizers that only know numbers.

    Its mean is 1 at the incumbent. It is kept within ± `FAR_BELOW`: SIMBA raises e to it, divided
    by a temperature of 0.2, which overflows above 142.
    """

    def metric(
        gold: dspy.Example,  # noqa: ARG001 -- the bench has scored the answer
        pred: dspy.Prediction,
        trace: object = None,
    ) -> float | bool:
        if trace is not None:
            # Bootstrapping asks whether to keep an example, and takes any number but 0 for yes.
            return bool(pred.score)
        return worth(pred, baseline)

    return metric


@optimizer(
    "miprov2",
    "DSPy's MIPROv2: instructions up front, then Bayesian search",
    reflects=True,
    learns=True,
    needs=("optuna",),
)
def miprov2(task: Round, *, instructions: int = 6, trials: int = 10) -> Sequence[Candidate]:
    """Give every instruction that was measured; there are no examples in the prompt.

    Each trial is the whole of dev: a trial that comes back to an instruction costs nothing here,
    so minibatches would save little and make the choice noisy.

    Args:
        task: The round.
        instructions: How many are written, the incumbent's included.
        trials: How many are tried.
    """
    model = task.reflection.language_model()
    made = dspy.MIPROv2(
        metric=clipped(task.baseline),
        prompt_model=model,
        task_model=model,  # never asked: the program brings its own
        max_bootstrapped_demos=0,
        max_labeled_demos=0,
        auto=None,
        num_candidates=instructions,
        num_threads=task.evaluator.concurrency,
        max_errors=10**9,  # the program does not raise
        seed=task.seed + 1,  # 0 would count as not given
    )
    program = task.program()
    with compiling(task, guarded=True):
        made.compile(
            program,
            trainset=examples(task.train),
            valset=examples(task.dev),
            num_trials=trials,
            minibatch=False,
            program_aware_proposer=False,  # our source code tells nothing about the task
            fewshot_aware_proposer=False,
        )
    return task.measured(program)


@optimizer(
    "simba",
    "DSPy's SIMBA: what told good from bad answers becomes a rule",
    reflects=True,
    learns=True,
)
def simba(task: Round, *, batch: int = 8, width: int = 3, steps: int = 3) -> Sequence[Candidate]:
    """Give the instructions that won a step, best first; rules are appended, no examples.

    It lives on answers to one question that differ, so it wants a solver that is not asked at
    temperature 0; the plan is the same each time.

    Args:
        task: The round.
        batch: Questions of a step.
        width: Answers to each question of a step, and most new instructions of it.
        steps: How many.
    """
    model = task.reflection.language_model()
    made = dspy.SIMBA(
        metric=clipped(task.baseline),
        bsize=min(batch, len(task.train)),
        num_candidates=width,
        max_steps=steps,
        max_demos=0,
        prompt_model=model,
        num_threads=task.evaluator.concurrency,
    )
    program, outcome = task.program(), None
    with dspy.context(lm=model), compiling(task):
        outcome = made.compile(program, trainset=examples(task.train), seed=task.seed)
    if outcome is None:
        return task.measured(program)
    won: list[Candidate] = []
    for row in outcome.candidate_programs:
        with suppress(InputError):  # an instruction that is empty or too long
            won.append(row["program"].candidate)
    for candidate in won:
        program.seen.pop(candidate.identity, None)
    task.measured(program)  # the others have lost a step
    return won


def _forecast(
    questions: int, calls: int, _original: Candidate, _seed: int, texts: Sequence[str]
) -> str:
    """How many of a list the answers reach, each on all of dev, after the original."""
    reached = min(len(texts), max(0, calls // questions - 1))
    text = f"{reached} of {len(texts)} instructions on {questions} questions each."
    if reached < len(texts):
        text += f" This budget does not reach the other {len(texts) - reached}. A higher one would."
    return text


@optimizer(
    "random", "draws from a list of instructions", chooses=True, once=True, forecast=_forecast
)
def random_search(task: Round, *, texts: Sequence[str]) -> Sequence[Candidate]:
    """Give them in drawn order: the baseline that an optimizer has to beat."""
    order = random.Random(task.seed)  # noqa: S311 -- a draw, not a secret
    return task.candidates(order.sample(list(texts), len(texts)))


@optimizer(
    "candidates", "measures a list of instructions", chooses=True, once=True, forecast=_forecast
)
def candidates(task: Round, *, texts: Sequence[str]) -> Sequence[Candidate]:
    """Give all of them, in their order."""
    return task.candidates(texts)


def choose(
    optimizer: str | Optimizer | None, tuned: str, predictor: str, texts: Texts | None
) -> tuple[Optimizer, list[str]]:
    """The optimizer, and the instructions that are measured before it begins."""
    chosen = _named(optimizer, tuned)
    given = None if texts is None else read_texts(texts)
    # One that was called with a list has it already.
    if chosen.chooses and "texts" not in getattr(chosen.propose, "keywords", {}):
        return chosen(texts=own_texts(predictor) if given is None else given), []
    return chosen, given or []


def check(
    optimizer: str | Optimizer | None, tuned: str, texts: Texts | None, *, reflection: bool
) -> Optimizer:
    """Refuse names that nobody has, and whatever is given and would be ignored.

    Returns:
        The optimizer that was named, without its options.

    Raises:
        InputError: What is wrong, and what to leave out.
    """
    if tuned not in TUNED:
        msg = f"what is tuned is one of {', '.join(TUNED)}, not {tuned!r}"
        raise InputError(msg)
    if isinstance(optimizer, str) and optimizer not in OPTIMIZERS:
        msg = f"no optimizer named {optimizer!r}; there are: {', '.join(OPTIMIZERS)}"
        raise InputError(msg + did_you_mean(optimizer, OPTIMIZERS))
    chosen = _named(optimizer, tuned)
    if tuned == "settings":
        _check_settings(optimizer, texts, reflection=reflection)
    elif chosen.tunes == "examples" and tuned != "solve":
        msg = (
            f"{chosen.name} finds worked examples for the solver: tune solve (--tune solve); with "
            "all they are found anyway, beside the prompts of another optimizer"
        )
        raise InputError(msg)
    elif tuned == "all" and isinstance(optimizer, str) and chosen.chooses:
        msg = (
            f"{chosen.name} chooses from a list, which is of one prompt: tune that one (--tune "
            "decompose), or take an optimizer that has instructions written"
        )
        raise InputError(msg)
    elif reflection and not chosen.reflects:
        writers = [one.name for one in REGISTERED.values() if one.reflects]
        msg = (
            "the reflection model (--reflection-model) would not be asked, as this optimizer has "
            f"no instructions written: leave it out, or choose {', '.join(writers)}"
        )
        raise InputError(msg)
    return chosen


def _check_settings(
    optimizer: str | Optimizer | None, texts: Texts | None, *, reflection: bool
) -> None:
    """The settings search leaves prompts be, and asks nobody."""
    ignored = {
        "the optimizer (--optimizer)": isinstance(optimizer, str),
        "the candidates (--candidates)": texts is not None,
        "the reflection model (--reflection-model)": reflection,
    }
    named = [name for name, given in ignored.items() if given]
    if named:
        msg = (
            "the search of settings changes no prompt: leave out "
            f"{' and '.join(named)}, or tune decompose or estimate (--tune)"
        )
        raise InputError(msg)


def _named(optimizer: str | Optimizer | None, tuned: str) -> Optimizer:
    if isinstance(optimizer, Optimizer):
        return optimizer
    return REGISTERED[optimizer or _USUAL.get(tuned, "gepa")]
