"""The choices of a tuning, as `optim.tune` and `pb-optim tune` take them; loads no DSPy."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from pkgutil import resolve_name
from typing import TYPE_CHECKING, Any

from optim.datasets.questions import Limits, option
from optim.extras import named_object
from pb_graph.errors import InputError, did_you_mean

if TYPE_CHECKING:
    from langchain_core.language_models import BaseChatModel

PROMPTS = ("decompose", "estimate", "level", "solve")
TUNED = (*PROMPTS, "settings")
PLANS = frozenset({"decompose", "estimate"})
"""The prompts that are only sent for a question that is planned."""


@dataclass(frozen=True, slots=True)
class Optimizer:
    """A function that proposes candidates, and its properties.

    Attributes:
        name: Its name on the command line.
        propose: Function ``(task: OptimizerTask) -> Sequence[Candidate]``, or its import path, such
            as ``"module:function"``. The loop measures each candidate exactly on dev.
        reflects: Whether it needs a reflection model.
        learns: Whether it needs training questions.
        tunes: The values of ``--tune`` that it takes.
    """

    name: str
    propose: Callable[[Any], Sequence[Any]] | str
    reflects: bool = False
    learns: bool = False
    tunes: Sequence[str] = PROMPTS

    def candidates(self, task: Any) -> Sequence[Any]:  # noqa: ANN401 -- typing it would load DSPy
        """Return the candidates that it proposes for a task."""
        propose = resolve_name(self.propose) if isinstance(self.propose, str) else self.propose
        proposals: Sequence[Any] = propose(task)
        return proposals


OPTIMIZERS: dict[str, Optimizer] = {}
"""Every optimizer by name; `optimizer` adds one."""


def optimizer(
    name: str,
    **properties: Any,  # noqa: ANN401 -- the other fields of `Optimizer`
) -> Callable[[Callable[[Any], Sequence[Any]] | str], Optimizer]:
    """Register a function ``(task: OptimizerTask) -> Sequence[Candidate]``.

    Args:
        name: Its name on the command line.
        properties: The other fields of `Optimizer`.
    """

    def register(propose: Callable[[Any], Sequence[Any]] | str) -> Optimizer:
        entry = OPTIMIZERS[name] = Optimizer(name, propose, **properties)
        return entry

    return register


optimizer("gepa", reflects=True, learns=True)("optim.tuning.optimizers:gepa")
optimizer("copro", reflects=True)("optim.tuning.optimizers:copro")
optimizer("candidates")("optim.tuning.optimizers:candidates")
optimizer("shortest", learns=True, tunes=("solve",))("optim.tuning.optimizers:shortest")
optimizer("halving", tunes=("settings",))("optim.tuning.settings:halving")

_WRITERS = ("gepa", "copro", "shortest", "halving")
_USUAL = {"solve": "shortest", "settings": "halving"}


@dataclass(frozen=True, kw_only=True)
class TuneOptions(Limits):
    """The choices of `optim.tune`; each field's help says what it does.

    Raises:
        InputError: If a number is below 1.
    """

    tuned: str = option("What to tune:", default="decompose", names=TUNED, flags="--tune")
    optimizer: Any = option(
        "Default: gepa; shortest for solve. file.py:NAME of your own, or one of:",
        default=None,
        names=OPTIMIZERS,
    )
    reflection_model: BaseChatModel | str | None = option(
        "Model that writes instructions. Default: the planner.", default=None
    )
    candidates: Sequence[str] | str | Path | None = option(
        "Instructions to try, separated by lines of ---.", default=None, metavar="FILE"
    )
    seed: int = option("Seed of every random choice.", default=0)
    estimate_level: bool = option("Estimate every level.", default=False)
    objective: str = option(
        "What is maximized: accuracy² by tokens, by money (prompt tokens too), or gepa's front of "
        "accuracy and tokens:",
        default="e3",
        names=("e3", "money", "front"),
    )
    price_ratio: float = option("Prompt tokens that a completion token costs.", default=4.0)
    max_prompt_tokens: int | None = option("Longest instruction, about.", default=None)
    budget: int = option("Most answers of the tuning.", default=400, flags="--budget-answers")
    concurrency: int = option("Questions answered at once.", default=8)
    run_dir: str | Path = option("Folder for the run.", "Output", "runs/tune")

    def __post_init__(self) -> None:
        super().__post_init__()
        for name in ("budget", "concurrency", "max_prompt_tokens", "price_ratio"):
            if (value := getattr(self, name)) is not None and value < 1:
                msg = f"{name} must be at least 1, not {value}"
                raise InputError(msg)
        if self.objective not in {"e3", "money", "front"}:
            msg = f"objective must be e3, money or front, not {self.objective!r}"
            raise InputError(msg)


def resolve_optimizer(options: TuneOptions) -> Optimizer:
    """Return the optimizer of a name, ``file.py:name``, a function, or an object of DSPy's.

    The metric of a DSPy optimizer gets predictions with ``answer``, ``score`` and ``tokens``.
    """
    tuned, optimizer = options.tuned, options.optimizer
    if optimizer is None:
        optimizer = "candidates" if options.candidates else _USUAL.get(tuned, "gepa")
    if isinstance(optimizer, str):
        found = OPTIMIZERS.get(optimizer) or named_object(optimizer)
        if found is None:
            msg = f"no optimizer named {optimizer!r}; available: {', '.join(OPTIMIZERS)}"
            raise InputError(msg + did_you_mean(optimizer, OPTIMIZERS))
        optimizer = found
    if not isinstance(optimizer, Optimizer):  # a function or an object of DSPy's, which learns
        made, name = optimizer, getattr(optimizer, "__name__", type(optimizer).__name__)
        if hasattr(made, "compile"):
            compiled = "optim.tuning.optimizers:compile_with"
            made, name = lambda task, own=made: resolve_name(compiled)(task, own), name.lower()
        optimizer = Optimizer(name, made, learns=True)
    if options.candidates and optimizer.name in _WRITERS:
        msg = f"{optimizer.name} writes its own instructions: leave out --candidates or --optimizer"
        raise InputError(msg)
    if tuned not in optimizer.tunes:
        msg = f"{optimizer.name} tunes {', '.join(optimizer.tunes)}, not {tuned}: "
        msg += "change --optimizer or --tune"
        raise InputError(msg)
    return optimizer
