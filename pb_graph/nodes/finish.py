"""Write the report, and the final message for a host that reads messages."""

from __future__ import annotations

from typing import Any, cast

from langchain_core.messages import AIMessage
from langgraph.graph import END

from pb_graph.answers import stated_answer
from pb_graph.budget.account import ACCOUNTS
from pb_graph.budget.bill import Dollars, most_billed, spent, usage_of
from pb_graph.errors import NoAnswerError
from pb_graph.run.run import Run
from pb_graph.state import State
from pb_graph.types import Report, ReportWarning, StepReport, TokenUsage

MESSAGE_NAME = "plan_and_budget"
_SHORT = 80  # characters of an answer that is nothing but its result
_EMPTY = {
    "stop": "every reply of the model was empty",
    "length": "the model reached its cap before it wrote an answer: raise `budget` and `reserve`, "
    "or lower the model's reasoning effort",
    "filter": "the provider's content filter withheld the reply: change the question or the model",
}


def finish(state: State, run: Run) -> State:
    """Write ``report`` and, if there is an answer, the final message with its usage."""
    report = _build_report(state, run)
    answer, update = report["answer"], State(report=report)
    if answer and run.parts.answer_type:
        update["structured_response"] = run.parts.answer_type.read(answer)
        if update["structured_response"] is None:
            note = "finish: the answer holds no JSON that fits response_format"
            report["warnings"].append(ReportWarning(code="no_structured_response", message=note))
    if answer:
        update["messages"] = [_message(report, state)]
    run.emit("answer", answer=answer, usage=report["usage"])
    run.goto = END if answer else "no_answer"
    return update


def no_answer(state: State, _: Run) -> State:
    """Raise `NoAnswerError` with the report, which also stays in the state."""
    report = state["report"]
    lines = [f"No answer, after {report['usage']['output_tokens']} completion tokens."]
    lines += [warning["message"] for warning in report["warnings"]]
    answering = [row for row in state["charges"] if row["node"] not in {"plan", "estimate"}]
    lines += [_EMPTY[row["finish"]] for row in answering[-1:] if row["finish"] in _EMPTY]
    raise NoAnswerError("\n- ".join(lines), report)


def _build_report(state: State, run: Run) -> Report:
    settings, query, limit = run.settings, state["query"], state["limit"]
    rates = (run.parts.prices, *(account.rate for account in ACCOUNTS.get()))
    dollars = next((rate for rate in rates if isinstance(rate, Dollars)), None)
    usage, bound = usage_of(state["charges"], dollars), most_billed(state["charges"])
    warnings = [*state["warnings"]]
    if limit is not None and bound > limit:
        note = f"up to {bound} completion tokens may be billed, above the limit of {limit}"
        note += ": a server ignored its cap, as `pb-graph probe` shows"
        warnings.append(ReportWarning(code="limit_exceeded", message=note))
    answer, ending = state.get("answer", ""), state.get("finish")
    text = answer.strip()
    is_bare = ending != "length" and "\n" not in text and len(text) <= _SHORT
    result = stated_answer(answer) or (text if is_bare else None) or None
    if ending == "length" or (ending == "forced" and result is None):
        note = "the answer was cut off: raise `budget`, or ask for less"
        warnings.append(ReportWarning(code="cut_off", message=note))
    return Report(
        method=settings.method,
        execution=settings.execution if settings.splits_budget else None,
        schedule=settings.shape.name if settings.splits_budget else None,
        style=settings.solver_style(query),
        effort=state["effort"],
        model_class=settings.model_class or "",
        model_class_source=state["model_class_source"],
        level=query["level"],
        level_source=state["level_source"],
        budget=query["budget"],
        limit=limit,
        most_billed=bound,
        answer=answer,
        result=result,
        finish=ending,
        cut_off=ending in ("length", "forced"),
        steps=_steps(state, run),
        usage=usage,
        warnings=warnings,
    )


def _steps(state: State, run: Run) -> list[StepReport]:
    """Return the steps with their outcomes. A single step has the outcome of the question."""
    outcomes: dict[int, Any] = {result["index"]: result for result in state["results"]}
    if len(state["plan"]) == 1 and state.get("answer") and not outcomes:
        tokens = spent(row for row in state["charges"] if row["node"] == "answer")
        outcome = {"cap": run.cap_for(state["query"]["budget"]), "tokens": tokens}
        outcomes[0] = outcome | {"finish": state.get("finish"), "answer": state["answer"]}
    shares = dict(enumerate(state["shares"]))
    empty = dict.fromkeys(("cap", "tokens", "finish", "answer"))
    return [
        cast("StepReport", {**step, "share": shares.get(n), **empty, **outcomes.get(n, {})})
        for n, step in enumerate(state["plan"])
    ]


def _message(report: Report, state: State) -> AIMessage:
    usage, left_out = report["usage"], {"answer", "steps", "usage"}
    models = [*[*usage["by_node"].values()][-1]["by_model"]] if usage["calls"] else [""]
    account = {name: value for name, value in report.items() if name not in left_out}
    account |= {name: usage.get(name) for name in ("calls", "seconds", "measured", "cost")}
    metadata: dict[str, Any] = {"model_name": models[-1], MESSAGE_NAME: account}
    metadata["finish_reason"] = "length" if report["finish"] == "length" else "stop"
    if state["budget_used_up"]:
        metadata["budget_used_up"] = True
    tokens = {name: value for name, value in usage.items() if name in TokenUsage.__annotations__}
    about: dict[str, Any] = {"usage_metadata": tokens, "response_metadata": metadata}
    # The id of the streamed chunks, so that a host does not show the answer twice.
    return AIMessage(report["answer"], name=MESSAGE_NAME, id=state["answer_id"], **about)
