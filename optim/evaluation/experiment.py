"""What to evaluate: one value that says everything about a run."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from optim.datasets import data_set, level_examples, load
from optim.evaluation.identity import made_by, scorer_name
from optim.methods import ALL, ESTIMATED, NAMES, Method, check_distinct, methods
from optim.records import REMOTE
from optim.records.parts import Part
from optim.scorers import as_scorer
from pb_graph.errors import InputError
from pb_graph.program import PlannerProgram
from pb_graph.settings import Context

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from optim.datasets import Question
    from optim.evaluation.models import ModelSpec
    from optim.scorers import Scorer
    from pb_graph.models.caps import CapPolicy
    from pb_graph.planner.planner import Planner

_SERVED = {"mathematics", "arithmetic", "general"}  # by the package's own problems of known level


@dataclass(frozen=True, kw_only=True)
class Experiment:
    """Which questions, which methods, which models, and how much.

    Attributes:
        dataset: A name of `optim.datasets.DATASETS`.
        methods: Names as `optim.methods.methods` takes them, or methods of your own.
        settings: Overrides for all methods given by name, such as ``{"cutoff": 1500}``.
        model: Solves: a chat model, ``provider:model``, or None as for `build_graph`.
        planner: Plans and estimates; None for the same model.
        planner_program: A tuned planner, or the path of a saved one.
        cap_policy: As for `build_graph`.
        data: A local file instead of the hub.
        split: Another split of the hub's than the usual one.
        limit: How many questions, drawn evenly over the levels; None for all.
        levels: Only these levels.
        part: Only this part of the questions drawn, such as ``3/16``; None for all of them. Each
            part has a log_dir of its own, and `optim.records.read_records` pools them.
        fields: The file's name for a column of the data set.
        skip_bad_rows: Leave out rows that are no questions.
        scorer: Another scorer than the data set's own: a name, an object with
            ``score(output, question)``, a function of the answer and the question that gives a
            number from 0 to 1, a truth value or a `Score`, or a scorer of Inspect, such as
            ``match()``, ``pattern(...)`` or ``model_graded_qa(model=...)``. What a judging model
            costs is not counted in T, nor kept for a second run.
        epochs: How often each question is asked.
        temperature: Of the models; None for their own (0 for local ones).
        top_p: Likewise.
        fresh_plans: Let each epoch have a plan of its own, instead of one for all of them.
        seed: Of the draw.
        estimate_level: Let the planner estimate a question's level, and pay for that, instead of
            taking the data set's label. Without it, ``default`` is run both ways.
        concurrency: How many questions are answered at once, over all methods.
        log_dir: A folder for logs, and for what has been paid for; or the address of one in a
            store that fsspec knows, such as ``s3://bucket/run``, for the logs alone.
        work_dir: A local folder for the lock and the replies that were paid for, which a store
            cannot hold; log_dir when not given. Without it, what is unfinished is paid for again.
        max_tokens_total: Completion tokens after which no new answer is begun; those that earlier
            runs in the folder have spent count, too. Answers under way are let finish. Each part
            has its own: n parts may spend n times as many.
        retry_errors: Answer questions again that failed in an earlier run.

    Raises:
        InputError: A number or part out of range, several epochs at temperature 0, or a log_dir
            in a store without a work_dir beside it.
    """

    dataset: str
    methods: str | Sequence[str | Method] = ALL
    settings: Mapping[str, Any] = field(default_factory=dict)
    model: ModelSpec = None
    planner: ModelSpec = None
    planner_program: Planner | str | Path | None = None
    cap_policy: CapPolicy | None = None
    data: str | Path | None = None
    split: str | None = None
    limit: int | None = None
    levels: Sequence[int] | None = None
    part: str | None = None
    fields: Mapping[str, str] = field(default_factory=dict)
    skip_bad_rows: bool = False
    scorer: str | Scorer | type[Scorer] | Callable[..., Any] | None = None
    epochs: int = 1
    temperature: float | None = None
    top_p: float | None = None
    fresh_plans: bool = False
    seed: int = 0
    estimate_level: bool = False
    concurrency: int = 8
    log_dir: str | Path = "logs"
    work_dir: str | Path | None = None
    max_tokens_total: int | None = None
    retry_errors: bool = False

    def __post_init__(self) -> None:
        for name in ("epochs", "concurrency", "limit", "max_tokens_total"):
            value = getattr(self, name)
            if value is not None and value < 1:
                msg = f"{name} must be at least 1, not {value}"
                raise InputError(msg)
        if self.part is not None:
            Part.read(self.part)
        self._check_sampling()
        self._check_folders()

    def _check_folders(self) -> None:
        folder = str(self.work_dir or self.log_dir)
        if REMOTE in folder and not self.work_dir:
            msg = (
                f"{folder!r} is in a store, which takes the logs but no lock, nor each reply as it "
                "is paid for: name a local folder for these, too (--work-dir)"
            )
            raise InputError(msg)
        if REMOTE in folder or not f"{folder}{self.log_dir}".isprintable():
            msg = f"work_dir, or a log_dir without one, must be a local folder, not {folder!r}"
            raise InputError(msg)

    def _check_sampling(self) -> None:
        if self.temperature is not None and not self.temperature >= 0:
            msg = f"temperature must be at least 0, not {self.temperature}"
            raise InputError(msg)
        if self.top_p is not None and not 0 < self.top_p <= 1:
            msg = f"top_p must be above 0 and at most 1, not {self.top_p}"
            raise InputError(msg)
        if self.epochs == 1:
            return
        from optim.evaluation.models import temperature_of  # noqa: PLC0415 -- loads LangChain

        if temperature_of(self.model, self.temperature) == 0:
            msg = (
                f"{self.epochs} epochs at temperature 0 would be one and the same answer "
                f"{self.epochs} times: give a temperature (such as --temperature 0.7), or one epoch"
            )
            raise InputError(msg)

    def chosen_methods(self, questions: Sequence[Question] | None = None) -> tuple[Method, ...]:
        """The methods by name, with the overrides applied, and those of the caller's own.

        Where the questions have levels, a row of ours that goes by them takes them for granted,
        which a user cannot; so a second one, such as ``plan_and_budget_estimated``, has them
        estimated and is charged that.

        Args:
            questions: What is asked, by all parts together; loaded when not given.
        """
        asked = [self.methods] if isinstance(self.methods, str) else self.methods
        chosen = [
            self._as_built(method, is_ours=not isinstance(one, Method))
            for one in asked
            for method in ((one,) if isinstance(one, Method) else methods(one, self.settings))
        ]
        questions = self.drawn() if questions is None else questions
        if not self.estimate_level and any(question.level is not None for question in questions):
            chosen = [row for method in chosen for row in _both_ways(method, chosen)]
        check_distinct(chosen)
        if not chosen:
            msg = "no method to evaluate"
            raise InputError(msg)
        if all(question.domain in _SERVED for question in questions):
            return tuple(chosen)
        return tuple(self._with_examples(chosen, questions))

    def _as_built(self, method: Method, *, is_ours: bool) -> Method:
        """Say in the settings which method it is, as `build_graph` chooses it of what is given.

        ``default`` takes those that a program was tuned with, under what is said for all rows.
        """
        settings, program = method.settings, self.planner_program
        saved = PlannerProgram.load(program) if isinstance(program, str | Path) else None
        takes_them = is_ours and method.name.partition("@")[0] in {"default", ESTIMATED}
        if takes_them and saved and saved.settings:
            settings = Context(settings=settings).settings_over(saved.settings)
        return replace(
            method,
            settings=settings.model_copy(update={"method": settings.method}),
            estimate_level=self.estimate_level or method.estimate_level,
        )

    def _with_examples(
        self, chosen: Sequence[Method], questions: Sequence[Question]
    ) -> Iterator[Method]:
        """Have levels, those of sub-questions too, judged by examples of the questions' own field.

        Where the data set has none left, there are none: never ours, which are mathematics.
        """
        pool = load(
            self.dataset, path=self.data, split=self.split, skip_bad_rows=True, fields=self.fields
        )
        examples = {"level_examples": level_examples(pool, questions, self.seed)}
        for method in chosen:
            own = not method.settings.has_budget or method.settings.level_examples is not None
            settings = method.settings if own else method.settings.model_copy(update=examples)
            yield replace(method, settings=settings)

    def drawn(self) -> list[Question]:
        """The questions that all parts ask together."""
        return load(
            self.dataset,
            path=self.data,
            split=self.split,
            limit=self.limit,
            seed=self.seed,
            levels=self.levels,
            skip_bad_rows=self.skip_bad_rows,
            fields=self.fields,
        )

    def judge(self) -> Scorer:
        """Make the scorer.

        Raises:
            InputError: There is no scorer of that name.
            ScorerError: It cannot be set up.
        """
        return as_scorer(self.scorer or data_set(self.dataset).scorer)

    @property
    def scorer_name(self) -> str:
        """Who scores."""
        return scorer_name(self.scorer or data_set(self.dataset).scorer)

    def made_by(self, method: Method) -> dict[str, Any]:
        """How a log of the method's answers comes about, for those who read it."""
        about = made_by(
            self.dataset, data=self.data, split=self.split, seed=self.seed, scorer=self.scorer_name
        )
        return about | {"settings": method.settings.model_dump(mode="json")}

    @property
    def sampling(self) -> dict[str, float]:
        """Temperature and top-p, where they are chosen."""
        values = {"temperature": self.temperature, "top_p": self.top_p}
        return {name: value for name, value in values.items() if value is not None}


def _both_ways(method: Method, chosen: Sequence[Method]) -> tuple[Method, ...]:
    taken = {one.name for one in chosen}
    twin = f"{method.name}_estimated"
    if twin not in NAMES or twin in taken or not method.settings.needs_level:
        return (method,)
    return method, replace(method, name=twin, estimate_level=True)
