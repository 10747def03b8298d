"""Closes the account: the report, and the final message for a host that reads messages."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, cast

from langchain_core.messages import AIMessage
from langchain_core.messages.ai import UsageMetadata

from pb_graph.answers import bare_result
from pb_graph.budget.ledger import by_node, most_billed, spent
from pb_graph.budget.rates import Dollars
from pb_graph.errors import NoAnswerError
from pb_graph.state import State
from pb_graph.types import QueryUsage, Report, ReportWarning, StepReport

if TYPE_CHECKING:
    from pb_graph.run.run import Run
    from pb_graph.settings import Settings

MESSAGE_NAME = "plan_and_budget"


def finish(state: State, run: Run) -> State:
    """Write ``report`` and, when there is an answer, the final message with the account on it."""
    report = build_report(state, run.settings, run.options.prices)
    answer_type, typed = run.options.answer_type, None
    if answer_type and report["answer"]:
        typed = answer_type.read(report["answer"])
        if typed is None:
            note = "finish: the answer holds no JSON that fits response_format"
            unfit = ReportWarning(code="no_structured_response", message=note)
            report["warnings"] = [*report["warnings"], unfit]
    run.emit({"event": "answer", "answer": report["answer"], "usage": report["usage"]})
    if not report["answer"]:
        return {"report": report}
    message = AIMessage(
        report["answer"],
        name=MESSAGE_NAME,
        # That of the pieces that a host was shown already: it does not get them a second time.
        id=state["answer_id"],
        usage_metadata=_usage_metadata(report["usage"]),
        response_metadata=_essentials(report)
        | ({"budget_used_up": True} if state["budget_used_up"] else {}),
    )
    update: State = {"report": report, "messages": [message]}
    return update | {"structured_response": typed} if answer_type else update


def no_answer(state: State, run: Run) -> State:
    """End a run that came to nothing; its report stays in the state, for whoever looks there.

    Raises:
        NoAnswerError: Always; the report tells what was spent.
    """
    del run
    report = state["report"]
    # Once a model is known to be out of reach, all else that went wrong goes wrong for that.
    reasons = list(dict.fromkeys(state["disabled_models"].values()))
    reasons = reasons or [warning["message"] for warning in report["warnings"]]
    spent = report["usage"]["output_tokens"]
    lines = [f"No answer, after {spent} completion tokens.", *reasons]
    if not reasons:
        lines.append("every reply of the model was empty")
    raise NoAnswerError("\n- ".join(lines), report)


def _usage_metadata(usage: QueryUsage) -> UsageMetadata:
    """The account of the whole query in LangChain's words, for hosts and tracers."""
    return UsageMetadata(
        input_tokens=usage["input_tokens"],
        output_tokens=usage["output_tokens"],
        total_tokens=usage["input_tokens"] + usage["output_tokens"],
        input_token_details={"cache_read": usage["cached_tokens"]},
        output_token_details={"reasoning": usage["reasoning_tokens"]},
    )


def _essentials(report: Report) -> dict[str, Any]:
    """Return the report without its steps, for hosts that see only the message."""
    usage = report["usage"]
    models = [name for part in usage["by_node"].values() for name in part.get("models", [])]
    kept = (
        "method",
        "execution",
        "schedule",
        "style",
        "effort",
        "level",
        "budget",
        "ceiling",
        "result",
        "warnings",
    )
    ours: dict[str, Any] = {name: report[name] for name in kept}  # type: ignore[literal-required]
    ours |= {name: usage.get(name) for name in ("calls", "seconds", "measured", "cost")}
    return {
        "model_name": models[-1] if models else "",
        "finish_reason": "length" if report["finish"] == "length" else "stop",
        MESSAGE_NAME: ours,
    }


def build_report(state: State, settings: Settings, prices: Dollars | None = None) -> Report:
    """The account of a query, from what the nodes left in the state."""
    charges, warnings, ceiling = state["charges"], state["warnings"], state["ceiling"]
    most, usage, splits = most_billed(charges), by_node(charges, prices), settings.splits_budget
    if ceiling is not None and most > ceiling:
        note = f"up to {most} completion tokens may be billed, above the ceiling of {ceiling}"
        note += ": a server ignored its cap, as `pb-graph probe` shows"
        warnings = [*warnings, ReportWarning(code="ceiling_exceeded", message=note)]
    answer, ended = state.get("answer", ""), state.get("finish")
    return Report(
        method=settings.method,
        execution=settings.execution if splits else None,
        schedule=settings.schedule if splits else None,
        style=settings.solver_style,
        effort=state["effort"],
        level=state["query"]["level"],
        level_source=state["level_source"],
        budget=state["total"],
        ceiling=ceiling,
        most_billed=most,
        answer=answer,
        result=bare_result(answer, is_cut=ended == "length"),
        finish=ended,
        cut_off=ended in ("length", "forced"),
        steps=_steps(state, settings),
        usage=usage,
        warnings=warnings,
    )


def _steps(state: State, settings: Settings) -> list[StepReport]:
    """Return the steps with their outcomes; that of the only step is the question's."""
    results = {result["index"]: result for result in state["results"]}
    reports: list[StepReport] = []
    for step in state["plan"]:
        share = state["shares"].get(str(step["index"]))
        outcome: dict[str, Any] = {"budget": share}
        if done := results.get(step["index"]):
            outcome = dict(done)
        elif len(state["plan"]) == 1 and state.get("answer"):
            solving = (row for row in state["charges"] if row["node"] == "answer")
            bound = None if settings.enforcement == "prompt" else state["total"]
            outcome |= {
                "cap": settings.cutoff if bound is None else min(bound, settings.cutoff),
                "tokens": spent(solving),
                "finish": state.get("finish"),
                "answer": state["answer"],
            }
        blank = dict.fromkeys(("budget", "cap", "tokens", "finish", "answer"))
        reports.append(cast("StepReport", step | blank | outcome))
    return reports
