"""Digests that identify models, planners, questions and scorers, and the origin of a run."""

from __future__ import annotations

import hashlib
import inspect
import json
import shlex
import sys
from collections.abc import Mapping
from dataclasses import asdict, dataclass
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


@dataclass(frozen=True, slots=True)
class ModelIdentity:
    """A digest of a model's name, class and parameters, and one of its server's address.

    The address may differ between machines that share one evaluation.
    """

    parameters: str
    endpoint: str = ""

    def __str__(self) -> str:
        return digest([self.parameters, self.endpoint]) if self.endpoint else self.parameters


def model_identity(
    model: BaseChatModel, name: str | None, sampling: Mapping[str, float] | None = None
) -> ModelIdentity:
    """Identify a chat model.

    Args:
        model: The chat model object.
        name: The string it was made from, or None. A local model is known by its name in the
            catalog, whose bytes are pinned, or by the content of its file.
        sampling: Temperature and top-p, where the user has set them.
    """
    chosen = "".join(f" {option}={value}" for option, value in sorted((sampling or {}).items()))
    if name is not None and name.startswith(_LOCAL):
        file = Path(name.removeprefix(_LOCAL)).expanduser()
        if not file.is_file():
            return ModelIdentity(name + chosen)
        with file.open("rb") as weights:
            content = hashlib.file_digest(weights, "sha256").hexdigest()
        return ModelIdentity(f"{name} {content}{chosen}")
    identifying = model._identifying_params  # noqa: SLF001 -- LangChain's word for it
    fields = dict(identifying or _provider_fields(model))
    parameters = _plain({name: fields[name] for name in fields if name not in _ENDPOINTS})
    kind = f"{type(model).__module__}.{type(model).__qualname__}"
    endpoints = [str(getattr(model, field, None) or "") for field in _ENDPOINTS]
    endpoint = digest(endpoints) if any(endpoints) else ""
    return ModelIdentity(digest([kind, name, parameters]) + chosen, endpoint)


def planner_identity(model: str, program: Planner | None) -> str:
    """Identify a planner by its model, and by its tuned program if it has one."""
    return model if program is None else digest([model, program.dump_state()])


def question_identity(question: Question) -> str:
    """Identify a question. Its targets are no part of it: they bear on scores, not on answers."""
    fields: dict[str, Any] = asdict(question)
    del fields["metadata"], fields["targets"]
    return digest(fields)


def scorer_name(scorer: object) -> str:
    """Return the name of a scorer, else that of its function or class."""
    if isinstance(scorer, str):
        return scorer
    if is_inspect_scorer(scorer):  # its arguments are part of its name
        scorer = as_scorer(scorer)
    name = getattr(scorer, "name", None) or getattr(scorer, "__name__", None)
    return str(name or type(scorer).__qualname__)


def scorer_code(scorer: object) -> str:
    """Return a digest of the module in which a scorer of the user's own is written, or "".

    The whole module counts, since a mended helper changes scores as well. Scorers that are known by
    name have no such code.
    """
    if scorer is None or isinstance(scorer, str) or is_inspect_scorer(scorer):
        return ""
    scorer = scorer.function if isinstance(scorer, FunctionScorer) else scorer
    scorer = inspect.unwrap(scorer) if callable(scorer) else scorer
    written: Any = scorer if inspect.isroutine(scorer) or isinstance(scorer, type) else type(scorer)
    try:
        lines, _ = inspect.findsource(written)
    except (OSError, TypeError):  # typed at a prompt, or not in Python
        return ""
    code = getattr(written, "__code__", None)
    return digest([written.__qualname__, code and code.co_firstlineno, "".join(lines)])


def provenance(
    dataset: str, *, data: str | Path | None, split: str | None, seed: int
) -> dict[str, Any]:
    """Return the origin of a run for its readers. Of paths only the names are told."""
    hub = None if data else data_set(dataset).hub
    return {
        "date": datetime.now(UTC).isoformat(timespec="seconds"),
        "version": pb_graph.__version__,
        "command": shlex.join(_without_folders(argument) for argument in sys.argv),
        "data": Path(data).name if data else hub.path if hub else None,
        "split": split or (hub.split if hub else None),
        "seed": seed,
    }


def _without_folders(argument: str) -> str:
    """Return an argument of the command without the folders of paths outside the working folder."""
    option, equals, value = argument.rpartition("=")
    local = "local:" if value.startswith("local:") else ""
    path = value.removeprefix(local)
    outside = path.startswith(("~", "..")) or Path(path).is_absolute()
    return f"{option}{equals}{local}{Path(path).name}" if outside else argument


def _provider_fields(model: BaseChatModel) -> dict[str, object]:
    """Return the fields that a LangChain package declares, for models such as ChatOllama.

    Fields of a class of the user's own are left out: they may change from call to call.
    """
    of_packages: set[str] = set()
    inherited: set[str] = set()
    for base in type(model).__mro__:
        core = base.__module__.startswith("langchain_core.")
        if core or base.__module__.startswith("langchain_"):
            (inherited if core else of_packages).update(getattr(base, "model_fields", ()))
    return {name: getattr(model, name) for name in sorted(of_packages - inherited)}


def _plain(fields: Mapping[str, object]) -> object:
    """Return JSON values as they are, and other objects as their type's name.

    The text of other objects may hold an address in memory.
    """
    return json.loads(json.dumps(fields, default=lambda value: type(value).__qualname__))
