"""The plain data that all parts of the package exchange: JSON-compatible, without behavior."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal, NotRequired

from typing_extensions import TypedDict  # pydantic cannot read typing's own before Python 3.12

Finish = Literal["stop", "length", "forced", "error"]
"""The end of an answer or a step: by itself, at its cap, by a forced statement, or not at all."""

LevelSource = Literal["given", "estimated", "default"]
"""Source of a question's level; ``default`` where the planner gave none."""

EASY = 2
"""The highest level that a smaller model solves, if there is one."""


class TokenUsage(TypedDict):
    """Tokens of calls, in the form of LangChain's `UsageMetadata`, which takes long to import."""

    input_tokens: int
    output_tokens: int
    total_tokens: int
    input_token_details: dict[str, int]
    output_token_details: dict[str, int]


Spending = dict[str, TokenUsage]
"""Tokens by model. The input details also have ``largest_call``, the input tokens of the largest
call."""


@dataclass(frozen=True, slots=True)
class Purpose:
    """The purpose of a call, as the ledger and the traces show it."""

    node: str
    step: int | None = None
    level: int | None = None
    """Level of difficulty, if known."""


class Charge(TypedDict):
    """The charge of one model call."""

    node: str
    """The graph node that made the call."""
    step: int | None
    """Index of the sub-question, if the call was made for one."""
    cap: int
    """Completion tokens the call was allowed."""
    model: str
    """The model's key: ``provider:name``, ``name at address`` or its plain name."""
    usage: TokenUsage
    """The tokens; for a lost attempt, the tokens that arrived."""
    measured: bool
    """True if the provider reported the tokens; otherwise they are estimated."""
    most: TokenUsage
    """The most that the call may have been billed, as accounts count it."""
    seconds: float
    finish: str
    """Why the call ended: stop, length, filter or error."""


class Usage(TokenUsage):
    """Sums over calls. ``seconds`` adds up the durations of all calls, parallel calls included."""

    calls: int
    seconds: float
    measured: bool
    by_model: dict[str, TokenUsage]
    """The tokens of each model, by its name."""
    by_node: NotRequired[dict[str, Usage]]
    """The sums of each node; absent in the usage of a node."""
    cost: NotRequired[float | None]
    """Dollars, where there is a table of prices; None when a model is not in it."""


class SubQuestion(TypedDict):
    """One part of a plan. Indices count from 0; ``depends_on`` names earlier ones only."""

    index: int
    question: str
    hint: str
    depends_on: list[int]
    level: int | None
    credit: float | None
    """Share of the question's 100 points; None until it has been estimated."""


class StepResult(TypedDict):
    """The result of one sub-question, with the share that it was given."""

    index: int
    share: int
    cap: int
    tokens: int
    finish: Finish
    answer: str


class StepReport(SubQuestion):
    """A sub-question with its share and its outcome; in one pass only the share is known."""

    share: int | None
    cap: int | None
    tokens: int | None
    finish: Finish | None
    answer: str | None


WarningCode = Literal[
    "answer_from_step",  # the answer of a sub-question is the final answer
    "budget_lowered",  # a shared budget had fewer tokens left than the question's own
    "budget_used_up",  # a call was not made
    "call_failed",
    "cap_ignored",  # the server wrote more tokens than it was asked for
    "limit_exceeded",  # more may be billed than the limit, after a server ignored its cap
    "limit_reached",  # steps were not asked
    "content_filter",  # the provider cut or withheld a reply
    "conversation_cut",
    "cut_off",  # the answer, or a part of it, ends in the middle
    "empty_reply",
    "grades_corrected",  # levels or credits
    "method",  # a warning that the method itself adds
    "no_result",  # of a sub-question
    "no_structured_response",
    "plan_corrected",
    "plan_dropped",  # it only repeated the question, or left it out
    "single_step",  # without a plan, or a budget for one
    "unknown_bill",  # a lost attempt may have been billed
    "unreadable_reply",  # of the planner
]
"""The kinds of `ReportWarning`."""


class ReportWarning(TypedDict):
    """A deviation from the plan, and its remedy."""

    code: WarningCode
    message: str
    """A sentence for people; begins with the node or the sub-question."""


class QuestionPlan(TypedDict):
    """The plan of a question that was not solved."""

    level: int | None
    steps: list[SubQuestion]
    shares: list[int]
    """Tokens of each step; empty for a method without shares."""
    synthesis: str
    """Way in which the steps become the answer: ``last_step``, ``join`` or ``call``."""
    tokens: int
    """Completion tokens that planning took."""
    warnings: list[ReportWarning]


class Report(TypedDict):
    """The account of one query, plain JSON. docs/report.md says what each field holds."""

    method: str
    execution: str | None
    schedule: str | None
    style: str | None
    effort: str | None
    model_class: str
    model_class_source: str
    level: int | None
    level_source: LevelSource | None
    budget: int | None
    limit: int | None
    """Completion tokens that this query cannot exceed, planning included. Known before the first
    call; it may fall afterwards, and only a reviewer or a decision raises it."""
    most_billed: int
    """Completion tokens that may have been billed at most. More than in ``usage`` only where an
    attempt was lost on the way: its bill is unknown, so it counts as its whole cap."""
    answer: str
    result: str | None
    """The bare answer, such as "9"; None where the answer states no result, or was cut off."""
    finish: Finish | None
    cut_off: bool
    """True if the solver reached its cap before it was done."""
    steps: list[StepReport]
    usage: Usage
    warnings: list[ReportWarning]


class Query(TypedDict):
    """The question as it is being answered; ``level`` is None until it is given or estimated."""

    question: str
    reference: str | None
    instruction: str | None
    answer_format: str | None
    domain: str
    level: int | None
    budget: NotRequired[int | None]
    """The solving tokens; None until they are allocated, or for a method without a budget."""
    conversation: NotRequired[str | None]
    """The conversation around the question, marked off as data; None without one."""
    media: NotRequired[list[dict[str, Any]]]
    """Images and files for the solver: content blocks as the host wrote them, plain JSON."""
