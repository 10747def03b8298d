"""The choices of a tuning, as `optim.tune` and `pb-optim tune` take them; loads no DSPy."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pb_graph.errors import InputError, did_you_mean

if TYPE_CHECKING:
    from langchain_core.language_models import BaseChatModel


TUNED = ("decompose", "estimate", "solve", "all", "settings")


@dataclass(frozen=True, slots=True)
class Optimizer:
    """A function that proposes candidates, and its properties.

    Called with options, such as ``copro(breadth=4)``, it returns an optimizer with these options.

    Attributes:
        name: Its name on the command line.
        propose: Function ``(task: OptimizerTask, **options) -> Sequence[Candidate]``, or the
            place of one as ``"module:function"``. The loop measures each candidate exactly on dev.
        reflects: Needs a reflection model.
        learns: Needs training questions.
        once: Proposes the same in a second round.
        tunes: The values of ``--tune`` that it takes.
    """

    name: str
    propose: Callable[..., Sequence[Any]] | str
    reflects: bool = False
    learns: bool = False
    once: bool = False
    tunes: Sequence[str] = TUNED[:-1]
    options: Mapping[str, Any] = field(default_factory=dict)

    def __call__(self, **options: Any) -> Optimizer:  # noqa: ANN401 -- each has its own
        """Return the optimizer with options."""
        return replace(self, options={**self.options, **options})

    def candidates(self, task: Any) -> Sequence[Any]:  # noqa: ANN401 -- typing it would load DSPy
        """Return the candidates that it proposes for a task."""
        propose = self.propose
        if isinstance(propose, str):
            module, _, name = propose.partition(":")
            propose = getattr(importlib.import_module(module), name)
        return propose(task, **self.options)


OPTIMIZERS: dict[str, Optimizer] = {}
"""Every optimizer of prompts by name; `optimizer` adds one."""


def optimizer(
    name: str,
    **properties: Any,  # noqa: ANN401 -- the other fields of `Optimizer`
) -> Callable[[Callable[..., Sequence[Any]] | str], Optimizer]:
    """Register a function ``(task: OptimizerTask, *, option=...) -> Sequence[Candidate]``."""

    def register(propose: Callable[..., Sequence[Any]] | str) -> Optimizer:
        made = OPTIMIZERS[name] = Optimizer(name, propose, **properties)
        return made

    return register


_HERE = "optim.tuning.optimizers"
optimizer("gepa", reflects=True, learns=True)("optim.tuning.gepa:gepa")
optimizer("copro", reflects=True)(f"{_HERE}:copro")
optimizer("miprov2", reflects=True, learns=True)(f"{_HERE}:miprov2")
optimizer("candidates", once=True, tunes=TUNED[:3])(lambda task, texts: task.candidates(texts))
optimizer("shortest", learns=True, once=True, tunes=("solve",))(f"{_HERE}:shortest")

SETTINGS_SEARCH = Optimizer(
    "settings", "optim.tuning.settings:search_settings", once=True, tunes=("settings",)
)


def option(text: str, default: Any = None, **metadata: object) -> Any:  # noqa: ANN401 -- a field
    """Return a field with the help of its option; `optim.cli.options` reads the metadata."""
    return field(default=default, metadata={"help": text, **metadata})


@dataclass(frozen=True, kw_only=True)
class TuneOptions:
    """The choices of `optim.tune`; each field's help says what it does.

    Raises:
        InputError: A number below 1.
    """

    tuned: str = option(
        "A prompt, all of them, or settings:", "decompose", names=TUNED, flags="--tune", reads=str
    )
    optimizer: Any = option("Default: gepa, or shortest for solve. One of:", names=OPTIMIZERS)
    reflection_model: BaseChatModel | str | None = option(
        "Writes instructions. Default: the planner."
    )
    candidates: Sequence[str] | str | Path | None = option(
        "Instructions, with lines of --- between.", metavar="FILE"
    )
    objectives: int = option("2: front of accuracy and tokens (gepa).", 1)
    rounds: int = option("Rounds, each from the best so far.", 3)
    seed: int = option("Of all draws.", 0)
    estimate_level: bool = option("Ignore labels of levels.", False)
    budget: int | None = option("Limit of the run folder.", 400, flags="--budget-answers")
    budget_tokens: int | None = option("The same in completion tokens.")
    concurrency: int = option("Questions answered at once.", 8)
    run_dir: str | Path = option("Folder of the run.", "runs/tune", panel="Output", reads=str)

    def __post_init__(self) -> None:
        for name in ("rounds", "budget", "budget_tokens", "concurrency"):
            value = getattr(self, name)
            if value is not None and value < 1:
                msg = f"{name} must be at least 1, not {value}"
                raise InputError(msg)


def resolve_optimizer(options: TuneOptions) -> Optimizer:
    """Return the optimizer of the options, and refuse choices that it would ignore.

    An optimizer object of DSPy's is taken as well: its metric sees predictions with ``answer``,
    ``score`` and ``tokens``.

    Raises:
        InputError: An unknown name, or choices that do not go together.
    """
    tuned, chosen = options.tuned, options.optimizer
    if chosen is None:
        usual = OPTIMIZERS["shortest" if tuned == "solve" else "gepa"]
        chosen = SETTINGS_SEARCH if tuned == "settings" else usual
    elif isinstance(chosen, str):
        if chosen not in OPTIMIZERS:
            msg = f"no optimizer named {chosen!r}; there are: {', '.join(OPTIMIZERS)}"
            raise InputError(msg + did_you_mean(chosen, OPTIMIZERS))
        chosen = OPTIMIZERS[chosen]
    elif not isinstance(chosen, Optimizer):
        name = type(chosen).__name__.lower()
        chosen = Optimizer(name, f"{_HERE}:compile_with", learns=True, options={"made": chosen})
    if tuned not in chosen.tunes:
        msg = f"{chosen.name} tunes {', '.join(chosen.tunes)}, not {tuned}: change one of the two"
        raise InputError(msg)
    ignored = {
        "--candidates": options.candidates is not None and chosen.name != "candidates",
        "--reflection-model": options.reflection_model is not None and not chosen.reflects,
        "--objectives": options.objectives != 1 and chosen.name != "gepa",
    }
    if named := [name for name, is_ignored in ignored.items() if is_ignored]:
        msg = f"{chosen.name} makes no use of {' and '.join(named)}: leave it out"
        raise InputError(msg)
    return chosen(objectives=2) if options.objectives > 1 else chosen
