"""What `pb-optim tune` is told, as one value; loads neither DSPy nor a model."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from langchain_core.language_models import BaseChatModel

    from optim.evaluation.limits import Limits
    from optim.evaluation.models import ModelSpec
    from optim.scorers import Scorer
    from pb_graph.models.caps import CapPolicy

OPTIMIZERS = ("gepa", "copro", "miprov2", "simba", "random", "candidates", "shortest")
"""Names of those that tune a prompt, for help texts: the registry itself would load DSPy."""

TUNED = ("decompose", "estimate", "solve", "all", "settings")


@dataclass(frozen=True, kw_only=True)
class TuneOptions:
    """Everything that a command says.

    Names are those of `optim.tune`, and of `optim.datasets.load` with ``data`` for its path.

    Attributes:
        scorer: Another scorer than the data set's, by name or as an object.
        model: Solves.
        planner: Plans; None for the same.
        program: A saved program to begin from; its settings count unless others are given.
        settings: Overrides, such as ``{"execution": "single_pass"}``.
        limits: What the run folder may cost; None for no limit.
        cap_policy: As for `build_graph`.
    """

    dataset: str
    data: str | Path | None = None
    split: str | None = None
    fields: Mapping[str, str] = field(default_factory=dict)
    skip_bad_rows: bool = False
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
