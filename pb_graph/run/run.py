"""Run a node: its settings, its accounts of tokens, and its model calls."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, NamedTuple

from langchain_core.messages import BaseMessage, MessageLikeRepresentation, convert_to_messages
from langgraph.config import get_config
from langgraph.constants import CONFIG_KEY_CHECKPOINTER
from langgraph.runtime import Runtime
from langgraph.types import Send

from pb_graph.answers import boxed_answer, stated_answer
from pb_graph.budget.account import ACCOUNTS, Budget, open_run, use_budget
from pb_graph.budget.bill import MAX_TOKENS, most_billed, spending, spent
from pb_graph.errors import BudgetUsedUpError, ModelCallError, ModelSetupError
from pb_graph.local.weights import LOCAL_PREFIX
from pb_graph.models.classes import FoundClass, find_class, takes_system_message
from pb_graph.models.client import ModelClient
from pb_graph.models.options import MIN_THINKING, TIMEOUT, CallOptions, Thinking, describe_model
from pb_graph.models.provider_errors import REFUSED, is_lasting
from pb_graph.models.reply import IO, MAX_THOUGHT, Reply
from pb_graph.models.resolve import model_name
from pb_graph.prompts import PromptMessage, continued_thought, forced_answer_prompt
from pb_graph.run.parts import GraphParts, Model, Role, remember
from pb_graph.run.resume import Journal
from pb_graph.run.tools import MAX_ROUNDS, use_tools, without_system, without_tools
from pb_graph.settings import Context, Settings
from pb_graph.state import State
from pb_graph.tasks import is_composed
from pb_graph.types import EASY, Finish, Purpose, Query, ReportWarning, Spending, WarningCode

Prompt = Sequence[PromptMessage | BaseMessage]


class BudgetedReply(NamedTuple):
    """An answer within its budget, with the completion tokens of all its calls."""

    text: str
    tokens: int
    finish: Finish

    def update(self) -> State:
        """Return the state update for a node whose answer is this reply."""
        return {"answer": self.text, "finish": self.finish}


@dataclass(eq=False, repr=False)
class Run:
    """The part of a run that one node sees: it charges each call, and repeats none on a restart."""

    parts: GraphParts
    settings: Settings  # of the run; a node may replace them for the nodes after it
    context: Context
    io: IO
    state: Mapping[str, Any]  # before the node, or the `SolveTask` that was sent
    limit: int | Budget | None = None  # of the context, else that of the graph
    runtime: Runtime[Any] = field(default_factory=Runtime)  # LangGraph's, of the node
    goto: str | list[Send] = ""  # the next nodes, where no edge of the graph says them
    _update: State = field(default_factory=State)
    _warnings: dict[str, WarningCode] = field(default_factory=dict)

    async def ask(self, prompt: Sequence[MessageLikeRepresentation], options: CallOptions) -> Reply:
        """Ask the solver one thing.

        Args:
            prompt: Messages, or pairs of a role and a text.
            options: Options of this call. The settings bound its cap and give its time-out.

        Raises:
            ModelCallError: If the call and its retries fail.
        """
        level, cap = options.purpose.level, min(options.cap, self.settings.cutoff)
        stream = options.stream and not options.tools  # else a text may be no answer
        options = options._replace(cap=cap, stream=stream, timeout=self.settings.timeout or TIMEOUT)
        client = await self.client("easy" if level is not None and level <= EASY else "solver")
        messages, models = convert_to_messages(prompt), client.models
        if self.settings.model_class == "thinking" and not all(map(takes_system_message, models)):
            messages = without_system(messages)
        reply = await self.call(client, messages, options)
        if options.stream and reply.message_id:
            self._update["answer_id"] = reply.message_id
        if reply.effort and (options.stream or options.purpose.node in ("answer", "synthesize")):
            self._update.setdefault("effort", reply.effort)  # of the first call
        return reply

    async def call(
        self, client: ModelClient, messages: Sequence[BaseMessage], options: CallOptions
    ) -> Reply:
        """Make one call and charge it to the question; a finished call of the node stands.

        Args:
            client: The client of a model.
            messages: The prompt.
            options: Options of this call.

        Raises:
            ModelCallError: If the call and its retries fail.
        """
        refused, asked = self.parts.refused, (self.state.get("run_id", ""), client.key)
        if asked in refused:
            msg = f"{describe_model(client.model)} was not asked again"
            raise ModelCallError(msg, refused[asked])
        key, stored = "", None
        if self.journal:
            key, stored = await self.journal.find(_request_of(messages, options))
        try:
            with use_budget(self.budget):
                reply = Reply.from_json(stored) if stored else None
                reply = reply or await client.call(messages, options, self.io)
                if self.journal and not stored:
                    await self.journal.write(key, reply.to_json())
                for account in ACCOUNTS.get() if key else ():  # perhaps in another process
                    account.charge(spending(reply.charges) if stored else {}, run=key)
        except ModelCallError as failure:
            if is_lasting(failure):
                remember(refused, asked, failure.status)
            if isinstance(failure, BudgetUsedUpError):
                self._update["budget_used_up"] = True
            self._charge(failure)
            raise
        self._warnings |= {note["message"]: note["code"] for note in reply.warnings}
        self._charge(reply)
        return reply

    async def call_within_budget(  # noqa: PLR0913 -- what to ask, for whom, within what
        self,
        prompt: Prompt,
        budget: int | None,
        query: Query,
        purpose: Purpose,
        *,
        closing: bool = True,
        thinking: Thinking | None = None,
        compute: Callable[[str, Query], str | None] | None = None,
    ) -> BudgetedReply:
        r"""Ask once. Under ``force``, keep tokens to ask for the result of an unfinished answer.

        An answer without the ``\boxed`` that its format requires also counts as unfinished.

        Args:
            prompt: The request.
            budget: Tokens for it; None for methods without a budget.
            query: The question, for the answer format of a forced ending.
            purpose: The purpose that the calls are charged to.
            closing: Whether the reply is the final answer, which is streamed, not a sub-question's.
            thinking: Limit of the model's thinking. None: by the enforcement of the budget.
            compute: Computes the answer from a reply (see `Style`). The answer is streamed whole.

        Raises:
            ModelCallError: If the request and its retries fail; a failed ending is a warning.
        """
        within, room = await self._with_room(budget)
        is_capped = within is not None and self.settings.enforcement == "force"
        forces = is_capped and self.settings.reserve != 0
        free: Thinking = "low" if self.settings.style == "paper" else "free"
        # A budget that the prompt states must not change other arguments.
        thinking = thinking or ("bounded" if is_capped else free)
        cap = max(1, min(self.cap_for(within), self.budget.tokens_left()))
        stream, tools = closing and not compute, self.parts.tools
        forced: Reply | None = None
        # Set aside, so that other questions and steps of a shared budget leave it.
        with self.budget.grant(self._reserve(cap, closing=closing) if forces else 0) as kept:
            options = CallOptions(
                cap - int(kept.left), thinking=thinking, tools=tools, purpose=purpose, stream=stream
            )
            prompt, reply, tokens, left = await self._work(prompt, options, cap, kept)
            if compute and reply.finish != "length" and (answer := compute(reply.text, query)):
                return BudgetedReply(answer, tokens, "stop")
            is_thought = room > 0 and reply.finish == "length" and _has_thought(reply)
            is_open = compute is not None and stated_answer(reply.text) is None
            is_open = is_open or self._is_unfinished(reply, query, forces=forces, closing=closing)
            if is_open and not is_thought:
                if left >= 2 * int(kept.left):  # as much is left beside it
                    kept.close()
                cap = int(kept.left) or min(left, self.budget.tokens_left())
                ending = options._replace(cap=cap, tools=())
                with use_budget(kept if kept.left else None):
                    forced = await self._force(prompt, reply, query, ending, closing=closing)
        if forced:
            tokens += forced.tokens
            # A text that is cut off twice, or closed by the mark of a thought, was a thought.
            is_thought = room > 0 and forced.finish == "length" and not stated_answer(forced.text)
            if is_thought or (forced.thought and not _has_thought(reply)):
                reply = replace(reply, text="", thought="")
        ended = _joined(reply, None if is_thought else forced, tokens, closing=closing)
        if not is_thought:
            return ended
        self.parts.replied[(await self.client("solver")).key] = True
        same: Any = {"closing": closing, "thinking": thinking, "compute": compute}
        again = await self.call_within_budget(prompt, budget, query, purpose, **same)
        return (again if again.text else ended)._replace(tokens=tokens + again.tokens)

    async def _with_room(self, budget: int | None) -> tuple[int | None, int]:
        """Return a budget, and the tokens beside it for a model that may turn out to think."""
        if not budget or not (room := self.state.get("thinking_room", 0)):
            return budget, 0
        room = max(0, min(room, int(self.budget.left) - budget))  # as far as the limit allows
        thinks = self.parts.replied.get((await self.client("solver")).key)
        return (budget + room, 0) if thinks else (budget, room)

    def _reserve(self, cap: int, *, closing: bool) -> int:
        """Return the tokens of a cap that are kept for the ending of an unfinished answer."""
        typed = self.parts.answer_type.reserve if closing and self.parts.answer_type else 0
        return min(max(self.settings.reserve or 0, typed), cap * 2 // 3 if closing else cap // 2)

    async def client(self, role: Role) -> ModelClient:
        """Return the client of the model of a role."""
        return await self.parts.client(self._model(role), self.settings, self.io)

    async def class_of(self, role: Role) -> FoundClass:
        """Return the class of the model of a role, and what told it.

        Each fallback may have to answer: among them, the class that needs the most room.
        """
        model, given = self._model(role), self.settings.model_class
        if given and (role == "solver" or model is self._model("solver")):
            return FoundClass(given, "given")
        if isinstance(model, str | None) and (name := model_name(model)).startswith(LOCAL_PREFIX):
            return find_class(name)  # without loading its weights
        found = {**(await self.client(role)).classes}
        for key, own in found.items():
            thinks = self.parts.replied.get(key)
            if thinks or (own.source == "default" and thinks is False):
                found[key] = FoundClass("thinking" if thinks else own.name, "reply")
        return max(found.values(), key=_room)

    def _model(self, role: Role) -> Model:
        """Return the model of a role; one that the run names does all the solving, or planning."""
        given, own = self.parts.models.get, self.context
        if role in ("solver", "easy"):
            return own.model or given(role) or given("solver")
        return own.planner or given(role) or given("planner") or own.model or given("solver")

    def cap_for(self, budget: int | None) -> int:
        """Return the tokens a request may cost: its budget if that is enforced, else the cutoff."""
        if budget is None or self.settings.enforcement == "prompt":
            return self.settings.cutoff
        return min(budget, self.settings.cutoff)

    def warn(self, code: WarningCode, message: str) -> None:
        """Add a warning to the report: its kind, and the deviation with its remedy."""
        self._warnings[message] = code

    def emit(self, event: str, **fields: Any) -> None:  # noqa: ANN401 -- plain JSON
        """Send an event of a kind, with its data, to hosts that stream in ``custom`` mode."""
        self.runtime.stream_writer({"event": event, **fields})

    @cached_property
    def budget(self) -> Budget:
        """The account of the question: its limit, charged with earlier spending."""
        run, limit = self.state.get("run_id", ""), self.state.get("limit") or MAX_TOKENS
        return open_run(limit=limit, run=run, earlier=self.earlier) or Budget(limit)

    @cached_property
    def earlier(self) -> Spending:
        """Tokens by model that the question was billed before this node."""
        charges = self.state.get("charges")
        return self.state.get("spent") or (spending(charges) if charges else {})

    @cached_property
    def journal(self) -> Journal | None:
        """The stored replies of this node's calls; None without a checkpointer."""
        saver = get_config()["configurable"].get(CONFIG_KEY_CHECKPOINTER)  # of the outermost graph
        info = self.runtime.execution_info
        return Journal(saver, info, self.io) if saver and info else None

    @property
    def spent(self) -> int:
        """Completion tokens of the node's calls, of failed ones as well."""
        return spent(self._update.get("charges", ()))

    def state_update(self, node: str) -> State:
        """Return the state update of a node's calls: charges and warnings."""
        charges = self._update.get("charges", ())
        if lost := sum(row["finish"] == "error" and not row["measured"] for row in charges):
            note = f"{lost} attempt(s) ended without reporting their tokens; "
            self.warn("unknown_bill", note + "each may be billed up to its cap")
        if notes := self._warnings.items():
            rows = [ReportWarning(code=code, message=f"{node}: {text}") for text, code in notes]
            self._update["warnings"] = rows
        return self._update

    async def _work(
        self, prompt: Prompt, options: CallOptions, left: int, kept: Budget
    ) -> tuple[Prompt, Reply, int, int]:
        """Ask and use tools; return the last prompt, its reply, all tokens and those left."""
        thinks = self.settings.model_class == "thinking" and options.thinking_room >= MIN_THINKING
        tokens = 0
        for rounds in range(MAX_ROUNDS + 1):
            try:
                reply = await self.ask(prompt, options)
            except BudgetUsedUpError:
                if kept.left < 1:
                    raise
                kept.close()  # the prompt may fit into the budget once, but not twice
                reply = await self.ask(prompt, options._replace(cap=max(1, left)))
            charges = reply.charges
            tokens, left = tokens + spent(charges), left - most_billed(charges)
            if not reply.tool_message or rounds == MAX_ROUNDS:
                break
            if (unspent := left - int(kept.left)) < 1:
                break
            account = self.budget.limit(tokens=unspent)
            with use_budget(account):
                found = await use_tools(reply.tool_message, options.tools, self.journal, self.io)
            prompt, used = [*prompt, *found], int(account.spent + account.unknown)
            tokens, left = tokens + int(account.spent), left - used
            options = options._replace(cap=max(1, unspent - used))
        if reply.finish == "filter":
            note = "the provider's content filter ended a reply"
            self.warn("content_filter", f"{note}: change the question or the model")
        if thinks and reply.finish == "length" and not _has_thought(reply):
            reply = replace(reply, text="", thought=reply.text[-MAX_THOUGHT:])  # cut off within it
        return prompt, reply, tokens, left

    async def _force(
        self, prompt: Prompt, reply: Reply, query: Query, options: CallOptions, *, closing: bool
    ) -> Reply | None:
        """Ask for the result of an unfinished reply; None without a cap, or if that fails."""
        if options.cap < 1:
            return None
        prompt = without_tools(prompt, shortened=bool(reply.text))
        schema = self.parts.answer_type.schema if closing and self.parts.answer_type else None
        options = options._replace(thinking="off", schema=schema)
        thought = reply.thought if self.settings.model_class == "thinking" else ""
        asked = forced_answer_prompt(prompt, reply.text, query, is_final=closing, thought=thought)
        try:
            if thought and not reply.text and not schema:  # goes on with the thought
                begun, start = continued_thought(prompt, thought, query, is_final=closing)
                try:
                    ended = await self.ask(begun, options._replace(continue_last=True))
                    return replace(ended, text=start + ended.text)
                except (ModelSetupError, ModelCallError) as failure:  # the server cannot continue
                    if isinstance(failure, ModelCallError) and failure.status not in REFUSED:
                        raise
            return await self.ask(asked, options)
        except ModelCallError as failure:
            at = options.purpose.step
            step = "" if at is None else f"sub-question {at + 1}: "
            self.warn(failure.code, f"{step}the call for its result failed. {failure}")
            return None

    def _is_unfinished(self, reply: Reply, query: Query, *, forces: bool, closing: bool) -> bool:
        is_cut = reply.finish == "length" and not is_composed(query)  # a text stays as it is
        if is_cut or not reply.text or reply.tool_message:
            return forces or bool(reply.tool_message)
        if closing and self.parts.answer_type:
            return self.parts.answer_type.read(reply.text) is None
        wants_box = r"\boxed" in (query["answer_format"] or "")
        return forces and closing and wants_box and boxed_answer(reply.text) is None

    def _charge(self, call: Reply | ModelCallError) -> None:
        """Charge the attempts of a call to the question, and send a progress event for each."""
        for charge in (*call.lost, call.charge) if isinstance(call, Reply) else call.lost:
            self._update.setdefault("charges", []).append(charge)
            thought = bool(charge["usage"]["output_token_details"].get("reasoning"))
            if thought or charge["finish"] == "stop":
                self.parts.replied[charge["model"]] = thought
            self.emit("call", **charge)


def _request_of(messages: Sequence[BaseMessage], options: CallOptions) -> list[Any]:
    """Return what tells a call from the other calls of a node, as plain JSON."""
    purpose, names = options.purpose, [tool.name for tool in options.tools]
    request: list[Any] = [options.thinking, options.schema, options.sampling]
    request += [options.continue_last, purpose.node, purpose.step, *names]
    return [*request, *((message.type, message.content) for message in messages)]


def _has_thought(reply: Reply) -> bool:
    return bool(reply.thought or reply.charge["usage"]["output_token_details"].get("reasoning"))


def _joined(reply: Reply, forced: Reply | None, tokens: int, *, closing: bool) -> BudgetedReply:
    """Return a reply with its forced ending; a final answer keeps the working that led to it."""
    finish: Finish = "length" if reply.finish == "length" else "stop"
    has_ended = finish == "stop" and not reply.tool_message
    if forced is None or not forced.text:
        # A model that ended by itself and never closed its thought has answered in it.
        return BudgetedReply(reply.text or (reply.thought if has_ended else ""), tokens, finish)
    text = f"{reply.text}\n\n{forced.text}".strip() if closing else forced.text
    return BudgetedReply(text, tokens, finish if has_ended and reply.text else "forced")


def _room(found: FoundClass) -> tuple[bool, ...]:
    return found.name == "thinking", found.source == "default", found.name == "large"
