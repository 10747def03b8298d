"""Show the progress of a run: limit, level, plan, spending of each step, and answer."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.spinner import Spinner
from rich.table import Column, Table
from rich.text import Text

from pb_graph.cli.options import printable

if TYPE_CHECKING:
    from pb_graph.graph import PlanAndBudgetGraph
    from pb_graph.state import Input
    from pb_graph.types import Report

_PLANNING = ("plan", "estimate")


class Display:
    """Shows one run on a console; on a terminal the plan fills while its steps finish."""

    def __init__(self, console: Console) -> None:
        self._console = console
        self._spinner = Spinner("dots")
        self._known: dict[str, Any] = {}  # the last level, budget, steps and shares
        self._spent: dict[int, str] = {}
        self._tokens = self._solving = self._calls = 0

    async def follow(self, graph: PlanAndBudgetGraph, inputs: Input) -> Report:
        """Run a graph, print its result, and return the report. A failed run leaves its plan.

        Args:
            graph: Graph that answers the question.
            inputs: The question, with its level if the user gave one.
        """
        run: Any = graph.astream(inputs, stream_mode=["custom", "values"])
        try:
            with Live(get_renderable=self._draw, console=self._console, transient=True):
                async for mode, data in run:
                    if mode == "custom":
                        self._show(data)
        finally:
            if "steps" in self._known:
                self._console.print(self._plan())
        report: Report = data["report"]  # the last node either writes it or raises
        answer, result = report["answer"], report["result"] or report["answer"].strip()
        self._console.print("", safe(result, "bold"), "", sep="\n")
        if result != answer.strip():
            self._console.print(safe(answer, "dim"), "", sep="\n")
        for warning in report["warnings"]:
            self._console.print(safe(f"note: {warning['message']}", "yellow"))
        usage, planning = report["usage"], self._tokens - self._solving
        self._console.print(
            f"{usage['output_tokens']:,} of at most {report['limit']:,} completion tokens "
            f"(planning {planning:,}){'' if usage['measured'] else ', partly estimated'}; "
            f"{_calls(usage['calls'])}, {usage['seconds']:.1f} s",
            style="dim",
        )
        return report

    def describe_spending(self) -> str:
        """Return sentences with the cost of the run so far."""
        spent = f"{self._tokens:,} completion tokens were spent in {_calls(self._calls)}."
        return f"{spent} A call under way may be billed as well."

    def _show(self, event: Mapping[str, Any]) -> None:
        kind = event["event"]
        if kind == "intake":
            first, source = event["plan_from"], event["model_class_source"]
            way = "part by part" if event["execution"] == "stepwise" else "in one call"
            plans = f"planned from level {first}, solved {way}" if first else "not planned"
            self._console.print(f"At most {event['limit']:,} completion tokens")
            self._console.print(f"{event['model_class']} model, by {source}: {plans}")
        elif kind == "call":
            tokens = event["usage"]["output_tokens"]
            self._calls += 1
            self._tokens += tokens
            self._solving += 0 if event["node"] in _PLANNING else tokens
        elif kind in {*_PLANNING, "allocate"}:
            if event.get("level") and "level" not in self._known:
                source = event.get("level_source", "given")
                self._console.print(f"Level {event['level']} of 5 ({source})")
            self._known |= {name: value for name, value in event.items() if value}
        elif kind == "step_started":
            self._spent[event["index"]] = "…"
        elif kind == "step_done":
            finish = "" if event["finish"] == "stop" else f" ({event['finish']})"
            self._spent[event["index"]] = f"{event['tokens']:,}{finish}"

    def _draw(self) -> RenderableType:
        self._spinner.update(text=f"{self._tokens:,} completion tokens")
        return Group(self._plan(), self._spinner) if "steps" in self._known else self._spinner

    def _plan(self) -> Table:
        names, steps = ("level", "credit", "share", "spent"), self._known["steps"]
        numbers = (Column(name, justify="right", no_wrap=True) for name in names)
        table = Table("#", "step", *numbers, box=None, header_style="bold", pad_edge=False)
        count, shares = len(steps), dict(enumerate(self._known.get("shares", ())))
        for index, step in enumerate(steps):
            cells = map(_format, (step["level"], step["credit"], shares.get(index)))
            spent = _format(self._solving) if count == 1 else self._spent.get(index, "")
            table.add_row(str(index + 1), safe(step["question"]), *cells, spent)
        if count > 1:  # the tokens of a step in a single call are unknown
            totals = (None, None, self._known.get("budget"), self._solving)
            table.add_row("", "all", *map(_format, totals))
        return table


def safe(text: str, style: str = "") -> Text:
    """Return a model's or a server's text for the terminal, without markup and control codes.

    Args:
        text: The text.
        style: A style of Rich, such as ``"bold"``.
    """
    return Text(printable(text), style=style)


def _format(number: float | None) -> str:
    return "" if number is None else f"{number:,.0f}"


def _calls(count: int) -> str:
    return f"{count} call" if count == 1 else f"{count} calls"
