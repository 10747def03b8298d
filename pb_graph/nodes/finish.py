"""Closes the account: the report, and the final message for a host that reads messages."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, cast

from langchain_core.messages import AIMessage

from pb_graph.budget.ledger import by_node, most_billed
from pb_graph.errors import NoAnswerError
from pb_graph.runtime.answer_stream import MESSAGE_NAME
from pb_graph.state import Report

if TYPE_CHECKING:
    from pb_graph.runtime.node import NodeContext
    from pb_graph.settings import Settings
    from pb_graph.state import State, StepReport


def finish(state: State, run: NodeContext) -> State:
    """Write ``report`` and the final message.

    Raises:
        NoAnswerError: Nothing was answered; the report tells what was spent on it.
    """
    report = build_report(state, run.settings)
    run.tell({"event": "answer", "answer": report["answer"], "usage": report["usage"]})
    if not report["answer"]:
        reasons = report["warnings"] or ["every reply of the model was empty"]
        spent = report["usage"]["output_tokens"]
        msg = "\n- ".join([f"No answer, after {spent} completion tokens.", *reasons])
        raise NoAnswerError(msg, report)
    # The id of the pieces that a host was shown already: it does not get them a second time.
    message = AIMessage(report["answer"], name=MESSAGE_NAME, id=state["answer_id"])
    return {"report": report, "messages": [message]}


def build_report(state: State, settings: Settings) -> Report:
    """The account of a query, from what the nodes left in the state."""
    local = settings.splits
    warnings, most, ceiling = state["warnings"], most_billed(state["charges"]), state["ceiling"]
    if ceiling is not None and most > ceiling:
        note = f"up to {most} completion tokens may be billed, above the ceiling of {ceiling}"
        warnings = [
            *warnings,
            f"{note}: Settings(strict_ceiling=True) keeps lost attempts below it",
        ]
    return Report(
        method=settings.method,
        execution=settings.execution if local else None,
        schedule=settings.schedule if local else None,
        level=state["query"]["level"],
        budget=state["budget"],
        ceiling=ceiling,
        most_billed=most,
        answer=state.get("answer", ""),
        steps=_steps(state),
        usage=by_node(state["charges"]),
        warnings=warnings,
    )


def _steps(state: State) -> list[StepReport]:
    results = {result["index"]: result for result in state["results"]}
    reports: list[StepReport] = []
    for step in state["plan"]:
        done = results.get(step["index"])
        share = state["shares"].get(str(step["index"]))
        outcome: dict[str, Any] = dict(done) if done else {"budget": share}
        blank = dict.fromkeys(("budget", "cap", "tokens", "finish", "answer"))
        reports.append(cast("StepReport", step | blank | outcome))
    return reports
