"""The tasks of Plan-and-Budget for Inspect: ``inspect eval plan_and_budget/math500 --model ...``.

One for each data set of `optim`, with the options of `plan_and_budget.tasks` under ``-T``. Inspect
calls tasks by the distribution that they are installed with, hence this package; the programs are
`pb_graph` and `optim`.
"""

from __future__ import annotations

from plan_and_budget.tasks import TASKS

__all__ = ["TASKS"]
