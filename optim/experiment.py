"""What to evaluate: one value that says everything about a run."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from optim.datasets import data_set, load
from optim.methods import ALL, Method, check_distinct, methods
from pb_graph.errors import InputError

if TYPE_CHECKING:
    from optim.clients import Given
    from optim.datasets import Question
    from pb_graph.models.caps import CapPolicy
    from pb_graph.planner.planner import Planner

__all__ = ["Experiment"]


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
        fields: The file's name for a column of the data set.
        skip_bad_rows: Leave out rows that are no questions.
        scorer: Another scorer than the data set's own.
        epochs: How often each question is asked.
        seed: Of the draw.
        estimate_level: Let the planner estimate a question's level, and pay for that, instead of
            taking the data set's label.
        concurrency: How many questions are answered at once, over all methods.
        log_dir: A local folder for logs and for what has been paid for.
        max_tokens_total: Completion tokens after which no new answer is begun; those that earlier
            runs in the folder have spent count, too. Answers under way are let finish.
        retry_errors: Answer questions again that failed in an earlier run.

    Raises:
        InputError: A number out of range, or a log_dir that is no local folder.
    """

    dataset: str
    methods: str | Sequence[str | Method] = ALL
    settings: Mapping[str, Any] = field(default_factory=dict)
    model: Given = None
    planner: Given = None
    planner_program: Planner | str | Path | None = None
    cap_policy: CapPolicy | None = None
    data: str | Path | None = None
    split: str | None = None
    limit: int | None = None
    levels: Sequence[int] | None = None
    fields: Mapping[str, str] = field(default_factory=dict)
    skip_bad_rows: bool = False
    scorer: str | None = None
    epochs: int = 1
    seed: int = 0
    estimate_level: bool = False
    concurrency: int = 8
    log_dir: str | Path = "logs"
    max_tokens_total: int | None = None
    retry_errors: bool = False

    def __post_init__(self) -> None:
        for name in ("epochs", "concurrency", "limit", "max_tokens_total"):
            value = getattr(self, name)
            if value is not None and value < 1:
                msg = f"{name} must be at least 1, not {value}"
                raise InputError(msg)
        if "://" in str(self.log_dir):
            msg = f"log_dir must be a local folder, not {self.log_dir}; copy the logs afterwards"
            raise InputError(msg)

    def chosen_methods(self) -> tuple[Method, ...]:
        """The methods by name, with the overrides applied, and those of the caller's own.

        Raises:
            InputError: As `optim.methods.methods`.
        """
        if isinstance(self.methods, str):
            return methods(self.methods, self.settings)
        chosen = tuple(
            found
            for given in self.methods
            for found in ((given,) if isinstance(given, Method) else methods(given, self.settings))
        )
        check_distinct(chosen)
        if not chosen:
            msg = "no method to evaluate"
            raise InputError(msg)
        return chosen

    def questions(self) -> list[Question]:
        """The questions that are asked.

        Raises:
            InputError: As `optim.datasets.load`.
        """
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

    @property
    def scorer_name(self) -> str:
        """Who scores."""
        return self.scorer or data_set(self.dataset).scorer

    @property
    def source(self) -> str:
        """Where the questions are from, as logs say it."""
        return Path(self.data).name if self.data else f"split {self.split or 'as usual'}"
