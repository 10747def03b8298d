"""Reserving the worst case against reserving what such calls have needed, among siblings at once.

    python tests/benchmarks/starving.py

Eight siblings make four calls each, one after the other, under one real `Budget`; a call takes a
second for 50 tokens, by a clock that jumps. Most calls are short: the median is 120 tokens, and
one in twenty needs 400 to 1,500. Each row is the mean of 200 runs: answers of the 32 that were
wanted, calls that found nothing left, answers that stay cut off, seconds, the part of the budget
that was spent, and the part that lay reserved and unused while calls were under way.
"""
# ruff: noqa: S311 -- no secrets

import asyncio
import random
import statistics
import sys
from collections.abc import Awaitable, Callable
from dataclasses import astuple, dataclass, field
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[2]))
from pb_graph import Budget, BudgetUsedUpError

SIBLINGS, CALLS, LIMIT, FLOOR, SPEED = 8, 4, 1500, 64, 50
AGAIN = 20  # tokens with which a continued answer finds its thread again


class JumpingClock(asyncio.SelectorEventLoop):
    """An event loop whose time jumps to the next timer when nothing else is to be done."""

    now = 0.0

    def time(self) -> float:
        return self.now

    def _run_once(self) -> None:
        loop: Any = self
        if not loop._ready and loop._scheduled:
            self.now = max(self.now, loop._scheduled[0]._when)
        super()._run_once()  # type: ignore[misc]


@dataclass
class Outcome:
    """What came of one run."""

    answers: float = 0
    refused: float = 0
    cut: float = 0
    seconds: float = 0
    used: float = 0
    idle: float = 0


@dataclass
class Run:
    """One budget, and what its calls needed so far."""

    budget: Budget
    chance: random.Random
    seen: list[int] = field(default_factory=list)
    outcome: Outcome = field(default_factory=Outcome)

    async def call(self, need: int, cap: int, at_least: int, account: Budget) -> int:
        """Make one call; return the tokens that are missing."""
        with await account.areserve(cap, wait_for=at_least) as call:
            tokens = min(need, call.tokens)
            await asyncio.sleep(tokens / SPEED)
            self.outcome.idle += (call.tokens - tokens) * tokens / SPEED
            call.settle(tokens)
        return need - tokens

    def quantile(self) -> int:
        """Return the 95th percentile of the calls so far, once there are eight of them."""
        known = sorted(self.seen)
        return max(FLOOR, known[int(0.95 * len(known))]) if len(known) >= SIBLINGS else LIMIT // 4


Policy = Callable[[Run, int, Budget], Awaitable[int]]


async def worst_case(run: Run, need: int, account: Budget) -> int:
    return await run.call(need, LIMIT, FLOOR, account)


async def worst_case_waiting(run: Run, need: int, account: Budget) -> int:
    return await run.call(need, LIMIT, LIMIT, account)


async def percentile(run: Run, need: int, account: Budget) -> int:
    """Reserve what such calls have needed, and go on where one was cut off."""
    whole = need
    while need > 0:
        cap = run.quantile()
        try:
            missing = await run.call(need, cap, min(FLOOR, cap), account)
        except BudgetUsedUpError:
            if need == whole:
                raise
            return need
        need = missing + (AGAIN if missing else 0)
    run.seen.append(whole)
    return 0


POLICIES: dict[str, tuple[Policy, bool]] = {
    "worst case, of all that is left": (worst_case, False),
    "worst case, waiting for it": (worst_case_waiting, False),
    "equal parts (the middleware)": (worst_case, True),
    "95th percentile, continued": (percentile, False),
    "95th percentile in equal parts": (percentile, True),
}


async def play(policy: Policy, run: Run, *, in_parts: bool) -> Outcome:
    async def sibling(account: Budget) -> None:
        for _ in range(CALLS):
            is_long = run.chance.random() < 0.05
            need = run.chance.randrange(400, LIMIT) if is_long else run.chance.randrange(40, 200)
            try:
                run.outcome.cut += (await policy(run, need, account)) > 0
                run.outcome.answers += 1
            except BudgetUsedUpError:
                run.outcome.refused += 1

    whole = run.budget
    part = int(whole.total) // SIBLINGS
    accounts = [whole.limit(part) if in_parts else whole for _ in range(SIBLINGS)]
    await asyncio.gather(*map(sibling, accounts))
    outcome, seconds = run.outcome, asyncio.get_running_loop().time()
    outcome.answers -= outcome.cut
    outcome.seconds, outcome.used = seconds, whole.spent / whole.total
    outcome.idle /= whole.total * seconds
    return outcome


def main() -> None:
    for total in (2500, 5000, 10_000):
        print(f"\n| budget {total} | answers | refused | cut | seconds | used | idle |")
        print(f"|{'---|' * 7}")
        for name, (policy, in_parts) in POLICIES.items():
            rows = []
            for seed in range(200):
                run = Run(Budget(total), random.Random(seed))
                with asyncio.Runner(loop_factory=JumpingClock) as runner:
                    rows.append(astuple(runner.run(play(policy, run, in_parts=in_parts))))
            answers, refused, cut, seconds, used, idle = map(
                statistics.fmean, zip(*rows, strict=True)
            )
            figures = f"{answers:.1f} | {refused:.1f} | {cut:.1f} | {seconds:.0f}"
            print(f"| {name} | {figures} | {used:.0%} | {idle:.0%} |")


if __name__ == "__main__":
    main()
