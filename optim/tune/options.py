"""What `pb-optim tune` is told, as one value; loads neither DSPy nor a model."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from langchain_core.language_models import BaseChatModel

    from optim.evaluate.limits import Limits
    from optim.evaluate.models import ModelSpec
    from optim.scorers import Scorer
    from pb_graph.models.caps import CapPolicy

__all__ = ["OPTIMIZERS", "TUNED", "TuneOptions"]

OPTIMIZERS = ("gepa", "copro", "miprov2", "simba", "random", "candidates", "shortest")
"""Names of those that tune a prompt, for help texts: the registry itself would load DSPy."""

TUNED = ("decompose", "estimate", "solve", "all", "settings")


@dataclass(frozen=True, kw_only=True)
class TuneOptions:
    """Everything that a command says.

    Attributes:
        dataset: A name of `optim.datasets.DATASETS`.
        data: A local file instead of the hub.
        split: Another split of the hub's.
        fields: The file's name for a column.
        levels: Only these levels.
        limit: How many questions, drawn evenly over the levels.
        scorer: Another scorer than the data set's, by name or as an object.
        model: Solves.
        planner: Plans; None for the same.
        reflection_model: Writes instructions; None for the planner.
        optimizer: One of `OPTIMIZERS`; None as for `tune`.
        tuned: One of `TUNED`.
        candidates: File of instructions, used as by `tune`.
        program: A saved program to begin from; its settings count unless others are given.
        settings: Overrides, such as ``{"execution": "single_pass"}``.
        limits: What the run folder may cost; None for no limit.
        rounds: How often the tangent is moved, at most.
        run_dir: For what is paid for, and the outcome.
        seed: Of everything drawn by chance.
        estimate_level: Let the planner estimate levels, and pay for that.
        concurrency: How many answers run at once.
        retry_errors: Answer again what failed in an earlier start.
        cap_policy: As for `build_graph`.
    """

    dataset: str
    data: str | Path | None = None
    split: str | None = None
    fields: Mapping[str, str] = field(default_factory=dict)
    levels: Sequence[int] | None = None
    limit: int | None = None
    scorer: str | Scorer | None = None
    model: ModelSpec = None
    planner: ModelSpec = None
    reflection_model: BaseChatModel | str | None = None
    optimizer: str | None = None
    tuned: str = "decompose"
    candidates: str | Path | None = None
    program: str | Path | None = None
    settings: Mapping[str, Any] = field(default_factory=dict)
    limits: Limits | None = None
    rounds: int = 3
    run_dir: str | Path = "runs/tune"
    seed: int = 0
    estimate_level: bool = False
    concurrency: int = 8
    retry_errors: bool = False
    cap_policy: CapPolicy | None = None
