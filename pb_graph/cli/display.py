"""What ``pb-graph`` shows of a run: the plan as it forms, what each step spent, the answer."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, Self

from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.panel import Panel
from rich.spinner import Spinner
from rich.table import Table
from rich.text import Text

if TYPE_CHECKING:
    from pb_graph.types import Report, SubQuestion

_MIB = 2**20
_CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\ud800-\udfff]")  # all but tab and newline
# What the graph does after an event.
_NEXT = {
    "intake": "Planning",
    "plan": "Estimating difficulty",
    "budgets": "Solving",
    "step_started": "Solving",
    "answer": "Done",
}


class Display:
    """Follows the progress events of one run. Model text is shown as text, never as markup."""

    def __init__(self, console: Console | None = None, *, quiet: bool = False) -> None:
        self._console = console or Console(quiet=quiet)
        self._live = Live(console=self._console, transient=True)
        self._steps: list[SubQuestion] = []
        self._shares: dict[int, int] = {}
        self._spent: dict[int, str] = {}
        self._doing = "Loading the model"
        self._tokens = 0
        self._calls = 0

    def __enter__(self) -> Self:
        self._live.start()
        self._refresh()
        return self

    def __exit__(self, *_: object) -> None:
        self._live.update(Text(""))
        self._live.stop()
        if self._steps:
            self._console.print(self._plan())

    def show(self, event: dict[str, Any]) -> None:
        """Take in one progress event."""
        kind = event["event"]
        if kind == "call":
            self._tokens += event["output_tokens"]
            self._calls += 1
        elif kind in ("plan", "estimate"):
            self._steps = event["steps"] or self._steps
        elif kind == "budgets":
            self._shares = dict(enumerate(event["shares"]))
        elif kind == "step_started":
            self._spent[event["index"]] = "…"
        elif kind == "step_done":
            self._spent[event["index"]] = f"{event['tokens']} ({event['finish']})"
        self._doing = _NEXT.get(kind, self._doing)
        self._refresh()

    def spent(self) -> str:
        """What the run has cost so far, in a sentence."""
        return f"{self._tokens} completion tokens were spent in {self._calls} finished calls."

    def close_with(self, report: Report) -> None:
        """Print the answer and the account."""
        self._console.print(Panel(safe(report["answer"]), title="Answer", title_align="left"))
        for warning in report["warnings"]:
            self._console.print(safe(f"note: {warning}", style="yellow"))
        self._console.print(account(report))

    def _refresh(self) -> None:
        parts: list[RenderableType] = [self._plan()] if self._steps else []
        waiting = Spinner("dots", Text(f"{self._doing} · {self._tokens} completion tokens"))
        self._live.update(Group(*parts, waiting))

    def _plan(self) -> Table:
        table = Table("#", "sub-question", box=None, header_style="bold", pad_edge=False)
        apart = bool(self._spent)  # in a single call nobody can tell what a sub-question took
        for name in ("level", "budget", "spent")[: 2 + apart]:
            table.add_column(name, justify="right", no_wrap=True)
        for step in self._steps:
            index = step["index"]
            cells = [
                Text(str(index + 1)),
                safe(step["question"]),
                Text(str(step["level"] or "–")),  # noqa: RUF001 -- an en dash stands for nothing
                Text(str(self._shares.get(index, ""))),
                Text(self._spent.get(index, "")),
            ]
            table.add_row(*cells[: 4 + apart])
        return table


def safe(text: str, style: str = "") -> Text:
    """Text from a model or a server: no markup, and no control codes for the terminal."""
    return Text(_CONTROL.sub("", text), style=style)


def account(report: Report) -> Text:
    """One line: tokens by node, their sum, the ceiling, and the time."""
    usage = report["usage"]
    nodes = " + ".join(f"{part['output_tokens']} {name}" for name, part in usage["by_node"].items())
    total = f"{usage['output_tokens']} completion tokens ({nodes})"
    if not usage["measured"]:
        total += ", partly estimated"
    ceiling = "" if report["ceiling"] is None else f", ceiling {report['ceiling']}"
    calls = f"{usage['calls']} calls, {usage['seconds']:.1f} s of model time"
    return Text(f"{total}{ceiling}; {calls}", style="dim")


def print_models(console: Console | None = None) -> None:
    """The local models, their size, and whether they have been fetched."""
    from pb_graph.local import catalog, weights  # noqa: PLC0415

    table = Table("model", "size", "license", "fetched", box=None, header_style="bold")
    for model in catalog.CATALOG.values():
        fetched = "yes" if weights.installed(model.name) else "no"
        table.add_row(
            f"local:{model.name}", f"{model.bytes / _MIB:.0f} MiB", model.license, fetched
        )
    (console or Console()).print(table)
