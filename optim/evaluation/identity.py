"""What identifies models, planners and questions, in digests; and how a run came about."""

from __future__ import annotations

import hashlib
import inspect
import shlex
import sys
from collections.abc import Mapping
from dataclasses import asdict
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pb_graph
from optim.datasets import data_set
from optim.datasets.dataset import digest
from optim.scorers import as_scorer
from optim.scorers.base import FunctionScorer
from optim.scorers.inspect_scorers import is_inspect_scorer

if TYPE_CHECKING:
    from langchain_core.language_models import BaseChatModel

    from optim.datasets import Question
    from pb_graph.planner.planner import Planner

_LOCAL = "local:"
_ENDPOINTS = ("openai_api_base", "base_url", "azure_endpoint", "endpoint")


def model_identity(
    model: BaseChatModel, name: str | None, sampling: Mapping[str, float] | None = None
) -> str:
    """Identify a chat model: its name, or class and parameters, and where it is served.

    Args:
        model: The chat model object.
        name: The string it was made from, if it was. A local one is known by its name in the
            catalog, whose bytes are pinned, or by the content of its file; its address says
            nothing.
        sampling: Temperature and the like, where the user has chosen them.
    """
    chosen = "".join(f" {option}={value}" for option, value in sorted((sampling or {}).items()))
    if name is not None and name.startswith(_LOCAL):
        file = Path(name.removeprefix(_LOCAL)).expanduser()
        if not file.is_file():
            return name + chosen
        with file.open("rb") as weights:
            return f"{name} {hashlib.file_digest(weights, 'sha256').hexdigest()}{chosen}"
    told = model._identifying_params  # noqa: SLF001 -- LangChain's word for it
    parameters = _plain(told or _provider_fields(model))
    kind = f"{type(model).__module__}.{type(model).__qualname__}"
    endpoint = [str(getattr(model, field, None) or "") for field in _ENDPOINTS]
    return digest([kind, name, parameters, endpoint]) + chosen


def planner_identity(model: str, program: Planner | None) -> str:
    """Identify a planner: its model, and its tuned program where it has one."""
    return model if program is None else digest([model, program.dump_state()])


def question_identity(question: Question) -> str:
    """Identify what is asked. The targets are no part of it: they bear on scores, not answers."""
    fields: dict[str, Any] = asdict(question)
    del fields["metadata"], fields["targets"]
    return digest(fields)


def scorer_name(scorer: object) -> str:
    """What a scorer is called: its name, else that of its function or class."""
    if isinstance(scorer, str):
        return scorer
    scorer = (
        as_scorer(scorer) if is_inspect_scorer(scorer) else scorer
    )  # its arguments are part of it
    name = getattr(scorer, "name", None) or getattr(scorer, "__name__", None)
    return str(name or type(scorer).__qualname__)


def scorer_identity(scorer: object) -> list[str]:
    """What tells a scorer of the user's own from another of its name: how it is written."""
    if isinstance(scorer, str) or is_inspect_scorer(scorer):
        return []  # known by name, and by arguments
    scorer = scorer.function if isinstance(scorer, FunctionScorer) else scorer
    written = scorer if inspect.isroutine(scorer) or isinstance(scorer, type) else type(scorer)
    try:
        return [inspect.getsource(written)]
    except (OSError, TypeError):  # typed at a prompt, or of no Python
        return []


def made_by(
    dataset: str, *, data: str | Path | None, split: str | None, seed: int, scorer: str
) -> dict[str, Any]:
    """Say how a run came about, for those who read it. Of paths only the names are told."""
    hub = None if data else data_set(dataset).hub
    return {
        "date": datetime.now(UTC).isoformat(timespec="seconds"),
        "version": pb_graph.__version__,
        "command": shlex.join(_shown(argument) for argument in sys.argv),
        "data": Path(data).name if data else hub.path if hub else None,
        "split": split or (hub.split if hub else None),
        "seed": seed,
        "scorer": scorer,
    }


def _shown(argument: str) -> str:
    """An argument of the command, without the folders of a path outside the working folder."""
    option, equals, value = argument.rpartition("=")
    outside = value.startswith(("/", "~", "..", "local:/", "local:~"))
    if not outside and not Path(value).is_absolute():
        return argument
    local = "local:" if value.startswith("local:") else ""
    return f"{option}{equals}{local}{Path(value).name}"


def _provider_fields(model: BaseChatModel) -> dict[str, object]:
    """What a package of LangChain's declares: it lets a model tell nothing, as ChatOllama does.

    What a class of the user's own adds is not among it: that may change from call to call.
    """
    of_packages: set[str] = set()
    inherited: set[str] = set()
    for base in type(model).__mro__:
        core = base.__module__.startswith("langchain_core.")
        if core or base.__module__.startswith("langchain_"):
            (inherited if core else of_packages).update(getattr(base, "model_fields", ()))
    return {name: getattr(model, name) for name in sorted(of_packages - inherited)}


def _plain(value: object) -> object:
    """JSON values as they are; of other objects only the type, whose text may hold an address."""
    if isinstance(value, Mapping):
        return {str(key): _plain(part) for key, part in value.items()}
    if isinstance(value, list | tuple | set | frozenset):
        return [_plain(part) for part in value]
    known = isinstance(value, str | int | float | bool | None)
    return value if known else type(value).__qualname__
