"""Give a node its settings, its account of tokens, and its model calls."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar, cast

from langchain_core.messages import ToolMessage, convert_to_messages, messages_from_dict
from langgraph.config import get_stream_writer

from pb_graph.answers import is_in_form
from pb_graph.budget.account import Budget, accounts_in_scope, open_run, use_budget
from pb_graph.budget.ledger import spending
from pb_graph.budget.rates import Dollars
from pb_graph.errors import BudgetUsedUpError, InputError, ModelCallError
from pb_graph.models.caps import describe_effort
from pb_graph.models.chat_models import key_of
from pb_graph.models.client import ModelClient
from pb_graph.models.io import IO
from pb_graph.models.options import TIMEOUT, CallOptions, Thinking
from pb_graph.models.reply import Reply
from pb_graph.planner.requests import PlannerRequest, UnreadableReplyError
from pb_graph.prompts import Style, forced_answer_prompt, solver_style
from pb_graph.run.answer_type import AnswerType
from pb_graph.run.journal import Journal, JournaledClient
from pb_graph.run.models import Models, Role
from pb_graph.run.tools import MAX_ROUNDS, call_tool, without_tools
from pb_graph.settings import Context, Settings
from pb_graph.state import State
from pb_graph.types import EASY, Charge, Finish, Purpose, Query, ReportWarning, WarningCode

if TYPE_CHECKING:
    from langchain_core.messages import AIMessage, BaseMessage, MessageLikeRepresentation
    from langchain_core.tools import BaseTool

    from pb_graph.prompts import PromptMessage
    from pb_graph.types import Event

T = TypeVar("T")

_NO_CEILING = 10**9
"""Completion tokens of a question whose ceiling is not known yet."""


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


class Run:
    """The part of a run that one node sees. Every call through it is charged.

    A node that starts over has its finished calls answered as before, as long as it asks the same.

    Args:
        models: The models and the planner of the graph.
        settings: The settings of the run.
        context: The context of the run.
        options: What the graph was built with besides models and settings.
        io: The way to wait.
        state: The state that the node was given.
    """

    def __init__(  # noqa: PLR0913 -- the parts of a run
        self,
        models: Models,
        settings: Settings,
        context: Context,
        *,
        options: GraphOptions,
        io: IO,
        state: Mapping[str, Any],
    ) -> None:
        self.settings, self.options = settings, options
        self._models, self._context, self._io, self._state = models, context, io, state
        # Roles whose model failed for good in this query, and how: not asked again.
        self._disabled: dict[str, str] = {**(state.get("disabled_models") or {})}
        self._update: State = {}
        self._journal: Journal | None = None
        self._charges: list[Charge] = []
        self._warnings: list[ReportWarning] = []

    @cached_property
    def budget(self) -> Budget:
        """The account of the question: its ceiling, charged with what was billed before."""
        run, limit = self._state.get("run_id", ""), self._state.get("ceiling") or _NO_CEILING
        earlier = self._state.get("spent") or spending(self._state.get("charges", []))
        for around in accounts_in_scope():  # a run that goes on may be in a process of its own
            around.count_earlier(run, earlier)
        return open_run(None, limit=limit, run=run, earlier=earlier) or Budget(limit)

    @property
    def prices(self) -> Dollars | None:
        """The prices of the graph, else those of a budget in dollars around the run."""
        rates = (account.rate for account in accounts_in_scope())
        around = next((rate for rate in rates if isinstance(rate, Dollars)), None)
        return self.options.prices or around

    @property
    def price_key(self) -> str:
        """Return the name by which dollars around the question price the solver; else ''."""
        if not any(account.needs_input for account in accounts_in_scope()):
            return ""
        model = self._models.model_for("solver", self._context)
        return key_of(self._models.client(model, self.settings).model)

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
        return await self._ask(prompt, options, self.budget)

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
        answer_type = self.options.answer_type if closing else None
        cap = self.cap_for(budget)
        account = self.budget.open_run(cap)
        is_only_said = budget is None or self.settings.enforcement == "prompt"
        working = CallOptions(
            cap,
            purpose=purpose,
            # A budget that is only said must not show elsewhere.
            thinking=thinking or ("free" if is_only_said else "bounded"),
            # What is written while there are tools may turn out to be no answer.
            stream=stream and not self.options.tools,
            tools=self.options.tools,
        )
        lost: ModelCallError | None = None
        with account:
            reserve = account.grant(self._reserve(account, budget, closing=closing))
            try:
                prompt, reply = await self._work(prompt, working, account)
            except ModelCallError as failure:
                if failure.fatal or not account.unknown or reserve.left < 1:
                    raise
                lost, reply = failure, Reply("", "error", failure.lost[-1])
            finish: Finish = "length" if reply.finish == "length" else "stop"
            if not self._is_unfinished(reply, budget, query, closing=closing):
                return BudgetedReply(reply.text, int(account.spent), finish)
            # Of a shared budget, others that ask meanwhile leave the reserve.
            source = reserve
            if account.left >= reserve.left:
                reserve.close()
                source = account
            if source.left < 1:
                return BudgetedReply(reply.text, int(account.spent), finish)
            wishes = replace(
                working,
                cap=int(source.left),
                thinking="off",
                stream=stream,
                tools=(),
                schema=answer_type.schema if answer_type else None,
            )
            ending = forced_answer_prompt(
                without_tools(prompt), reply.text, query, is_final=closing
            )
            try:
                stated = await self._ask(ending, wishes, source)
            except ModelCallError as failure:
                if lost:
                    lost.lost += failure.lost
                    raise lost from failure
                finish = finish if reply.text else "error"  # what was paid for already is kept
                step = "" if purpose.step is None else f"sub-question {purpose.step + 1}: "
                self.warn("forced_ending_failed", f"{step}its forced ending failed. {failure}")
                return BudgetedReply(reply.text, int(account.spent), finish)
        text = stated.text or reply.text
        if closing and stated.text:  # a final answer keeps the working that led to it
            text = f"{reply.text}\n\n{stated.text}".strip()
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
        client, program = await self._client(role), self._context.planner_program
        planner = await self._io.load(self._models.planner, program)
        from pb_graph.planner.engine import ask_planner  # noqa: PLC0415 -- loads DSPy

        try:
            with use_budget(self.budget):
                return await ask_planner(
                    planner,
                    client,
                    request,
                    self.settings,
                    traced=program is not None,
                    io=self._io,
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

    async def use_tools(self, asked: Mapping[str, Any]) -> list[BaseMessage]:
        """Call the tools that a reply asks for, one after another; none twice after a restart.

        Args:
            asked: The whole message of the model as JSON.

        Returns:
            That message and the results, for the next prompt.
        """
        (message,) = messages_from_dict([dict(asked)])
        found: list[BaseMessage] = [message]
        self._journal = self._journal or Journal()
        for call in cast("AIMessage", message).tool_calls:
            key, text = await self._journal.get([call["name"], call["args"]], self._io)
            if text is None:
                text = await call_tool(self.options.tools, call, self._io)
                await self._journal.put(key, text, self._io)
            found.append(ToolMessage(text, tool_call_id=call["id"] or "", name=call["name"]))
        for broken in cast("AIMessage", message).invalid_tool_calls:  # each wants an answer
            said = f"{broken['name']} was not called: its arguments are no JSON"
            found.append(ToolMessage(said, tool_call_id=broken["id"] or "", name=broken["name"]))
        return found

    async def style(self, query: Query) -> Style:
        """Return the style in which a question is solved: a program's own, else the settings'."""
        taught = None
        if (self._context.planner_program or self._models.program) is not None:
            program = self._context.planner_program
            taught = (await self._io.load(self._models.planner, program)).teaching
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

    def cap_for(self, budget: int | None) -> int:
        """Return the tokens a request may cost: its budget if that is enforced, else the cutoff."""
        if budget is None or self.settings.enforcement == "prompt":
            return self.settings.cutoff
        return min(budget, self.settings.cutoff)

    def state_update(self, node: str, warnings: Sequence[ReportWarning]) -> State:
        """Return what the calls of a node add to the state: charges, warnings, disabled models.

        Args:
            node: The name of the node.
            warnings: The warnings that the node itself adds.
        """
        update = self._update
        if self._charges:
            update["charges"] = self._charges
        lost = sum(call["finish"] == "error" and not call["measured"] for call in self._charges)
        notes = {note["message"]: note for note in self._warnings}  # each once
        if lost:
            said = f"{lost} attempt(s) broke off without an account of their tokens; "
            said += "each may be billed up to its cap"
            notes[said] = ReportWarning(code="unknown_bill", message=said)
        if notes:
            ours = [note | {"message": f"{node}: {said}"} for said, note in notes.items()]
            update["warnings"] = [*warnings, *ours]
        return update

    async def _ask(
        self, prompt: Sequence[MessageLikeRepresentation], options: CallOptions, account: Budget
    ) -> Reply:
        """Ask the solver one thing, within an account of the question."""
        level = options.purpose.level
        role: Role = "easy" if level is not None and level <= EASY else "solver"
        client = await self._client(role)
        cap = min(options.cap, self.settings.cutoff)
        options = replace(options, cap=cap, timeout=self.settings.timeout or TIMEOUT)
        try:
            with use_budget(account):
                reply = await client.call(convert_to_messages(prompt), options, self._io)
        except ModelCallError as failure:
            # One step's refusal does not stop the others; without a server, they fare no better.
            if options.purpose.node != "solve" or failure.status is None:
                self._note_failure(role, failure)
            raise
        if options.stream and reply.message_id:
            self._update["answer_id"] = reply.message_id
        if options.stream or options.purpose.node in ("answer", "synthesize"):
            asked = replace(options, cap=reply.charge["cap"])
            effort = describe_effort(client.model, asked, self._models.cap_policy)
            if effort and "effort" not in self._update:  # that of a forced ending is no news
                self._update["effort"] = effort
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
            options = replace(options, cap=max(1, account.tokens_left()))
            try:
                paid.append(await self._ask(prompt, options, account))
            except ModelCallError as failure:  # its step is told what all of the calls cost
                failure.lost = (*(row for reply in paid for row in reply.charges), *failure.lost)
                raise
            asked = paid[-1].tool_message
            if not (asked and rounds_left and account.left > 0):
                break
            with use_budget(account):
                prompt = [*prompt, *await self.use_tools(asked)]
        return prompt, paid[-1]

    def _forces(self, budget: int | None) -> bool:
        return budget is not None and self.settings.enforcement == "force"

    def _reserve(self, account: Budget, budget: int | None, *, closing: bool) -> int:
        """Return the tokens to keep back for a forced ending.

        At most half of a small cap; two thirds for the final answer, which is what the rest was
        paid for. The smallest share (24 tokens by default) so ends in 16 tokens.
        """
        if not self._forces(budget):
            return 0
        answer_type = self.options.answer_type if closing else None
        least = max(self.settings.reserve, answer_type.reserve if answer_type else 0)
        cap = min(int(account.total), account.tokens_left())
        return min(least, cap * 2 // 3 if closing else cap // 2)

    def _is_unfinished(
        self, reply: Reply, budget: int | None, query: Query, *, closing: bool
    ) -> bool:
        """Return whether a reply is to be asked for its result."""
        forces = self._forces(budget)
        if reply.finish == "length" or not reply.text or reply.tool_message:
            return forces or bool(reply.tool_message)
        if answer_type := self.options.answer_type if closing else None:
            return answer_type.read(reply.text) is None
        return forces and closing and not is_in_form(reply.text, query["answer_format"])

    async def _client(self, role: Role) -> ModelClient:
        """Return the client of a role, which journals and records its calls.

        Raises:
            ModelCallError: The model failed for good when it was asked before.
        """
        model = self._models.model_for(role, self._context)
        for other in self._disabled:
            theirs = self._models.model_for(cast("Role", other), self._context)
            if model is theirs or (isinstance(model, str) and model == theirs):
                msg = "not asked: its model cannot be reached or used, as was found before."
                raise ModelCallError(msg, fatal=True)
        client = self._models.client_if_made(model, self.settings)
        if client is None:
            client = await self._io.load(self._models.client, model, self.settings)
        self._journal = self._journal or Journal()
        return JournaledClient(client, self._journal, self._record)

    def _record(self, charges: Sequence[Charge], warnings: Sequence[ReportWarning]) -> None:
        self._charges += charges
        self._warnings += warnings
        for charge in charges:
            self.emit({"event": "call", **charge})

    def _note_failure(self, role: Role, failure: ModelCallError) -> None:
        if isinstance(failure, BudgetUsedUpError):
            self._update["budget_used_up"] = True
        if failure.fatal:
            self._disabled[role] = str(failure)
            disabled = {**self._update.get("disabled_models", {}), role: str(failure)}
            self._update["disabled_models"] = disabled
