"""Describe an evaluation in one value, the experiment."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from optim.datasets import Question, Questions
from optim.datasets.questions import Limits, option
from optim.methods import NAMES, PAPER, PUBLISHED, Method, methods, over_budgets
from optim.records import REMOTE
from optim.scorers import NAMES as SCORERS
from optim.scorers import ScorerLike
from pb_graph.errors import InputError

if TYPE_CHECKING:
    from optim.bench.bench import ModelSpec
    from pb_graph.models.caps import CapPolicy
    from pb_graph.planner.planner import Planner

_QUESTIONS, _METHODS, _MODEL = "Questions", "Methods", "Model"
_LIMITS, _OUTPUT = "Limits", "Output"


@dataclass(frozen=True, kw_only=True)
class Experiment(Limits, Questions):
    """Questions, methods, models and limits of an evaluation.

    The fields of `Questions` choose the questions, and those of `Limits` limit the run; with
    ``part``, the limit is that of the part alone. The help of each field is that of its option of
    `pb-optim eval`. Beyond it:

    Attributes:
        methods: Names as `optim.methods.methods` takes them, or methods of your own.
        grid: Budget rules that replace those of the methods, as `optim.methods.over_budgets`.
        model: A chat model, ``provider:model``, or None as for `build_graph`.
        planner_program: A tuned planner for the method ``default``, or the path of a saved one.
        cap_policy: As for `build_graph`.
        scorer: A name, an object with ``score(output, question)``, a function of the answer and the
            question that returns a number from 0 to 1, a truth value or a `Score`, or a scorer of
            Inspect, such as ``match()`` or ``model_graded_qa(model=...)``. The tokens of a judging
            model do not count in T, and its verdicts are not kept for a second run.
        estimate_level: Without it, methods that use the level run twice: with the label, and as
            ``NAME_estimated`` with the level estimated and paid for.
        log_dir: A folder, or the address of one in a store that fsspec knows, such as
            ``s3://bucket/run``: lock and paid replies are in ``bucket/run`` below this folder then.

    Raises:
        InputError: If a number or the part is out of range.
    """

    epochs: int = option("Answers to each question.", _QUESTIONS, 1)
    part: str | None = option(
        "Run part I of N, one part for each machine.", _QUESTIONS, None, metavar="I/N"
    )
    methods: str | Sequence[str | Method] = option(
        f"Comma-separated: names, {PAPER}, {PUBLISHED}, NAME=FILE (tuned program or settings); "
        "NAME@300 caps each call.", _METHODS, "vanilla,default",
    )  # fmt: skip
    settings: Mapping[str, Any] = option(
        "A setting for all methods; repeatable.", _METHODS, dict, flags="--set",
        metavar="NAME=VALUE",
    )  # fmt: skip
    grid: str | None = option("Budgets, such as 50,100+25,50.", _METHODS, None)
    scorer: ScorerLike | None = option(
        "Replaces the default. FILE.py:NAME of your own, or:", _METHODS, None, names=SCORERS
    )
    estimate_level: bool = option("Estimate every level.", _METHODS, default=False)
    model: ModelSpec = option("Solver: 'provider:model' or 'local:NAME'.", _MODEL, None)
    planner: ModelSpec = option("Planner. Default: the solver.", _MODEL, None)
    planner_program: Planner | str | Path | None = option(
        "Short for the method default=FILE.", _MODEL, None, flags="--program"
    )
    cap_policy: CapPolicy | str | None = option(
        "The one that `pb-graph probe` names.", _MODEL, None
    )
    temperature: float | None = option("Sampling temperature, for several --epochs.", _MODEL, None)
    concurrency: int = option("Questions answered at once.", _LIMITS, 8)
    log_dir: str | Path = option("Folder for logs and replies.", _OUTPUT, "logs")

    def __post_init__(self) -> None:
        Questions.__post_init__(self)
        Limits.__post_init__(self)
        for name in ("epochs", "concurrency"):
            if (value := getattr(self, name)) < 1:
                msg = f"{name} must be at least 1, not {value}"
                raise InputError(msg)
        if self.part is not None:
            read_part(self.part)

    @property
    def folder(self) -> Path:
        """Local folder with the lock and the paid replies."""
        return Path(str(self.log_dir).rpartition(REMOTE)[2])

    def in_part(self, questions: Sequence[Question]) -> list[Question]:
        """Return the questions of this experiment's part."""
        if self.part is None:
            return list(questions)
        number, of = read_part(self.part)
        return [question for question in questions if part_of(question.id, of) == number]

    def chosen_methods(self, questions: Sequence[Question]) -> tuple[Method, ...]:
        """Return the methods for the questions of all parts, with estimated twins and the grid."""
        rows = [
            replace(  # with the method by its name, as `build_graph` chooses it
                method,
                settings=method.settings.model_copy(update={"method": method.settings.method}),
                estimate_level=self.estimate_level or method.estimate_level,
            )
            for method in methods(self.methods, self.settings, self.planner_program)
        ]
        # Data sets have labels for the level, but questions of users do not.
        has_labels = any(question.level is not None for question in questions)
        names = {method.name for method in rows}
        for method in [*rows] if has_labels and not self.estimate_level else ():
            base, at, cap = method.name.partition("@")
            twin = f"{base}_estimated{at}{cap}"
            is_known = f"{base}_estimated" in NAMES and twin not in names
            if is_known and method.settings.needs_level:
                estimated = replace(method, name=twin, estimate_level=True)
                rows.insert(rows.index(method) + 1, estimated)
        if self.grid is not None:
            rows = list(over_budgets(rows, self.grid))
        if len({method.name for method in rows}) < len(rows):
            msg = f"a method is named twice: {', '.join(method.name for method in rows)}"
            raise InputError(msg)
        return tuple(rows)

    @property
    def chosen_scorer(self) -> ScorerLike:
        """The scorer, else the name of the data set's own."""
        return self.scorer or self.source.scorer


def read_part(text: str) -> tuple[int, int]:
    """Read a part such as ``3/16``, of one of several machines: its number, and that of all parts.

    Raises:
        InputError: If the text is no part.
    """
    match = re.fullmatch(r"(\d+)/(\d+)", text)
    number, of = map(int, match.groups()) if match else (0, 0)
    if not 1 <= number <= of:
        msg = f"a part must be I/N, such as 3/16, with I from 1 to N, not {text!r}"
        raise InputError(msg)
    return number, of


def part_of(question: str, of: int) -> int:
    """Return the number of the part that has the question with this id, the same everywhere.

    It depends on the id and the number of parts alone. So parts differ in size by chance, and a
    larger draw moves no question to another part.
    """
    return int.from_bytes(hashlib.sha256(question.encode()).digest()[:8]) % of + 1
