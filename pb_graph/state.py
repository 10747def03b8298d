"""The state of the graph: plain JSON and LangChain's messages; nothing needs a pickle."""

from __future__ import annotations

import operator
from typing import Annotated, Any, NotRequired

from langchain_core.messages import AnyMessage
from langgraph.channels import EphemeralValue
from langgraph.graph.message import add_messages
from typing_extensions import TypedDict  # pydantic cannot read typing's own before Python 3.12

from pb_graph import types


class Input(TypedDict, total=False):
    """The input of the graph: ``question`` or ``messages``, and options of the question.

    All keys except the messages live for one step only: the next question on the same thread must
    not inherit the level or the reference of the last one.
    """

    messages: Annotated[list[AnyMessage], add_messages]
    question: Annotated[str, EphemeralValue(str)]
    reference: Annotated[str, EphemeralValue(str)]
    instruction: Annotated[str, EphemeralValue(str)]
    answer_format: Annotated[str, EphemeralValue(str)]
    domain: Annotated[str, EphemeralValue(str)]
    level: Annotated[int, EphemeralValue(int)]
    budget: Annotated[int, EphemeralValue(int)]  # solving tokens, in place of ``Settings.budget``


class Output(TypedDict):
    """The output of the graph."""

    messages: Annotated[list[AnyMessage], add_messages]
    answer: str
    report: types.Report
    # With a ``response_format``: the answer as JSON of that type; None if it does not fit.
    structured_response: NotRequired[Any]


class State(Input, total=False):
    """The state between input and output."""

    settings: dict[str, Any]  # of this run as JSON, so that a resumed run keeps its own
    query: types.Query
    plan: list[types.SubQuestion]
    limit: int | None  # the most completion tokens; a reviewer or a decision may raise this limit
    planning_bound: int  # the part of the first limit that is for planning
    level_source: types.LevelSource | None
    model_class_source: str  # what told the class of the solver, as in the report
    thinking_room: int  # tokens of the limit for a solver of unknown class that may think
    shares: list[int]  # tokens of each step; empty while the budget is not split
    results: Annotated[list[types.StepResult], operator.add]
    charges: Annotated[list[types.Charge], operator.add]
    warnings: Annotated[list[types.ReportWarning], operator.add]
    run_id: str  # so that enclosing accounts count the earlier spending of a run once
    budget_used_up: Annotated[bool, operator.or_]  # whether a call was refused because of that
    effort: str | None
    answer: str
    finish: types.Finish | None
    answer_id: str | None  # of the streamed message that showed the answer, if there was one
    report: types.Report
    structured_response: Any


class SolveTask(State):
    """The part of the state that one ``solve`` node needs, sent by ``allocate``."""

    index: int
    share: int
    closes: bool  # whether the step also has to give the final answer
    spent: types.Spending  # what the run may have been billed before this step was sent
