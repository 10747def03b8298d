"""The plain data that all parts of the package exchange: JSON-compatible, without behavior."""

from __future__ import annotations

from typing import Any, Literal, NamedTuple, NotRequired

from typing_extensions import TypedDict  # pydantic cannot read typing's own before Python 3.12

Finish = Literal["stop", "length", "forced", "error"]
LevelSource = Literal["given", "estimated", "default"]
EASY = 2  # the highest level that a smaller model solves, if there is one


class TokenUsage(TypedDict):
    """Tokens of calls, in the form of LangChain's `UsageMetadata`, which takes long to import."""

    input_tokens: int
    output_tokens: int
    total_tokens: int
    input_token_details: dict[str, int]
    output_token_details: dict[str, int]


Spending = dict[str, TokenUsage]
"""Tokens by model; the input details also have ``largest_call``, the input of the largest call."""


class Purpose(NamedTuple):
    """The purpose of a call, as the ledger and the traces show it."""

    node: str
    step: int | None = None
    level: int | None = None  # of difficulty, if known


class Charge(TypedDict):
    """The charge of one model call."""

    node: str  # of the graph
    step: int | None  # index of the sub-question, if the call was made for one
    cap: int  # completion tokens that the call was allowed
    model: str  # its key: ``provider:name``, ``name at address`` or the plain name
    usage: TokenUsage  # of a lost attempt, the tokens that arrived
    measured: bool  # the provider reported the tokens; otherwise they are estimated
    most: TokenUsage  # the most that the call may have been billed, as accounts count it
    seconds: float
    finish: str  # stop, length, filter or error


class Usage(TokenUsage):
    """Sums over calls, as docs/report.md describes them."""

    calls: int
    seconds: float
    measured: bool
    by_model: dict[str, TokenUsage]
    by_node: NotRequired[dict[str, Usage]]  # absent in the usage of a node
    cost: NotRequired[float | None]  # absent without prices


class SubQuestion(TypedDict):
    """One part of a plan. Indices count from 0; ``depends_on`` names earlier ones only."""

    index: int
    question: str
    hint: str
    depends_on: list[int]
    level: int | None
    credit: float | None  # share of the question's 100 points, once it is estimated


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


_Limits = Literal["budget_lowered", "budget_used_up", "limit_exceeded", "limit_reached"]
_Calls = Literal["call_failed", "cap_ignored", "content_filter", "empty_reply", "unknown_bill"]
_Plans = Literal["grades_corrected", "plan_corrected", "plan_dropped", "single_step"]
_Answers = Literal["answer_from_step", "no_result", "no_structured_response", "unreadable_reply"]
WarningCode = Literal[_Limits, _Calls, _Plans, _Answers, "conversation_cut", "cut_off", "method"]
"""The kinds of `ReportWarning`, which docs/report.md explains."""


class ReportWarning(TypedDict):
    """A deviation from the plan, and its remedy."""

    code: WarningCode
    message: str  # for people; begins with the node or the sub-question


class QuestionPlan(TypedDict):
    """The plan of a question that was not solved, with the tokens that planning took."""

    level: int | None
    steps: list[SubQuestion]
    shares: list[int]  # tokens of each step; empty for a method without shares
    synthesis: str  # how the steps become the answer: ``last_step``, ``join`` or ``call``
    tokens: int
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
    most_billed: int
    answer: str
    result: str | None
    finish: Finish | None
    cut_off: bool
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
    budget: NotRequired[int | None]  # the solving tokens, once they are allocated
    conversation: NotRequired[str | None]  # what is around the question, marked off as data
    media: NotRequired[list[dict[str, Any]]]  # images and files, as the host wrote their blocks
