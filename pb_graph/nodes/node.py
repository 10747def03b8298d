"""A node is written once, as a generator of model calls, and runs both sync and async.

The generator yields what it wants from a model and is sent the reply, or has the error thrown into
it. It never touches a model itself, so its logic needs no second, ``async`` copy, and whatever a
call was charged is put into the ledger here: no node can forget it.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from langchain_core.runnables import RunnableLambda
from langgraph.config import get_stream_writer
from langgraph.runtime import get_runtime

from pb_graph.budget.ledger import Charge
from pb_graph.models.client import Purpose, Reply
from pb_graph.settings import Context, Settings

if TYPE_CHECKING:
    from langchain_core.messages import BaseMessage
    from langchain_core.runnables import Runnable

    from pb_graph.nodes.staff import Staff
    from pb_graph.planner.consultation import Consultation, Opinion

Update = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Say:
    """Ask the solver one thing, within a cap. The reply is a `Reply`."""

    messages: list[BaseMessage]
    cap: int
    purpose: Purpose


@dataclass(frozen=True, slots=True)
class Ask:
    """Ask the planner one thing. The reply is an `Opinion`."""

    consultation: Consultation


Steps = Generator["Say | Ask", Any, Update]
NodeFunction = Callable[[Any, "Run"], Steps]


@dataclass(frozen=True, slots=True)
class Run:
    """What a node may know besides the state: the settings, the context, and who listens."""

    settings: Settings
    context: Context
    staff: Staff

    def tell(self, event: str, **details: object) -> None:
        """Send a progress event to whoever streams in ``custom`` mode."""
        get_stream_writer()({"event": event, **details})


def node(function: NodeFunction, staff: Staff) -> Runnable[Any, Update]:
    """Make a graph node out of a generator function."""

    def run_sync(state: Mapping[str, Any]) -> Update:
        return _drive(function, state, _run(state, staff))

    async def run_async(state: Mapping[str, Any]) -> Update:
        return await _adrive(function, state, _run(state, staff))

    name = function.__name__
    return RunnableLambda(run_sync, run_async, name=name)


def _run(state: Mapping[str, Any], staff: Staff) -> Run:
    context = Context.resolve(get_runtime().context)
    stored = state.get("settings")
    settings = Settings.model_validate(stored) if stored else context.settings_over(staff.settings)
    return Run(settings, context, staff)


def _drive(function: NodeFunction, state: Mapping[str, Any], run: Run) -> Update:
    steps = function(state, run)
    charges: list[Charge] = []
    try:
        wish = next(steps)
        while True:
            try:
                reply = run.staff.serve(wish, run)
            except Exception as error:  # noqa: BLE001 -- the node decides what an error means
                charges += _noted(error, run)
                wish = steps.throw(error)
            else:
                charges += _noted(reply, run)
                wish = steps.send(reply)
    except StopIteration as stop:
        return _charged(stop.value, charges)


async def _adrive(function: NodeFunction, state: Mapping[str, Any], run: Run) -> Update:
    steps = function(state, run)
    charges: list[Charge] = []
    try:
        wish = next(steps)
        while True:
            try:
                reply = await run.staff.aserve(wish, run)
            except Exception as error:  # noqa: BLE001 -- the node decides what an error means
                charges += _noted(error, run)
                wish = steps.throw(error)
            else:
                charges += _noted(reply, run)
                wish = steps.send(reply)
    except StopIteration as stop:
        return _charged(stop.value, charges)


def _noted(outcome: Reply | Opinion | Exception, run: Run) -> list[Charge]:
    """What a call, or the calls below a planner's opinion or its failure, were charged."""
    replies = [outcome] if isinstance(outcome, Reply) else getattr(outcome, "replies", [])
    charges = [reply.charge for reply in replies]
    for charge in charges:
        run.tell("call", **charge)
    return charges


def _charged(update: Update, charges: list[Charge]) -> Update:
    return update | {"charges": charges} if charges else update
