"""A node's model calls: made, charged, kept for a restart, and shown while they are written."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import TYPE_CHECKING, Any, TypeVar, cast

from langchain_core.messages import ToolMessage, convert_to_messages, messages_from_dict
from langgraph.config import get_stream_writer

from pb_graph.budget.context import accounts_in_scope, current_budget, use_budget
from pb_graph.errors import InputError, ModelCallError
from pb_graph.models.io import AsyncIO, BlockingIO
from pb_graph.models.options import CallOptions
from pb_graph.models.reply import Reply
from pb_graph.planner.requests import PlannerReply, PlannerRequest, UnreadableReplyError
from pb_graph.runtime.journal import CallJournal, Outcome, decode, tokens_in
from pb_graph.runtime.tools import result_of

if TYPE_CHECKING:
    from langchain_core.messages import AIMessage, BaseMessage, MessageLikeRepresentation
    from langchain_core.tools import BaseTool

    from pb_graph.budget.account import Budget
    from pb_graph.events import Event
    from pb_graph.models.client import ModelClient
    from pb_graph.models.options import Thinking
    from pb_graph.planner.planner import Planner
    from pb_graph.prompts import Style
    from pb_graph.runtime.registry import ModelRegistry, Program, Role
    from pb_graph.settings import Context, Settings
    from pb_graph.state import State
    from pb_graph.types import Charge, Purpose

T = TypeVar("T")
P = TypeVar("P")


class ModelCalls:
    """The only way in which a node calls a model. Whatever a call costs gets into the ledger.

    A node that is cut off and starts over has its finished calls answered as before, as long as it
    asks the same; the first one that is missing is made again.

    Args:
        registry: Has the models and the planner.
        settings: Of this run.
        context: Of this run.
        blocking: Whether calls block; then nothing that is awaited here ever suspends.
        unusable: Roles whose model has failed for good in this query, and how: not asked again.
    """

    def __init__(
        self,
        registry: ModelRegistry,
        settings: Settings,
        context: Context,
        *,
        blocking: bool,
        unusable: Mapping[str, str],
    ) -> None:
        self._registry, self._settings, self._context = registry, settings, context
        self._blocking = blocking
        self._unusable, self._found_unusable = dict(unusable), dict[str, str]()
        self._journal: CallJournal | None = None
        self._io = BlockingIO() if blocking else AsyncIO()
        self._answer_id: str | None = None
        self._charges: list[Charge] = []
        self._doubts: list[str] = []

    async def solver(  # noqa: PLR0913 -- what to ask, and how
        self,
        prompt: Sequence[MessageLikeRepresentation],
        cap: int,
        purpose: Purpose,
        *,
        thinking: Thinking = "bounded",
        stream: bool = False,
        schema: dict[str, Any] | None = None,
        tools: tuple[BaseTool, ...] = (),
        sampled: bool = False,
        continues: bool = False,
    ) -> Reply:
        """Ask the solver one thing.

        Args:
            prompt: Messages, or turns of a role and a text.
            cap: Completion tokens; never more than ``Settings.cutoff``.
            purpose: What it is charged to.
            thinking: Whether the cap is a budget that thinking has to fit into.
            stream: Whether the reply is part of the final answer, which a host may stream.
            schema: What the reply has to follow, where the server can see to it.
            tools: What the model may call.
            sampled: Whether the reply is one of several that are to differ.
            continues: Whether it is a piece of a text, which a last turn of the model's begins.

        Raises:
            ModelCallError: The call failed for good.
            ModelSetupError: There is no model to call.
        """
        settings = self._settings
        options = CallOptions(
            min(cap, settings.cutoff),
            settings.call_timeout,
            schema,
            thinking,
            tools,
            purpose=purpose,
            sampling=sampled,
            continue_last=continues,
            stream=stream,
        )
        role: Role = "easy" if purpose.is_easy else "solver"
        self._check_usable(role)
        messages = convert_to_messages(prompt)
        said = [(message.type, message.content) for message in messages]
        name, kept = await self._begin([said, options.cap, thinking, purpose.node, purpose.step])
        try:
            if kept is not None:
                reply: Reply = decode(kept)
            else:
                client = await self._client(role)
                reply = await client.call(messages, options, self._io)
        except ModelCallError as failure:
            self._end(name, failure, lost=failure.lost)
            # One step's refusal does not stop the others; without a server, they fare no better.
            if purpose.node != "solve" or failure.status is None:
                self._note_unusable(role, failure)
            raise
        self._end(name, reply, [reply])
        if stream:
            self._answer_id = reply.message_id
        return reply

    async def use_tools(
        self, tools: Sequence[BaseTool], asked: Mapping[str, Any]
    ) -> list[BaseMessage]:
        """Call the tools that a reply asks for, one after another; none twice after a restart.

        Returns:
            That message and the results, for the next prompt.
        """
        (message,) = messages_from_dict([dict(asked)])
        found: list[BaseMessage] = [message]
        for call in cast("AIMessage", message).tool_calls:
            name, kept = await self._begin(["tool", call["name"], call["args"]])
            text = (
                str(decode(kept))
                if kept is not None
                else await result_of(tools, call, blocking=self._blocking)
            )
            self._end(name, text, [])
            found.append(ToolMessage(text, tool_call_id=call["id"] or "", name=call["name"]))
        for broken in cast("AIMessage", message).invalid_tool_calls:  # each wants an answer
            said = f"{broken['name']} was not called: its arguments are no JSON"
            found.append(ToolMessage(said, tool_call_id=broken["id"] or "", name=broken["name"]))
        return found

    async def planner(self, request: PlannerRequest[T]) -> PlannerReply[T]:
        """Ask the planner one thing.

        Raises:
            ModelCallError: The call failed for good.
            ModelSetupError: There is no model to call.
            UnreadableReplyError: The reply could not be used.
        """
        role: Role = "estimator" if request.node == "estimate" else "planner"
        self._check_usable(role)
        name, kept = await self._begin([request.predictor, request.inputs, request.form])
        try:
            if kept is not None:
                reply: PlannerReply[T] = decode(kept, request.answer)
            else:
                around = current_budget()  # of which planning leaves half for solving
                half: AbstractContextManager[Budget | None] = (
                    around.limit(around.left_after_pending // 2) if around else nullcontext()
                )
                with half as within, use_budget(within):
                    reply = await self._asked(request, role)
        except ModelCallError as failure:
            self._end(name, failure, lost=failure.lost)
            self._note_unusable(role, failure)
            raise
        except UnreadableReplyError as unreadable:
            self._end(name, unreadable, unreadable.replies)
            raise
        self._end(name, reply, reply.replies)
        return reply

    async def planner_with_repair(self, request: PlannerRequest[T]) -> tuple[T | None, list[str]]:
        """Ask the planner; when the reply cannot be read, say why and ask once more.

        Returns:
            The value, or None when there is none to be had, and what to put into the warnings.
        """
        what = request.node
        try:
            try:
                return (await self.planner(request)).value, []
            except UnreadableReplyError as unreadable:
                complaint = str(unreadable)
            again = await self.planner(request.corrected(complaint))
        except UnreadableReplyError as unreadable:
            return None, [f"{what}: two replies could not be read ({unreadable}); going on without"]
        except ModelCallError as failure:
            return None, [f"{what}: {failure} Going on without."]
        return again.value, [f"{what}: the first reply could not be read ({complaint})"]

    async def teaching(self) -> Style | None:
        """What the run's program tells the solver; None where there is none, or not for that.

        Raises:
            PlannerProgramError: The program does not fit, or cannot be read.
        """
        program = self._registry.program(self._context)
        return None if program is None else (await self._planner(program)).teaching

    async def thinks_regardless(self) -> bool:
        """Whether the solver has been found to think where it was asked to answer at once."""
        return (await self._client("solver")).ignores_thinking_off

    async def check_media(self, media: Sequence[Mapping[str, Any]]) -> None:
        """See that the solver takes images, sound or film, as far as LangChain's profile knows.

        Raises:
            InputError: It takes none.
        """
        if not media:
            return
        client = await self._client("solver")
        profile: Any = getattr(client.model, "profile", None) or {}
        for kind in ("image", "audio", "video"):
            wanted = any(kind in str(block["type"]) for block in media)
            if wanted and profile.get(f"{kind}_inputs") is False:
                msg = f"{client.name} takes no {kind}: give one that does as the model."
                raise InputError(msg)

    def account(self, node: str, warnings: Sequence[str]) -> State:
        """For the state: the charges of all calls, and the id under which the answer was shown.

        A warning is added for attempts that the provider may charge for unseen.
        """
        update: State = {"answer_id": self._answer_id} if self._answer_id else {}
        if self._found_unusable:
            update["unusable"] = self._found_unusable
        if self._charges:
            update["charges"] = self._charges
        unseen = sum(call["finish"] == "error" and not call["measured"] for call in self._charges)
        notes = [f"{node}: {doubt}" for doubt in dict.fromkeys(self._doubts)]
        if unseen:
            note = f"{node}: {unseen} attempt(s) broke off without an account of their tokens; "
            notes.append(note + "each may be billed up to its cap")
        if notes:
            update["warnings"] = [*warnings, *notes]
        return update

    async def _asked(self, request: PlannerRequest[T], role: Role) -> PlannerReply[T]:
        client = await self._client(role)
        program = self._context.planner_program
        planner = await self._planner(program)
        from pb_graph.planner.engine import ask_planner  # noqa: PLC0415 -- loads DSPy, as the planner

        return await ask_planner(
            planner,
            client,
            request,
            self._settings,
            traced=program is not None,
            io=self._io,
        )

    async def _planner(self, program: Program | None) -> Planner:
        planner = self._registry.planner_at_hand(program)
        if planner is None:
            planner = await self._loaded(self._registry.load_planner, program)
        return planner

    def _check_usable(self, role: Role) -> None:
        """Raise ModelCallError for a model that failed for good when it was asked before."""
        mine = self._registry.model_for(role, self._context)
        for other in self._unusable | self._found_unusable:
            theirs = self._registry.model_for(cast("Role", other), self._context)
            if mine is theirs or (isinstance(mine, str) and mine == theirs):
                msg = "not asked: its model cannot be reached or used, as was found before."
                raise ModelCallError(msg, fatal=True)

    def _note_unusable(self, role: Role, failure: ModelCallError) -> None:
        if failure.fatal:
            self._found_unusable[role] = str(failure)

    async def _client(self, role: Role) -> ModelClient:
        model = self._registry.model_for(role, self._context)
        client = self._registry.client_at_hand(model, self._settings)
        if client is None:
            client = await self._loaded(self._registry.client, model, self._settings)
        return client

    async def _loaded(self, load: Callable[..., P], *given: object) -> P:
        """What is loaded first, in a thread where an event loop would stand still for it."""
        return load(*given) if self._blocking else await asyncio.to_thread(load, *given)

    async def _begin(self, asked: list[object]) -> tuple[str, Any]:
        self._journal = self._journal or CallJournal(blocking=self._blocking)
        name, kept = await self._journal.next_call(asked)
        if kept is not None:  # another process may have made it
            for account in accounts_in_scope():
                account.count_earlier(name, tokens_in(kept))
        return name, kept

    def _end(
        self,
        name: str,
        outcome: Outcome,
        replies: Sequence[Reply] = (),
        lost: Sequence[Charge] = (),
    ) -> None:
        assert self._journal  # noqa: S101 -- begun above
        self._journal.keep(name, outcome)
        charges = [*lost, *(charge for reply in replies for charge in (*reply.lost, reply.charge))]
        self._charges += charges
        self._doubts += [warning for reply in replies for warning in reply.warnings]
        for charge in charges:
            tell({"event": "call", **charge})


def tell(event: Event) -> None:
    """Send a progress event to whoever streams in ``custom`` mode."""
    get_stream_writer()(event)
