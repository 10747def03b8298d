"""Ways to answer a question, one small file each: the names that ``Settings.method`` takes.

Every module of this folder is imported here, so that a new file with a function under `method` is
all that a new way takes: settings, their JSON schema, help texts and error messages list it. A
function is one of two kinds, told apart by ``async``:

A prompt. It gives the turns to send; the ``answer`` node sends them once, within the budget if the
method has one, and streams the reply::

    @method("tidy", "Asks for a tidy answer.", source=OURS)
    def tidy(asked: Asked) -> list[Turn]:
        return [system(asked.query), ("human", problem(asked.query, show_level=False))]

Several calls. An ordinary coroutine that asks the model through ``run`` and gives what the
``answer`` node adds to the state, ``answer`` at least, how it ended and its ``warnings``::

    @method("twice", "Asks, and asks again.", source=OURS, ceiling=lambda s, _: 2 * s.cutoff)
    async def twice(asked: Asked, run: NodeContext) -> State:
        draft = await run.calls.solver(..., cap, Purpose("answer"))
        reply = await run.call_within_budget(..., asked.budget, asked.query, Purpose("answer"))
        return reply.update()

Whatever ``run`` asks is charged to the ledger. A `ModelCallError` that a method lets pass ends in
an empty answer and a warning. Before the answer, the graph does what the description says:
``plans`` (decompose), ``budgets`` (a total by the level), ``splits`` (shares of it for the
sub-questions). ``ceiling`` is the most that all calls can cost together where no budget bounds
them; a method that learns of a lower bound before it solves writes ``ceiling`` itself.

The functions get plain data and ``run``, so that nothing of LangChain is imported here and
`Settings` stay quick to load.
"""

from __future__ import annotations

from importlib import import_module
from pkgutil import iter_modules

from pb_graph.methods.registry import METHODS, OURS, PAPER, Asked, Method, known_method, method

__all__ = ["METHODS", "OURS", "PAPER", "Asked", "Method", "known_method", "method"]

for _module in iter_modules(__path__, f"{__name__}."):
    import_module(_module.name)
