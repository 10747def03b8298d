"""Give a node its settings, its account of tokens, and its model calls."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar, cast

from langchain_core.messages import convert_to_messages
from langgraph.config import get_config, get_stream_writer
from langgraph.runtime import get_runtime

from pb_graph.answers import is_in_form
from pb_graph.budget.account import Budget
from pb_graph.budget.ledger import spending
from pb_graph.budget.rates import Dollars, Spending
from pb_graph.budget.scope import accounts_in_scope, open_run, use_budget
from pb_graph.errors import BudgetUsedUpError, InputError, ModelCallError
from pb_graph.models.chat_models import key_of
from pb_graph.models.client import IO, ModelClient, WrapperClient
from pb_graph.models.options import TIMEOUT, CallOptions, Thinking
from pb_graph.models.reply import Reply
from pb_graph.planner.requests import PlannerRequest, UnreadableReplyError
from pb_graph.prompts import Style, forced_answer_prompt, solver_style
from pb_graph.run.answer_type import AnswerType
from pb_graph.run.journal import Journal, JournaledClient
from pb_graph.run.models import Models, Role
from pb_graph.run.tools import MAX_ROUNDS, call_tool, use_tools, without_tools
from pb_graph.settings import Context, Settings
from pb_graph.state import State
from pb_graph.types import EASY, Charge, Finish, Purpose, Query, ReportWarning, WarningCode

if TYPE_CHECKING:
    from langchain_core.messages import BaseMessage, MessageLikeRepresentation
    from langchain_core.tools import BaseTool
    from langgraph.checkpoint.base import BaseCheckpointSaver

    from pb_graph.prompts import PromptMessage
    from pb_graph.types import Event

T = TypeVar("T")

_NO_CEILING = 10**9
"""Completion tokens of a question whose ceiling is not known yet."""
# Where LangGraph puts the checkpointer of the outermost graph for the graphs within: a private
# name. Without it no call is kept for a restart.
_CHECKPOINTER = "__pregel_checkpointer"


class BudgetedReply(NamedTuple):
    """The outcome of a request within its budget.

    Attributes:
        text: The answer.
        tokens: Completion tokens of all calls.
        finish: How the answer ended.
    """

    text: str
    tokens: int
    finish: Finish

    def update(self) -> State:
        """Return what the node that asked adds to the state, if this is the answer."""
        return {"answer": self.text, "finish": self.finish}


@dataclass(frozen=True, slots=True)
class GraphOptions:
    """The arguments of `build_graph` beside models and settings."""

    prices: Dollars | None = None
    answer_type: AnswerType | None = None
    tools: tuple[BaseTool, ...] = ()


@dataclass(eq=False, repr=False)
class Run:
    """The part of a run that one node sees. Every call through it is charged.

    A node that starts over has its finished calls answered as before, as long as it asks the same.

    Attributes:
        models: The models and the planner of the graph.
        settings: The settings of the run.
        context: The context of the run.
        options: What the graph was built with besides models and settings.
        io: The way to wait.
        state: The state that the node was given.
    """

    models: Models
    settings: Settings
    context: Context
    options: GraphOptions
    io: IO
    state: Mapping[str, Any]
    _update: State = field(default_factory=State)
    _charges: list[Charge] = field(default_factory=list)
    _warnings: list[ReportWarning] = field(default_factory=list)

    @cached_property
    def budget(self) -> Budget:
        """The account of the question: its ceiling, charged with what was billed before."""
        run, limit = self.state.get("run_id", ""), self.state.get("ceiling") or _NO_CEILING
        return open_run(limit=limit, run=run, earlier=self.earlier) or Budget(limit)

    @cached_property
    def earlier(self) -> Spending:
        """Tokens that the question was billed before this node, by model."""
        charges, sent = self.state.get("charges"), self.state.get("spent")
        return sent or (spending(charges) if charges else {})

    @property
    def prices(self) -> Dollars | None:
        """The prices of the graph, else those of a budget in dollars around the run."""
        if self.options.prices:
            return self.options.prices
        for account in accounts_in_scope():
            if isinstance(account.rate, Dollars):
                return account.rate
        return None

    @property
    def price_key(self) -> str:
        """Return the name by which dollars around the question price the solver; else ''."""
        if not any(account.needs_input for account in accounts_in_scope()):
            return ""
        model = self.models.model_for("solver", self.context)
        return key_of(self.models.client(model, self.settings).model)

    @property
    def checkpointer(self) -> BaseCheckpointSaver[Any] | None:
        """Return the checkpointer of the run, if it has one."""
        found: BaseCheckpointSaver[Any] | None = get_config()["configurable"].get(_CHECKPOINTER)
        return found

    async def ask(self, prompt: Sequence[MessageLikeRepresentation], options: CallOptions) -> Reply:
        """Ask the solver one thing.

        Args:
            prompt: Messages, or pairs of a role and a text.
            options: The wishes of this call. The cap is never more than ``Settings.cutoff``; the
                time-out is that of the settings.

        Raises:
            ModelCallError: The call failed for good.
            ModelSetupError: There is no model to call.
        """
        with use_budget(self.budget):
            return await self._ask(prompt, options)

    async def call_within_budget(  # noqa: PLR0913 -- what to ask, for whom, and within what
        self,
        prompt: Sequence[PromptMessage | BaseMessage],
        budget: int | None,
        query: Query,
        purpose: Purpose,
        *,
        closing: bool = True,
        stream: bool = True,
        thinking: Thinking | None = None,
    ) -> BudgetedReply:
        """Ask once; under ``force``, keep a reserve back to ask an unfinished answer's result.

        A reply that was lost, with an unknown bill, is unfinished, too. An answer that ended
        without the box that its format asks for is asked for it out of what is left: small models
        told to be short leave it out, and what reads the answer looks for it.

        Args:
            prompt: The request.
            budget: Tokens for it; None for methods without a budget.
            query: The question, for the answer format of a forced ending.
            purpose: What the calls are charged to.
            closing: Whether an unfinished reply is asked for the final answer of the question.
            stream: Whether a host that streams is shown the reply as the answer.
            thinking: How much the model may think, where that is not for the budget to say.

        Raises:
            ModelCallError: The request failed for good; a forced ending that fails is a warning.
        """
        is_only_said = budget is None or self.settings.enforcement == "prompt"
        forces = budget is not None and self.settings.enforcement == "force"
        options = CallOptions(
            self.cap_for(budget),
            purpose=purpose,
            # A budget that is only said must not show elsewhere.
            thinking=thinking or ("free" if is_only_said else "bounded"),
            # What is written while there are tools may turn out to be no answer.
            stream=stream and not self.options.tools,
            tools=self.options.tools,
        )
        lost: ModelCallError | None = None
        account = self.budget.limit(tokens=options.cap)
        with use_budget(account), account:
            reserve = account.grant(self._reserve(account, closing=closing) if forces else 0)
            options = replace(options, cap=max(1, account.tokens_left()))
            try:
                prompt, reply = await self._work(prompt, options, account)
            except ModelCallError as failure:
                if failure.fatal or not account.unknown or reserve.left < 1:
                    raise
                lost, reply = failure, Reply("", "error", failure.lost[-1])
            finish: Finish = "length" if reply.finish == "length" else "stop"
            is_unfinished = self._is_unfinished(reply, query, forces=forces, closing=closing)
            # Where others use up a shared budget meanwhile, the reserve is all that is left.
            if is_unfinished and account.left >= reserve.left:
                reserve.close()
                reserve = account
            if not is_unfinished or reserve.left < 1:
                return BudgetedReply(reply.text, int(account.spent), finish)
            answer_type = self.options.answer_type if closing else None
            ending = replace(
                options,
                cap=int(reserve.left),
                thinking="off",
                stream=stream,
                tools=(),
                schema=answer_type.schema if answer_type else None,
            )
            prompt = forced_answer_prompt(
                without_tools(prompt), reply.text, query, is_final=closing
            )
            try:
                with use_budget(reserve):
                    stated = (await self._ask(prompt, ending)).text
            except ModelCallError as failure:
                if lost:
                    lost.lost += failure.lost
                    raise lost from failure
                step = "" if purpose.step is None else f"sub-question {purpose.step + 1}: "
                self.warn("forced_ending_failed", f"{step}its forced ending failed. {failure}")
                # What was paid for already is kept.
                return BudgetedReply(
                    reply.text, int(account.spent), finish if reply.text else "error"
                )
        text = stated or reply.text
        if closing and stated:  # a final answer keeps the working that led to it
            text = f"{reply.text}\n\n{stated}".strip()
        is_whole = finish == "stop" and bool(reply.text) and not reply.tool_message
        return BudgetedReply(text, int(account.spent), finish if is_whole else "forced")

    async def ask_planner(self, request: PlannerRequest[T]) -> T:
        """Ask the planner one thing.

        Raises:
            ModelCallError: The call failed for good.
            ModelSetupError: There is no model to call.
            UnreadableReplyError: The reply could not be used.
        """
        role: Role = "estimator" if request.node == "estimate" else "planner"
        client, program = await self._client(role), self.context.planner_program
        planner = await self.io.load(self.models.planner, program)
        from pb_graph.planner.engine import ask_planner  # noqa: PLC0415 -- loads DSPy

        try:
            with use_budget(self.budget):
                return await ask_planner(
                    planner,
                    client,
                    request,
                    self.settings,
                    traced=program is not None,
                    io=self.io,
                )
        except ModelCallError as failure:
            self._note_failure(role, failure)
            raise

    async def ask_planner_with_repair(self, request: PlannerRequest[T]) -> T | None:
        """Ask the planner; when the reply cannot be read, say why and ask once more.

        Returns:
            The value, or None, after a warning, when there is none to be had.
        """
        value: T | None = None
        code: WarningCode = "unreadable_reply"
        try:
            try:
                return await self.ask_planner(request)
            except UnreadableReplyError as unreadable:
                complaint = str(unreadable)
            value = await self.ask_planner(request.corrected(complaint))
            note = f"the first reply could not be read ({complaint})"
        except UnreadableReplyError as unreadable:
            note = f"two replies could not be read ({unreadable}); going on without"
        except ModelCallError as failure:
            code, note = "call_failed", f"{failure} Going on without."
        self.warn(code, note)
        return value

    async def style(self, query: Query) -> Style:
        """Return the style in which a question is solved: a program's own, else the settings'."""
        program, taught = self.context.planner_program, None
        if program is not None or self.models.program is not None:
            taught = (await self.io.load(self.models.planner, program)).teaching
        is_free = not (self.options.tools or self.options.answer_type)
        return solver_style(self.settings, query, taught, is_free=is_free)

    async def check_media(self, media: Sequence[Mapping[str, Any]]) -> None:
        """Check that the solver takes images, sound or film, as far as LangChain's profile knows.

        Raises:
            InputError: It takes none.
        """
        client = await self._client("solver")
        profile: Any = getattr(client.model, "profile", None) or {}
        for kind in ("image", "audio", "video"):
            wanted = any(kind in str(block["type"]) for block in media)
            if wanted and profile.get(f"{kind}_inputs") is False:
                msg = f"{client.name} takes no {kind}: give one that does as the model."
                raise InputError(msg)

    def cap_for(self, budget: int | None) -> int:
        """Return the tokens a request may cost: its budget if that is enforced, else the cutoff."""
        if budget is None or self.settings.enforcement == "prompt":
            return self.settings.cutoff
        return min(budget, self.settings.cutoff)

    def warn(self, code: WarningCode, message: str) -> None:
        """Add a warning to the report; the name of the node is put in front.

        Args:
            code: The kind of the warning.
            message: What did not go as planned, and what is done instead.
        """
        self._warnings.append(ReportWarning(code=code, message=message))

    def emit(self, event: Event) -> None:
        """Send a progress event to hosts that stream in ``custom`` mode."""
        get_stream_writer()(event)

    def charge(self, charges: Sequence[Charge], warnings: Sequence[ReportWarning] = ()) -> None:
        """Charge a call to the question, and tell hosts that stream of it.

        Args:
            charges: Its attempts.
            warnings: Doubts about the server's account.
        """
        self._charges += charges
        self._warnings += warnings
        for charge in charges:
            self.emit({"event": "call", **charge})

    def state_update(self, node: str) -> State:
        """Return what a node's calls add to the state: charges, warnings, disabled models."""
        update = self._update
        if self._charges:
            update["charges"] = self._charges
        if lost := sum(row["finish"] == "error" and not row["measured"] for row in self._charges):
            note = f"{lost} attempt(s) broke off without an account of their tokens; "
            self.warn("unknown_bill", note + "each may be billed up to its cap")
        if self._warnings:
            once = {note["message"]: note["code"] for note in self._warnings}
            update["warnings"] = [
                ReportWarning(code=code, message=f"{node}: {said}") for said, code in once.items()
            ]
        return update

    @cached_property
    def journal(self) -> Journal | None:
        """The replies of this node's calls from before it started over, if they are kept."""
        saver, info = self.checkpointer, get_runtime().execution_info
        return Journal(saver, info) if saver and info else None

    async def _ask(
        self, prompt: Sequence[MessageLikeRepresentation], options: CallOptions
    ) -> Reply:
        """Ask the solver one thing, within the account in scope."""
        level, node = options.purpose.level, options.purpose.node
        role: Role = "easy" if level is not None and level <= EASY else "solver"
        cap = min(options.cap, self.settings.cutoff)
        options = replace(options, cap=cap, timeout=self.settings.timeout or TIMEOUT)
        client = await self._client(role)
        try:
            reply = await client.call(convert_to_messages(prompt), options, self.io)
        except ModelCallError as failure:
            # One step's refusal does not stop the others; without a server, they fare no better.
            if node != "solve" or failure.status is None:
                self._note_failure(role, failure)
            raise
        if options.stream and reply.message_id:
            self._update["answer_id"] = reply.message_id
        if reply.effort and (options.stream or node in ("answer", "synthesize")):
            self._update.setdefault("effort", reply.effort)  # that of a forced ending is no news
        return reply

    async def _work(
        self,
        prompt: Sequence[PromptMessage | BaseMessage],
        options: CallOptions,
        account: Budget,
    ) -> tuple[Sequence[PromptMessage | BaseMessage], Reply]:
        """Ask and, while the reply calls tools, ask again with their results.

        Returns:
            The prompt with what the tools gave, and the last reply.
        """
        paid: list[Reply] = []
        for rounds_left in range(MAX_ROUNDS, -1, -1):
            try:
                paid.append(await self._ask(prompt, options))
            except ModelCallError as failure:  # its step is told what all of the calls cost
                failure.lost = (*(row for reply in paid for row in reply.charges), *failure.lost)
                raise
            asked = paid[-1].tool_message
            if not (asked and rounds_left and account.left > 0):
                break
            call = self.journal.call_tool if self.journal else call_tool
            prompt = [*prompt, *await use_tools(asked, self.options.tools, call, self.io)]
            options = replace(options, cap=max(1, account.tokens_left()))
        return prompt, paid[-1]

    def _reserve(self, account: Budget, *, closing: bool) -> int:
        """Return the tokens to keep back for a forced ending.

        At most half of a small cap; two thirds for the final answer, which is what the rest was
        paid for. The smallest share (24 tokens by default) so ends in 16 tokens.
        """
        answer_type = self.options.answer_type if closing else None
        least = max(self.settings.reserve, answer_type.reserve if answer_type else 0)
        cap = min(int(account.total), account.tokens_left())
        return min(least, cap * 2 // 3 if closing else cap // 2)

    def _is_unfinished(self, reply: Reply, query: Query, *, forces: bool, closing: bool) -> bool:
        """Return whether a reply is to be asked for its result."""
        if reply.finish == "length" or not reply.text or reply.tool_message:
            return forces or bool(reply.tool_message)
        if answer_type := self.options.answer_type if closing else None:
            return answer_type.read(reply.text) is None
        return forces and closing and not is_in_form(reply.text, query["answer_format"])

    async def _client(self, role: Role) -> ModelClient:
        """Return the client of a role, whose calls are charged to this run.

        Raises:
            ModelCallError: The model failed for good when it was asked before.
        """
        model = self.models.model_for(role, self.context)
        earlier = self.state.get("disabled_models") or {}
        for other in {**earlier, **self._update.get("disabled_models", {})}:
            theirs = self.models.model_for(cast("Role", other), self.context)
            if model is theirs or (isinstance(model, str) and model == theirs):
                msg = "not asked: its model cannot be reached or used, as was found before."
                raise ModelCallError(msg, fatal=True)
        if self.models.is_ready(model, self.settings):
            client = self.models.client(model, self.settings)
        else:
            client = await self.io.load(self.models.client, model, self.settings)
        if self.journal:
            client = JournaledClient(client, self.journal)
        return _ChargedClient(client, self)

    def _note_failure(self, role: Role, failure: ModelCallError) -> None:
        if isinstance(failure, BudgetUsedUpError):
            self._update["budget_used_up"] = True
        if failure.fatal:
            disabled = self._update.get("disabled_models", {})
            self._update["disabled_models"] = {**disabled, role: str(failure)}


class _ChargedClient(WrapperClient):
    """A client that charges its calls to a run."""

    def __init__(self, wrapped: ModelClient, run: Run) -> None:
        self.wrapped, self._run = wrapped, run

    async def call(self, messages: Sequence[BaseMessage], options: CallOptions, io: IO) -> Reply:
        try:
            reply = await self.wrapped.call(messages, options, io)
        except ModelCallError as failure:
            self._run.charge(failure.lost)
            raise
        self._run.charge((*reply.lost, reply.charge), reply.warnings)
        return reply
