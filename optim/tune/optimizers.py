"""Optimizers by name, and which choices go together: what would be ignored is refused."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING

from optim.tune.candidates import Candidates, own_candidates, read_candidates
from optim.tune.random_search import RandomSearch
from pb_graph.errors import InputError

if TYPE_CHECKING:
    from optim.tune.proposer import Proposer

__all__ = ["OPTIMIZERS", "TUNED", "Texts", "check", "chosen", "learns", "pool_of"]

Texts = Sequence[str] | str | Path
"""Instructions, or the path of a file of them."""

TUNED = ("decompose", "estimate", "settings")
_WRITERS = {
    "gepa": ("optim.tune.gepa", "Gepa"),
    "copro": ("optim.tune.copro", "Copro"),
    "miprov2": ("optim.tune.miprov2", "Miprov2"),
    "simba": ("optim.tune.simba", "Simba"),
}
_MAKERS = {**_WRITERS, "settings": ("optim.tune.settings_search", "SettingsSearch")}
_CHOOSERS: dict[str, Callable[[Sequence[str]], Proposer]] = {
    "random": RandomSearch,
    "candidates": Candidates,
}
_LEARNERS = ("gepa", "miprov2", "simba")
OPTIMIZERS = (*_WRITERS, *_CHOOSERS)
_DEFAULT = "gepa"


def check(
    optimizer: str | Proposer | None, tuned: str, candidates: Texts | None, *, reflection: bool
) -> None:
    """Refuse names that nobody has, and whatever is given and would be ignored.

    Args:
        optimizer: One of `OPTIMIZERS`, or one made already; None for the usual one.
        tuned: One of `TUNED`.
        candidates: Instructions, if any are given.
        reflection: Whether a reflection model is named.

    Raises:
        InputError: What is wrong, and what to leave out.
    """
    if tuned not in TUNED:
        msg = f"what is tuned is one of {', '.join(TUNED)}, not {tuned!r}"
        raise InputError(msg)
    if isinstance(optimizer, str) and optimizer not in OPTIMIZERS:
        msg = f"no optimizer named {optimizer!r}; there are: {', '.join(OPTIMIZERS)}"
        raise InputError(msg)
    if tuned == "settings":
        _check_settings(optimizer, candidates, reflection=reflection)
    elif reflection and not _reflects(optimizer or _DEFAULT):
        msg = (
            "the reflection model (--reflection-model) would not be asked, as this optimizer has "
            f"no instructions written: leave it out, or choose {', '.join(_WRITERS)}"
        )
        raise InputError(msg)


def chosen(
    optimizer: str | Proposer | None, tuned: str, predictor: str, candidates: Texts | None
) -> Proposer:
    """The optimizer, of choices that were checked; its libraries load only now.

    Args:
        optimizer: As for `check`; None for ``gepa``, or for the settings search.
        tuned: Likewise.
        predictor: Whose instructions are chosen from where no candidates are given.
        candidates: Instructions to choose from, for who chooses.

    Raises:
        InputError: As `own_candidates` and `read_candidates`.
    """
    name = optimizer or ("settings" if tuned == "settings" else _DEFAULT)
    if not isinstance(name, str):
        return name
    if name in _CHOOSERS:
        texts = own_candidates(predictor) if candidates is None else _read(candidates)
        return _CHOOSERS[name](texts)
    module, maker = _MAKERS[name]
    found: Proposer = getattr(import_module(module), maker)()
    return found


def learns(optimizer: str | None, tuned: str) -> bool:
    """Whether the one of that name wants questions of its own to learn from."""
    return tuned != "settings" and (optimizer or _DEFAULT) in _LEARNERS


def pool_of(optimizer: str | Proposer | None, candidates: Texts | None) -> list[str]:
    """What is measured before the optimizer begins; nothing for those that choose from it.

    Raises:
        InputError: As `read_candidates`.
    """
    chooses = isinstance(optimizer, str) and optimizer in _CHOOSERS
    return [] if candidates is None or chooses else _read(candidates)


def _check_settings(
    optimizer: str | Proposer | None, candidates: Texts | None, *, reflection: bool
) -> None:
    """The settings search leaves prompts be, and asks nobody."""
    ignored = {
        "the optimizer (--optimizer)": isinstance(optimizer, str),
        "the candidates (--candidates)": candidates is not None,
        "the reflection model (--reflection-model)": reflection,
    }
    named = [name for name, given in ignored.items() if given]
    if named:
        msg = (
            "the settings are searched by Optuna, which changes no prompt: leave out "
            f"{' and '.join(named)}, or tune decompose or estimate (--tune)"
        )
        raise InputError(msg)


def _reflects(optimizer: str | Proposer) -> bool:
    return optimizer in _WRITERS if isinstance(optimizer, str) else optimizer.reflects


def _read(candidates: Texts) -> list[str]:
    if isinstance(candidates, str | Path):
        return read_candidates(Path(candidates))
    return list(candidates)
