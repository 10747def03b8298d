"""A policy by what a probe has found: ``caps.json``, which ``pb-graph probe`` writes."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from pb_graph.errors import ModelSetupError
from pb_graph.models.caps.policy import BY_NAME

if TYPE_CHECKING:
    from langchain_core.language_models import BaseChatModel

    from pb_graph.models.caps.policy import CapPolicy
    from pb_graph.models.options import CallOptions

FORMAT = 1
Verdict = Literal["kept", "broken", "not there", "unclear"]
"""What became of a promise: ``not there`` was never made, ``unclear`` could not be seen."""


@dataclass(frozen=True, slots=True)
class ProbedPolicy:
    """A policy that asks a server for no more than it was found to do.

    Attributes:
        base: The policy that was probed.
        verdicts: What became of each promise, by its name.
    """

    base: CapPolicy
    verdicts: Mapping[str, Verdict]

    def __call__(self, model: BaseChatModel, limits: CallOptions) -> dict[str, Any]:
        """The arguments of a call.

        No schema goes to a server that does not follow it. Where thinking cannot be bounded, but
        switched off, it is: else it would eat the answer.
        """
        found = self.verdicts
        if found.get("schema") in ("broken", "not there"):
            limits = replace(limits, schema=None)
        boundless = found.get("thinking_budget") == "broken"
        if boundless and found.get("thinking_off") == "kept" and limits.thinking == "bounded":
            limits = replace(limits, thinking="off")
        return self.base(model, limits)


def load_caps(path: str | Path) -> ProbedPolicy:
    """Read what a probe has found.

    Raises:
        ModelSetupError: It cannot be read, or says that the server ignores its output cap, so that
            no budget holds.
    """
    try:
        found = json.loads(Path(path).read_text(encoding="utf-8"))
        base, verdicts = BY_NAME[found["policy"]], dict(found["verdicts"])
    except OSError as error:
        msg = f"Cannot read {path}: {error.strerror}. `pb-graph probe MODEL` writes such a file."
        raise ModelSetupError(msg) from error
    except (ValueError, KeyError, TypeError) as error:
        msg = f"{path} is not what `pb-graph probe` writes: probe the model again."
        raise ModelSetupError(msg) from error
    if verdicts.get("output_cap") == "broken":
        msg = f"By {path}, the server of {found.get('model')} ignores its output cap: no budget "
        raise ModelSetupError(msg + "holds there. Mend the server, and probe it again.")
    return ProbedPolicy(base, verdicts)
