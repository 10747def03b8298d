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

    from optim.evaluation.models import ModelSpec
    from optim.tangent import Judge
    from pb_graph.models.caps import CapPolicy

_USUAL = {"solve": "shortest"}  # optimizers, else gepa

TUNED = ("decompose", "estimate", "solve", "all", "settings")


@dataclass(frozen=True, slots=True)
class TuneBudget:
    """The most that a run folder may cost over all starts; None means no limit.

    Attributes:
        answers: Answers, each one run of the graph.
        tokens: Completion tokens, those of the reflection model included.

    Raises:
        InputError: A limit that is not above 0.
    """

    answers: int | None = None
    tokens: int | None = None

    def __post_init__(self) -> None:
        for name in ("answers", "tokens"):
            value = getattr(self, name)
            if value is not None and value <= 0:
                msg = f"a budget of {name} must be above 0, not {value}"
                raise InputError(msg)


@dataclass(frozen=True, slots=True)
class Optimizer:
    """A function that proposes candidates, and its properties.

    Called with options, such as ``copro(breadth=4)``, it returns an optimizer with these options.

    Attributes:
        name: Its name on the command line.
        summary: A few words for help texts.
        propose: Function ``(task: OptimizerTask, **options) -> Sequence[Candidate]``, or the
            place of one as ``"module:function"``. The loop measures each candidate exactly on dev.
        reflects: Needs a reflection model.
        learns: Needs training questions.
        chooses: Takes a list of instructions, its option ``texts``.
        once: Proposes the same in a second round.
        tunes: ``prompt``, ``examples`` (of the solver) or ``settings``.
        needs: Modules that not every installation has.
    """

    name: str
    summary: str
    propose: Callable[..., Sequence[Any]] | str
    reflects: bool = False
    learns: bool = False
    chooses: bool = False
    once: bool = False
    tunes: str = "prompt"
    needs: tuple[str, ...] = ()
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


_STOCK, _HERE = "optim.tuning.optimizers:with_dspy", "optim.tuning.optimizers"
_LIST: dict[str, Any] = {"chooses": True, "once": True}
_PACKAGE = (
    Optimizer(
        "gepa",
        "DSPy's GEPA: instructions evolve by reflection",
        "optim.tuning.gepa:gepa",
        reflects=True,
        learns=True,
    ),
    Optimizer("copro", "DSPy's COPRO: instructions are rewritten by score", _STOCK, reflects=True),
    Optimizer(
        "miprov2",
        "DSPy's MIPROv2: instructions, then Bayesian search",
        _STOCK,
        reflects=True,
        learns=True,
        needs=("optuna",),
    ),
    Optimizer("simba", "DSPy's SIMBA: rules are appended", _STOCK, reflects=True, learns=True),
    Optimizer("random", "draws from a list of instructions", f"{_HERE}:random_search", **_LIST),
    Optimizer("candidates", "measures a list of instructions", f"{_HERE}:candidates", **_LIST),
    Optimizer(
        "shortest",
        "the model's own shortest right answers become the solver's examples",
        "optim.tuning.examples:shortest",
        learns=True,
        once=True,
        tunes="examples",
    ),
)
SETTINGS_SEARCH = Optimizer(
    "settings",
    "searches the settings by successive halving",
    "optim.tuning.settings:search_settings",
    once=True,
    tunes="settings",
)
OPTIMIZERS = {one.name: one(name=one.name) if one.propose == _STOCK else one for one in _PACKAGE}
"""Every optimizer of prompts by name; `optimizer` adds one."""


def optimizer(
    name: str,
    summary: str,
    **properties: Any,  # noqa: ANN401 -- the other fields of `Optimizer`
) -> Callable[[Callable[..., Sequence[Any]]], Optimizer]:
    """Register a function ``(task: OptimizerTask, *, option=...) -> Sequence[Candidate]``."""

    def register(propose: Callable[..., Sequence[Any]]) -> Optimizer:
        made = OPTIMIZERS[name] = Optimizer(name, summary, propose, **properties)
        return made

    return register


@dataclass(frozen=True, kw_only=True)
class TuneOptions:
    """The choices of `optim.tune`; each field's help says what it does."""

    tuned: str = field(
        default="decompose",
        metadata={
            "help": "A prompt, all of them, or settings:",
            "flags": "--tune",
            "names": TUNED,
            "reads": str,
        },
    )
    optimizer: Any = field(
        default=None,
        metadata={
            "help": "Of prompts; when not given gepa, or shortest for solve:",
            "names": OPTIMIZERS,
        },
    )
    reflection_model: BaseChatModel | str | None = field(
        default=None, metadata={"help": "Writes instructions. Default: the planner."}
    )
    candidates: Sequence[str] | str | Path | None = field(
        default=None,
        metadata={"help": "Instructions, with lines of --- between.", "metavar": "FILE"},
    )
    objectives: int = field(
        default=1,
        metadata={"help": "2: gepa keeps the front of accuracy and tokens, instead of E³ alone."},
    )
    rounds: int = field(
        default=3, metadata={"help": "How often the optimizer starts anew, at most."}
    )
    threshold: float = 0.01  # relative gain of E³ below which a round is the last
    seed: int = field(default=0, metadata={"help": "Of everything drawn by chance."})
    estimate_level: bool = field(
        default=False,
        metadata={"help": "Estimate each question's level instead of taking the label."},
    )
    budget: int | TuneBudget = 400
    run_dir: str | Path = field(
        default="runs/tune", metadata={"help": "Folder of the run.", "reads": str}
    )
    concurrency: int = field(default=8, metadata={"help": "Questions answered at once."})
    retry_errors: bool = field(
        default=False, metadata={"help": "Score again what could not be scored."}
    )

    @property
    def limits(self) -> TuneBudget:
        """The budget; a number counts answers."""
        return self.budget if isinstance(self.budget, TuneBudget) else TuneBudget(self.budget)


@dataclass(frozen=True, kw_only=True)
class TuneCommand(TuneOptions):
    """The choices of `pb-optim tune`: those of `TuneOptions`, the questions and the models.

    ``settings`` overrides those of ``program``, a saved program to start from.
    """

    dataset: str
    data: str | Path | None = None
    split: str | None = None
    fields: Mapping[str, str] = field(default_factory=dict)
    skip_bad_rows: bool = False
    levels: Sequence[int] | None = None
    limit: int | None = None
    scorer: Judge | None = None
    model: ModelSpec = None
    planner: ModelSpec = None
    program: str | Path | None = field(
        default=None, metadata={"help": "A saved program to begin from."}
    )
    settings: Mapping[str, Any] = field(default_factory=dict)
    cap_policy: CapPolicy | None = None


def resolve_optimizer(options: TuneOptions) -> Optimizer:
    """Return the optimizer of the options, and refuse what would be ignored.

    An optimizer object of DSPy's is taken as well: its metric sees predictions with ``answer``,
    ``score`` and ``tokens``.

    Raises:
        InputError: An unknown name, or choices that do not go together.
    """
    tuned, given = options.tuned, options.optimizer
    if tuned not in TUNED:
        msg = f"what is tuned is one of {', '.join(TUNED)}, not {tuned!r}"
        raise InputError(msg)
    if options.rounds < 1:
        msg = f"rounds must be at least 1, not {options.rounds}"
        raise InputError(msg)
    if isinstance(given, str) and given not in OPTIMIZERS:
        msg = f"no optimizer named {given!r}; there are: {', '.join(OPTIMIZERS)}"
        raise InputError(msg + did_you_mean(given, OPTIMIZERS))
    if tuned == "settings":
        ignored = {
            "--optimizer": isinstance(given, str),
            "--candidates": options.candidates is not None,
            "--reflection-model": options.reflection_model is not None,
            "--objectives": options.objectives != 1,
        }
        if named := [name for name, is_given in ignored.items() if is_given]:
            msg = f"the search of settings changes no prompt: leave out {' and '.join(named)}"
            raise InputError(msg)
        return given if isinstance(given, Optimizer) else SETTINGS_SEARCH
    chosen = (
        OPTIMIZERS[given or _USUAL.get(tuned, "gepa")] if isinstance(given, str | None) else given
    )
    if not isinstance(chosen, Optimizer):
        name = type(chosen).__name__.lower()
        chosen = Optimizer(name, "an optimizer object", f"{_HERE}:compile_with", learns=True)
        chosen = chosen(made=given)
    wrong = {
        f"{chosen.name} finds examples for the solver: tune solve (--tune solve)": (
            chosen.tunes == "examples" and tuned != "solve"
        ),
        f"{chosen.name} chooses from a list for one prompt: tune that one, not all": (
            tuned == "all" and chosen.chooses and isinstance(given, str)
        ),
        f"{chosen.name} asks no reflection model: leave out --reflection-model": (
            options.reflection_model is not None and not chosen.reflects
        ),
        "objectives are 1 (E³), or 2 (accuracy and tokens) for gepa": (
            options.objectives != 1 and (options.objectives != 2 or chosen.name != "gepa")  # noqa: PLR2004
        ),
    }
    for msg, applies in wrong.items():
        if applies:
            raise InputError(msg)
    return chosen(objectives=2) if options.objectives > 1 else chosen
