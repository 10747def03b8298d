"""Tune a program on questions within a budget, and return the program with the evidence."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rich.console import Console

from optim.tuning.evaluator import Evaluator
from optim.tuning.optimizers import read_instructions
from optim.tuning.options import TuneOptions, resolve_optimizer
from optim.tuning.program import GraphProgram, check_is_sent, predictor_of
from optim.tuning.record import record_of
from optim.tuning.reflection import Reflector
from optim.tuning.search import Search, questions_of, split_of
from pb_graph.cli.display import safe
from pb_graph.errors import InputError
from pb_graph.models.resolve import model_name

if TYPE_CHECKING:
    import dspy

    from optim.datasets import Question, Questions
    from optim.scorers import ScorerLike
    from optim.tuning.verdict import Verdict
    from pb_graph.program import PlannerProgram


@dataclass(frozen=True, slots=True, repr=False)
class TuneResult:
    """The outcome of a tuning.

    Attributes:
        program: The program to use, with the models of the given program: the winner on dev, or the
            original if it was kept.
        artefact: The saved form of the program: prompts, settings and the record of the tuning.
        search: Every candidate that was measured, and the questions.
    """

    program: GraphProgram
    artefact: PlannerProgram
    search: Search

    def __repr__(self) -> str:
        return f"{self.verdict.verdict}: {self.verdict.reason}"

    @property
    def verdict(self) -> Verdict:
        """The verdict: only ``better`` says that the held-out questions show an improvement."""
        return self.search.verdict

    @property
    def record(self) -> dict[str, Any]:
        """The record of this tuning in the artefact."""
        return self.artefact.tuning or {}

    def save(self, path: str | Path) -> None:
        """Write the artefact, which ``build_graph(planner_program=path)`` loads."""
        self.artefact.save(path)


def tune(  # noqa: PLR0913 -- all but three by name
    program: GraphProgram,
    train: Questions | Sequence[Question | dspy.Example],
    dev: Questions | Sequence[Question | dspy.Example],
    *,
    scorer: ScorerLike,
    held_out: Questions | Sequence[Question | dspy.Example] | None = None,
    about: Mapping[str, Any] | None = None,
    callback: Callable[[str], None] | None = None,
    **choices: Any,  # noqa: ANN401 -- the fields of TuneOptions
) -> TuneResult:
    """Tune a program's prompts, or its settings, for E³ on a dev split.

    The winner on dev is compared with the original on held-out questions. The verdict is ``better``
    if its E³ is higher with a one-sided confidence of 90 %, ``undecided`` if its E³ is not lower
    (the winner is used, but the improvement is not proven), and otherwise ``kept``. The same call
    with the same run folder resumes, and pays for no answer twice.

    Args:
        program: The original: its models, prompts and settings.
        train: What optimizers learn from: `Questions`, or a list of questions or of examples with
            ``question`` and ``answer``. If empty, the dev questions are used.
        dev: Questions or examples that are used to choose the winner.
        scorer: As for `optim.scorers.as_scorer`; ``from_dspy(metric)`` for a metric of DSPy's.
        held_out: Questions or examples for the final comparison. None holds out a third of dev.
        about: Facts for the record, such as the name of the data set.
        callback: Receives a sentence about every step. None prints it to standard error.
        choices: Fields of `optim.tuning.options.TuneOptions`, among them ``optimizer`` (a name, an
            `Optimizer`, or an optimizer object of DSPy's), ``budget`` (answers), ``run_dir``,
            ``tuned``, ``candidates``, ``reflection_model``, ``seed``.

    Raises:
        InputError: If there are no usable questions, a question is in two sets, options contradict
            each other, every answer is wrong, the budget is too small, or the folder belongs to
            another run.
        PlanAndBudgetError: If a model cannot be set up or reached, or the disk is full. Finished
            answers are kept.
    """
    options = TuneOptions(**choices)
    optimizer = resolve_optimizer(options)
    if not train and optimizer.name == "shortest":
        msg = "examples are chosen from training questions: give at least one"
        raise InputError(msg)
    others = None if held_out is None else questions_of(held_out)
    split = split_of(questions_of(train), questions_of(dev), others, options.seed)
    settings, domains = program.settings, {question.domain for question in split.dev}
    domain = domains.pop() if len(domains) == 1 else ""
    original = program.candidate
    if domain and "domain" not in settings.model_fields_set:  # the domain's defaults are measured
        original = replace(original, settings=settings.model_copy(update={"domain": domain}))
    settings = settings.for_domain(domain)
    predictor = predictor_of(settings, options.tuned)
    if optimizer.name == "candidates" and isinstance(options.candidates, str | Path | None):
        texts = read_instructions(options.candidates, predictor)
        options = replace(options, candidates=texts)
    if options.tuned != "settings":
        levels = [None if options.estimate_level else question.level for question in split.dev]
        check_is_sent(predictor, settings, levels)
    # Optimizers are silenced by replacing standard error, so the one of today is kept.
    console = Console(file=sys.stderr)
    status = console.status("") if console.is_terminal and callback is None else nullcontext()
    with Evaluator(program, scorer, options) as evaluator, status as display:
        if display is not None:
            evaluator.watcher = lambda: display.update(evaluator.spent.text())
        reflector, graph = None, program.graph
        if optimizer.reflects:
            writes = options.reflection_model or graph.planner or graph.model or model_name(None)
            reflector = Reflector(writes, evaluator)
        tell = callback or (lambda text: console.print(safe(text)))
        search = Search(evaluator, split, optimizer, predictor, reflector, tell)
        search.run(original)
        record = record_of(search, about or {})
    tuned = GraphProgram(
        graph.model,
        planner=graph.planner,
        settings=search.candidate.settings,
        planner_program=search.candidate.prompts(),
        cap_policy=graph.cap_policy,
    )
    return TuneResult(tuned, tuned.program().model_copy(update={"tuning": record}), search)
