"""Probes an endpoint, and says what was found: as a table, and as ``caps.json``."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pb_graph.errors import ModelSetupError, did_you_mean
from pb_graph.models.caps import BY_NAME, CapPolicy, policy_for
from pb_graph.models.caps.probed import FORMAT
from pb_graph.models.naming import name_of
from pb_graph.models.resolve import model_name, resolve
from pb_graph.probe.checks import CHECKS, Check, Finding
from pb_graph.probe.session import Session, UsedUpError
from pb_graph.settings import Settings

if TYPE_CHECKING:
    from langchain_core.language_models import BaseChatModel
    from rich.table import Table

_COLOURS = {"kept": "green", "broken": "bold red", "not there": "dim", "unclear": "yellow"}


@dataclass(frozen=True, slots=True)
class Probe:
    """What was found.

    Attributes:
        model: Name of the model.
        policy: Name of the cap policy that fits it best.
        findings: Each check with what came of it, in their order.
        calls: How many were made.
        tokens: How many they took, prompts included.
    """

    model: str
    policy: str
    findings: Sequence[tuple[Check, Finding]]
    calls: int
    tokens: int

    @property
    def broken(self) -> list[str]:
        """Names of the promises that are not kept."""
        return [check.name for check, found in self.findings if found.verdict == "broken"]

    def caps(self) -> dict[str, Any]:
        """What ``build_graph(cap_policy="caps.json")`` reads, plain JSON."""
        return {
            "format": FORMAT,
            "model": self.model,
            "policy": self.policy,
            "verdicts": {check.name: found.verdict for check, found in self.findings},
            "seen": {check.name: found.seen for check, found in self.findings},
        }

    def save(self, path: str | Path) -> None:
        """Write ``caps.json``."""
        text = json.dumps(self.caps(), indent=2) + "\n"
        Path(path).write_text(text, encoding="utf-8")

    def table(self) -> Table:
        """A line for each promise."""
        from rich.table import Table  # noqa: PLC0415 -- for terminals only
        from rich.text import Text  # noqa: PLC0415

        told = f"{self.calls} calls, {self.tokens} tokens, policy {self.policy}"
        table = Table("promise", "verdict", "seen", "what it means", title=self.model, caption=told)
        for check, found in self.findings:
            verdict = Text(found.verdict, _COLOURS[found.verdict])
            means = {"broken": check.broken, "not there": check.missing}.get(found.verdict, "")
            table.add_row(check.promise, verdict, Text(found.seen), means)
        return table


def probe(model: str | BaseChatModel | None = None, policy: str | None = None) -> Probe:
    """Probe a model's endpoint with at most 20 calls and 4,000 tokens.

    Args:
        model: As for `build_graph`.
        policy: Name of the cap policy to probe with; None for the one the graph would choose.

    Raises:
        ModelSetupError: There is no such model or policy, or not one call got a reply.
    """
    chat = resolve(model_name(model), Settings()) if isinstance(model, str | None) else model
    session = Session(chat, _policy(chat, policy))
    findings = [(check, _found(check, session)) for check in CHECKS]
    if not session.replies:
        msg = f"Not one call to {name_of(chat)} got a reply. {session.failure}"
        raise ModelSetupError(msg)
    best = next(name for name, made in BY_NAME.items() if made is session.policy)
    return Probe(name_of(chat), best, findings, session.calls, session.tokens)


def _policy(model: BaseChatModel, name: str | None) -> CapPolicy:
    if name is None:
        return policy_for(model)
    if name not in BY_NAME:
        msg = f"there is no cap policy {name!r}; there are: {', '.join(sorted(BY_NAME))}"
        raise ModelSetupError(msg + did_you_mean(name, BY_NAME))
    return BY_NAME[name]


def _found(check: Check, session: Session) -> Finding:
    try:
        return check.look(session)
    except UsedUpError:
        return Finding("unclear", "the limit of the probe was used up")
