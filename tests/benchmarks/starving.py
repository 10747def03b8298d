"""Reserving the worst case against reserving what such calls have needed, among siblings at once.

    python tests/benchmarks/starving.py

Eight siblings make four calls each, one after the other, under one real `Budget`; a call takes a
second for 50 tokens, by a clock that jumps. Most calls are short: the median is 120 tokens, and
one in twenty needs 400 to 1,500. Each row is the mean of 200 runs: whole answers of the 32 that
were wanted, answers that stay cut off, calls that found nothing left, seconds, and the part of the
budget that lay reserved and unused while calls were under way.
"""
# ruff: noqa: S311 -- no secrets

import asyncio
import random
import sys
from collections import Counter
from pathlib import Path
from statistics import fmean
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[2]))
from pb_graph import Budget, BudgetUsedUpError

SIBLINGS, CALLS, LIMIT, FLOOR, SPEED, RUNS = 8, 4, 1500, 64, 50, 200
AGAIN = 20  # tokens with which a continued answer finds its thread again
WORST, PARTS, PERCENTILE = "worst case", "worst case in equal parts", "95th percentile, continued"


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


class Run:
    """One budget, what its calls needed so far, and what came of them."""

    def __init__(self, policy: str, total: int, seed: int) -> None:
        self.policy, self.budget, self.chance = policy, Budget(total), random.Random(seed)
        self.seen: list[int] = []
        self.outcome: Counter[str] = Counter()

    async def call(self, need: int, cap: int, account: Budget) -> int:
        """Make one call; return the tokens that are missing."""
        with await account.areserve(cap, wait_for=min(FLOOR, cap)) as call:
            tokens = min(need, call.tokens)
            await asyncio.sleep(tokens / SPEED)
            self.outcome["idle"] += (call.tokens - tokens) * tokens  # token seconds times SPEED
            call.settle(tokens)
        return need - tokens

    async def answer(self, need: int, account: Budget) -> bool:
        """Get one answer; return whether it is whole."""
        if self.policy != PERCENTILE:
            return await self.call(need, LIMIT, account) == 0
        missing = need
        while missing:
            known = sorted(self.seen)
            enough = known[int(0.95 * len(known))] if len(known) >= SIBLINGS else LIMIT // 4
            try:
                missing = await self.call(missing, max(FLOOR, enough), account)
            except BudgetUsedUpError:
                if missing == need:
                    raise
                return False
            missing += AGAIN if missing else 0
        self.seen.append(need)
        return True

    async def sibling(self, account: Budget) -> None:
        for _ in range(CALLS):
            is_long = self.chance.random() < 0.05
            need = self.chance.randrange(400, LIMIT) if is_long else self.chance.randrange(40, 200)
            try:
                is_whole = await self.answer(need, account)
                self.outcome["whole" if is_whole else "cut"] += 1
            except BudgetUsedUpError:
                self.outcome["refused"] += 1

    async def play(self) -> list[float]:
        """Return whole, cut and refused answers, seconds, and the idle part of the budget."""
        whole, part = self.budget, int(self.budget.total) // SIBLINGS
        in_parts = self.policy == PARTS
        accounts = [whole.limit(part) if in_parts else whole for _ in range(SIBLINGS)]
        await asyncio.gather(*map(self.sibling, accounts))
        seconds = asyncio.get_running_loop().time()
        idle = self.outcome["idle"] / SPEED / (whole.total * seconds)
        return [*(self.outcome[name] for name in ("whole", "cut", "refused")), seconds, idle]


def main() -> None:
    for total in (2500, 5000):
        print(f"\n| budget {total} | whole | cut | refused | seconds | idle |\n|{'---|' * 6}")
        for policy in (WORST, PARTS, PERCENTILE):
            rows = []
            for seed in range(RUNS):
                with asyncio.Runner(loop_factory=JumpingClock) as runner:
                    rows.append(runner.run(Run(policy, total, seed).play()))
            *answers, seconds, idle = map(fmean, zip(*rows, strict=True))
            counts = " | ".join(f"{count:.1f}" for count in answers)
            print(f"| {policy} | {counts} | {seconds:.0f} | {idle:.0%} |")


if __name__ == "__main__":
    main()
