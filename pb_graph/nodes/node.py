"""A node is written once, as a generator of model calls, and runs both sync and async.

The generator yields what it wants from a model and is sent the reply, or has the error thrown into
it. It never touches a model itself, so its logic needs no second, ``async`` copy, and whatever a
call was charged is put into the ledger here: no node can forget it. A node that is cut off and
starts over is sent the outcomes that were kept, and goes on with the first call that is missing.
"""

from __future__ import annotations

from collections.abc import Generator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from langchain_core.runnables import Runnable
from langgraph.runtime import get_runtime

from pb_graph.errors import ModelCallError
from pb_graph.models.reply import Reply
from pb_graph.nodes.contract import Ask, NodeFunction, Run, Say, Update
from pb_graph.nodes.kept import Kept
from pb_graph.nodes.voice import Voice
from pb_graph.settings import Context, Settings

if TYPE_CHECKING:
    from langchain_core.runnables import RunnableConfig

    from pb_graph.budget.ledger import Charge
    from pb_graph.models.aloud import Hears
    from pb_graph.nodes.staff import Staff
    from pb_graph.planner.consultation import Opinion

    Outcome = Reply | Opinion | Exception
    Talk = Generator[Say | Ask, Outcome, Update]


class Node(Runnable[Any, Update]):
    """A graph node made of a generator function.

    LangGraph starts the node's run and sets its context; a ``RunnableLambda`` would do both again,
    and look at its function's signature, at every call.
    """

    def __init__(self, function: NodeFunction, staff: Staff, *, opens: bool = False) -> None:
        """Take the function, and who serves it.

        Args:
            function: The node.
            staff: Serves its wishes.
            opens: Whether it is the first node. That one goes by the graph's settings and the
                run's context; the others go by what it then wrote into the state, so that a query
                that is resumed keeps the settings it began with.
        """
        self.name = function.__name__
        self._function, self._staff, self._opens = function, staff, opens

    def invoke(
        self,
        input: Any,  # noqa: A002, ANN401 -- LangChain's name; the state
        config: RunnableConfig | None = None,  # noqa: ARG002 -- is the context's, too
        **_: Any,  # noqa: ANN401
    ) -> Update:
        """What the node adds to the state."""
        run = self._run_of(input)
        return _run(_talk(self._function, input, run), self._staff, run)

    async def ainvoke(
        self,
        input: Any,  # noqa: A002, ANN401
        config: RunnableConfig | None = None,  # noqa: ARG002
        **_: Any,  # noqa: ANN401
    ) -> Update:
        """What the node adds to the state."""
        run = self._run_of(input)
        return await _arun(_talk(self._function, input, run), self._staff, run)

    def _run_of(self, state: Mapping[str, Any]) -> Run:
        context = Context.resolve(get_runtime().context)
        if self._opens:
            return Run(context.settings_over(self._staff.settings), context)
        return Run(Settings.model_validate(state["settings"]), context)


def _run(talk: Talk, staff: Staff, run: Run) -> Update:
    voice = Voice()
    try:
        wish, kept = next(talk), Kept()
        for outcome in kept.read():
            voice.settle(wish, outcome)
            wish = talk.send(outcome)
        while True:
            made = _served(staff, wish, run, voice.hears(wish))
            voice.settle(wish, made)
            wish = talk.send(made)
            kept.write(made)
    except StopIteration as stop:
        return dict(stop.value) | voice.note()


async def _arun(talk: Talk, staff: Staff, run: Run) -> Update:
    voice = Voice()
    try:
        wish, kept = next(talk), Kept()
        for outcome in await kept.aread():
            voice.settle(wish, outcome)
            wish = talk.send(outcome)
        while True:
            made = await _aserved(staff, wish, run, voice.hears(wish))
            voice.settle(wish, made)
            wish = talk.send(made)
            await kept.awrite(made)
    except StopIteration as stop:
        return dict(stop.value) | voice.note()


def _talk(function: NodeFunction, state: Mapping[str, Any], run: Run) -> Talk:
    """Pass a node's wishes on and the outcomes back, and note in the ledger what they cost."""
    steps = function(state, run)
    charges: list[Charge] = []
    try:
        wish = next(steps)
        while True:
            outcome = yield wish
            charges += _noted(outcome, run)
            if isinstance(outcome, Exception):
                wish = steps.throw(outcome)
                continue
            wish = steps.send(outcome)
    except StopIteration as stop:
        update: Update = stop.value
        return update | _accounted(charges, function.__name__, update.get("warnings", []))


def _served(staff: Staff, wish: Say | Ask, run: Run, hears: Hears | None) -> Outcome:
    try:
        return staff.serve(wish, run, hears)
    except Exception as error:  # noqa: BLE001 -- the node decides what an error means
        return error


async def _aserved(staff: Staff, wish: Say | Ask, run: Run, hears: Hears | None) -> Outcome:
    try:
        return await staff.aserve(wish, run, hears)
    except Exception as error:  # noqa: BLE001 -- the node decides what an error means
        return error


def _noted(outcome: Outcome, run: Run) -> list[Charge]:
    """What a call, or the calls below a planner's opinion or its failure, were charged."""
    replies = [outcome] if isinstance(outcome, Reply) else getattr(outcome, "replies", [])
    charges: list[Charge] = [charge for reply in replies for charge in (*reply.lost, reply.charge)]
    if isinstance(outcome, ModelCallError):
        charges += outcome.lost
    for charge in charges:
        run.tell({"event": "call", **charge})
    return charges


def _accounted(charges: Sequence[Charge], name: str, warnings: list[str]) -> Update:
    """The charges, and a warning for attempts that the provider may charge for unseen."""
    if not charges:
        return {}
    unseen = sum(charge["finish"] == "error" and not charge["measured"] for charge in charges)
    if not unseen:
        return {"charges": charges}
    note = f"{name}: {unseen} attempt(s) broke off without an account of their tokens, which are "
    return {"charges": charges, "warnings": [*warnings, note + "not counted here"]}
