"""A limit in dollars for each day or month, kept in SQLite over restarts."""

from __future__ import annotations

import json
import math
import sqlite3
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Literal

from starlette.exceptions import HTTPException

from pb_graph.budget.account import Budget
from pb_graph.budget.rates import Prices
from pb_graph.budget.scope import use_budget
from pb_graph.errors import NoAnswerError

Period = Literal["day", "month"]


class Allowance:
    """Dollars that the questions of one process may cost in each period, by the clock of UTC.

    The cost of a question is written down when it ends, also when it fails or is cancelled. A
    question that is under way when the process is killed is missing.

    Args:
        usd: Dollars.
        period: The time after which as many dollars may be spent again.
        file: The SQLite database of the spending; it is made if there is none.
        prices: As in `Budget`.
        now: The clock.
    """

    def __init__(
        self,
        usd: float,
        period: Period,
        file: str | Path,
        prices: Prices | Literal["auto"] = "auto",
        now: Callable[[], datetime] = lambda: datetime.now(UTC),
    ) -> None:
        self._usd, self._prices, self._period, self._now = usd, prices, period, now
        self._file = sqlite3.connect(file, check_same_thread=False, isolation_level=None)
        self._file.execute("CREATE TABLE IF NOT EXISTS questions (start TEXT, spending TEXT)")
        self._start, self._budget = "", Budget(usd=usd, prices=prices)

    @contextmanager
    def question(self) -> Iterator[None]:
        """Let the calls of one question draw on what is left of the period.

        Raises:
            HTTPException: With status 429: too little is left, before the question or within it.
        """
        budget, start = self._open_period(), self._start
        if budget.spent + budget.unknown >= budget.total:
            raise self._used_up()
        account = budget.limit()
        try:
            with use_budget(account):
                yield
        except NoAnswerError as error:  # its calls were refused: the budget's error says which one
            if f"the budget of {budget.rate.text(budget.total)}" in str(error):
                raise self._used_up() from error
            raise
        finally:
            row = (start, json.dumps(account.spending))
            self._file.execute("INSERT INTO questions VALUES (?, ?)", row)

    def _open_period(self) -> Budget:
        """Return the budget of the period that it is now."""
        if (start := self._bounds()[0].isoformat()) != self._start:
            self._start, self._budget = start, Budget(usd=self._usd, prices=self._prices)
            self._file.execute("DELETE FROM questions WHERE start <> ?", (start,))
            for (spending,) in self._file.execute("SELECT spending FROM questions").fetchall():
                self._budget.charge(json.loads(spending))
        return self._budget

    def _bounds(self) -> tuple[datetime, datetime]:
        """Return the start and the end of the period that it is now."""
        day = self._now().replace(hour=0, minute=0, second=0, microsecond=0)
        if self._period == "day":
            return day, day + timedelta(days=1)
        month = day.replace(day=1)
        return month, (month + timedelta(days=32)).replace(day=1)

    def _used_up(self) -> HTTPException:
        end = self._bounds()[1]
        said = f"The budget of ${self._usd:g} per {self._period} is used up. "
        said += f"Ask again after {end:%Y-%m-%d %H:%M} UTC."
        seconds = str(math.ceil((end - self._now()).total_seconds()))
        return HTTPException(429, said, {"Retry-After": seconds, "x-should-retry": "false"})
