"""Tune a program on questions within a budget, and return and show the evidence.

The record of a tuning is plain JSON in the program file: a planner program (`pb_graph.program`)
carries it unread.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import asdict, dataclass, replace
from datetime import UTC, datetime
from importlib.metadata import version
from itertools import combinations, groupby
from pathlib import Path
from typing import Any

import dspy
import pandas as pd
from rich.console import Console, RenderableType
from rich.text import Text

from optim.datasets import Question, Questions, sample
from optim.datasets.dataset import question_of
from optim.records import ANSWERS, Records
from optim.reporting.formatting import COLUMNS, DASH, displayed, format_settings, text_table
from optim.reporting.tables import answers, figures, to_rows
from optim.scorers import ScorerLike
from optim.statistics.comparison import MIN_UNBIASED_QUESTIONS
from optim.tuning.evaluator import Evaluator, Reflector
from optim.tuning.optimizers import read_instructions
from optim.tuning.options import PLANS, TuneOptions, resolve_optimizer
from optim.tuning.program import (
    DEFAULT_INSTRUCTIONS,
    Candidate,
    GraphProgram,
    check_is_sent,
    predictor_of,
)
from optim.tuning.search import Search, Split, Trial, Verdict
from pb_graph.cli.display import safe
from pb_graph.errors import InputError
from pb_graph.models.resolve import model_name
from pb_graph.planner.planner import Planner
from pb_graph.program import PlannerProgram
from pb_graph.settings import Settings

Record = dict[str, Any]

_FEWEST_DEV = 6  # of dev and held-out together: two to compare on, so that there is an interval
_HELD_OUT = 3  # one of every three questions
_NAMED = 5  # question ids that an error names
_PACKAGES = ("plan-and-budget", "dspy", "langgraph", "langchain-core")
_VERDICTS = {
    "better": "The tuned program is better.",
    "undecided": "The tuned program is used, but it is undecided whether it is better.",
    "kept": "The original is kept.",
}
_NOTE = "*: on the front of accuracy and tokens. The dev figures favor the winner."
_FIGURES = ("n", "accuracy, %", "completion", "prompt", "money", "E³")
_ENDS = ("", "_lower", "_upper")
_INTERVALS = [f"{name}{end}" for name in ("accuracy", "tokens", "e3") for end in _ENDS]
_KEPT = ("n", *_INTERVALS, "input_tokens", "money", "money_unit")


@dataclass(frozen=True, slots=True, repr=False)
class TuneResult:
    """The outcome of a tuning.

    Attributes:
        program: The program to use, with the models of the given program: the winner on dev, or the
            original if it was kept.
        artefact: The saved form of the program: prompts, settings and the record of the tuning.
        search: Every candidate that was measured, and the questions.
        records: Every answer on dev and on the held-out questions, for `optim.report`, certificates
            and charts: each candidate is a method, dev and held-out questions are two data sets.
    """

    program: GraphProgram
    artefact: PlannerProgram
    search: Search
    records: Records

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
    split.check(options.budget)
    # Optimizers are silenced by replacing standard error, so the one of today is kept.
    console = Console(file=sys.stderr)
    tell = callback or (lambda text: console.print(safe(text)))
    levels = [None if options.estimate_level else question.level for question in split.dev]
    original, settings = _original(program, split, options, levels, tell)
    predictor = predictor_of(settings, options.tuned)
    if optimizer.name == "candidates" and isinstance(options.candidates, str | Path | None):
        texts = read_instructions(options.candidates, predictor)
        options = replace(options, candidates=texts)
    if options.tuned != "settings":
        check_is_sent(predictor, settings, levels)
    status = console.status("") if console.is_terminal and callback is None else nullcontext()
    with Evaluator(program, scorer, options) as evaluator, status as display:
        if display is not None:
            evaluator.watcher = lambda: display.update(evaluator.spent())
        reflector, graph = None, program.graph
        if optimizer.reflects:
            writes = options.reflection_model or graph.planner or graph.model or model_name(None)
            reflector = Reflector(writes, evaluator)
        search = Search(evaluator, split, optimizer, predictor, reflector, tell)
        search.run(original)
        facts = dict(about or {})
        label = facts.get("dataset") or (dev.label if isinstance(dev, Questions) else "list")
        records = search.records(str(label), facts | {"seed": options.seed})
        records.save(evaluator.run_dir / ANSWERS)
        record = record_of(search, records, facts)
    tuned = GraphProgram(
        graph.model,
        planner=graph.planner,
        settings=search.candidate.settings,
        planner_program=search.candidate.prompts(),
        cap_policy=graph.cap_policy,
    )
    artefact = tuned.program().model_copy(update={"tuning": record})
    return TuneResult(tuned, artefact, search, records)


def _original(
    program: GraphProgram,
    split: Split,
    options: TuneOptions,
    levels: Sequence[int | None],
    tell: Callable[[str], None],
) -> tuple[Candidate, Settings]:
    """Return the original, which plans every question if its plans are tuned, and its settings."""
    given, domains = program.settings, {question.domain for question in split.dev}
    domain = domains.pop() if len(domains) == 1 else ""
    original = replace(program.candidate, estimate_level=options.estimate_level)
    if domain and "domain" not in given.model_fields_set:  # the domain's defaults are measured
        original = replace(original, settings=given.model_copy(update={"domain": domain}))
    settings = original.settings
    is_known = None not in levels and any(map(settings.is_planned, levels))
    is_free = options.tuned in PLANS and "plan_from" not in settings.model_fields_set
    if is_free and settings.has_plan and not is_known:
        tell("Every question is planned (plan_from=1), so that each one tests the prompt.")
        original = replace(original, settings=settings.merged_with(Settings(plan_from=1)))
    return original, original.settings.for_domain(domain)


def questions_of(given: Questions | Iterable[Any]) -> list[Question]:
    """Return the questions that are chosen or listed, and examples as questions."""
    if isinstance(given, Questions):
        return given.load()
    questions = [question_of(item) for item in given]
    return Questions(dataset=questions).load() if questions else []


def split_of(
    train: Sequence[Question],
    dev: Sequence[Question],
    held_out: Sequence[Question] | None,
    seed: int,
) -> Split:
    """Check the sets; without held-out questions, hold out a third of dev, of each level."""
    if held_out is None:
        if len(dev) < _FEWEST_DEV:
            msg = (
                f"{len(dev)} dev questions are too few: a third of them is held out for the final "
                f"comparison. Give at least {_FEWEST_DEV}, better 60."
            )
            raise InputError(msg)
        held_out, dev = draw(dev, _HELD_OUT, seed)
    if not dev or not held_out:
        msg = "dev and held_out must not be empty: dev chooses the winner, held_out judges it"
        raise InputError(msg)
    sets = {"train": train, "dev": dev, "held-out": held_out}
    for (first, left), (second, right) in combinations(sets.items(), 2):
        texts = {_text(question) for question in left}
        shared = [question.id for question in right if _text(question) in texts]
        if shared:
            listed = f"{len(shared)} questions ({', '.join(shared[:_NAMED])})"
            msg = f"{second} and {first} share {listed}: remove the repeated ones"
            raise InputError(msg)
    return Split(train or dev, dev, held_out)


def draw(
    questions: Sequence[Question], of: int, seed: int
) -> tuple[list[Question], list[Question]]:
    """Draw one of every ``of`` questions, at least one, from each level its share."""
    mixed = sorted(sample(questions, len(questions), seed), key=lambda one: one.level or 0)
    part: list[Question] = []
    seen = 0
    for _, group in groupby(mixed, key=lambda one: one.level or 0):
        level = [*group]
        part += level[: (seen + len(level)) // of - seen // of]
        seen += len(level)
    part = part or mixed[:1]
    return part, [question for question in questions if question not in part]


def _text(question: Question) -> str:
    return " ".join(f"{question.question}\n{question.reference or ''}".casefold().split())


def record_of(search: Search, answered: Records, about: Mapping[str, Any]) -> Record:
    """Return the record of a search as plain JSON."""
    verdict, split, evaluator = search.verdict, search.split, search.evaluator
    table = figures(answers(answered, prices=evaluator.options.prices))
    rows = [{name: row[name] for name in _KEPT} for row in to_rows(table)]
    held_out = None
    if verdict.comparison:
        original, chosen = rows[len(search.trials) :]
        comparison = asdict(verdict.comparison) | {"dropped": []}
        held_out = {"original": original, "chosen": chosen, "comparison": comparison}
    facts = {
        "optimizer": search.optimizer.name,
        "seed": evaluator.options.seed,
        "solver": evaluator.models.solver.name,
        "planner": evaluator.models.planner.name,
        "reflection": search.reflector.name if search.reflector else None,
        "train": 0 if split.train is split.dev else len(split.train),
        "dev": len(split.dev),
        "held out": len(split.held_out),
        "levels": "estimated" if evaluator.options.estimate_level else "labels, free of charge",
        "answers": evaluator.answers,
        "tokens": evaluator.replies.spent,
        "ended": search.ended,
        "date": f"{datetime.now(UTC):%Y-%m-%d %H:%M} UTC",
        "versions": ", ".join(f"{name} {version(name)}" for name in _PACKAGES),
    }
    return {
        "verdict": verdict.verdict,
        "reason": verdict.reason,
        "facts": facts | dict(about),
        "settings_before": search.original.candidate.settings.model_dump(mode="json"),
        "candidates": [
            _candidate(trial, search) | row
            for trial, row in zip(search.trials, rows, strict=False)  # those held out are last
        ],
        "held_out": held_out,
    }


def _candidate(trial: Trial, search: Search) -> Record:
    candidate, role = trial.candidate, "original" if trial is search.original else "other"
    if trial is search.verdict.winner:
        role = "chosen" if search.verdict.is_adopted else "best on dev"
    return {
        "name": trial.name,
        "role": role,
        "instructions": dict(candidate.instructions),
        "settings": _changed(candidate.settings, search.original.candidate.settings),
        "examples": {name: len(examples) for name, examples in candidate.examples.items()},
        "is_on_front": any(trial is other for other in search.front),
    }


def _changed(after: Settings, before: Settings) -> Record:
    base = before.model_dump(mode="json")
    return {n: value for n, value in after.model_dump(mode="json").items() if value != base[n]}


def shown(program: PlannerProgram) -> Iterator[RenderableType]:
    """Yield the description of a planner program, piece by piece."""
    record = program.tuning
    if record is not None:
        style = "bold green" if record["verdict"] == "better" else "bold yellow"
        reason = safe(f" {record['reason']}", "not bold default")
        yield Text(_VERDICTS[record["verdict"]], style).append_text(reason)
        facts = {n: DASH if value is None else value for n, value in record["facts"].items()}
        yield safe("\n".join(f"{name}: {value}" for name, value in facts.items()))
        yield safe(_table(record))
        few = min(record["facts"]["dev"], record["facts"]["held out"]) < MIN_UNBIASED_QUESTIONS
        bias = " E³ of few questions is biased upwards, and so are its ratios." if few else ""
        yield Text(f"{_NOTE}{bias}", "dim")
        for each in record["candidates"][1:]:
            texts = [" ".join(text.split()) for text in each["instructions"].values()]
            demos = [f"{count} examples for {name}" for name, count in each["examples"].items()]
            told = [*format_settings(each["settings"]), *demos, *texts]
            yield safe(f"{each['name']}: {', '.join(told)}")
    before = Settings(**(record or {}).get("settings_before", {}))
    if changes := _changed(program.settings or before, before):
        yield safe(f"Changed settings: {', '.join(format_settings(changes))}")
    for name, predictor in Planner().load(program).named_predictors():
        examples = f", {len(predictor.demos)} examples" if predictor.demos else ""
        own_text, text = DEFAULT_INSTRUCTIONS[name], predictor.signature.instructions
        if text == own_text:
            yield Text(f"{name}: the package's own prompt{examples}", "dim")
            continue
        yield Text(f"{name}, against the package's own prompt{examples}:", "bold")
        yield from (safe(f"- {line}", "red") for line in own_text.splitlines())
        yield from (safe(f"+ {line}", "green") for line in text.splitlines())


def _table(record: Record) -> str:
    """Return the figures of every candidate on dev, and of the comparison that decided."""
    rows = []
    for candidate in sorted(record["candidates"], key=lambda candidate: -candidate["e3"]):
        mark = " *" if candidate["is_on_front"] else ""
        role = ", best on dev" if candidate["role"] == "chosen" else ""
        rows.append(candidate | {"method": f"{candidate['name']}{role}{mark}"})
    if held_out := record["held_out"]:
        rows += [held_out[n] | {"method": f"{n}, held out"} for n in ("original", "chosen")]
    kept = [name for name in _FIGURES if name != "money" or "money_unit" in rows[0]]
    return text_table(displayed(pd.DataFrame(rows), {name: COLUMNS[name] for name in kept}))
