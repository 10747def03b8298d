"""One account for many callers: reserve before a call, settle after it, and charge it once."""
# ruff: noqa: ANN401, ASYNC110 -- JSON; a test that waits for a waiter has no event to wait for

from __future__ import annotations

import asyncio
import copy
import math
import pickle
import random
import threading
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pb_graph.budget.account import (
    ACCOUNTS,
    WAITING,
    Budget,
    accounts_in_scope,
    available_tokens,
    open_run,
    use_budget,
)
from pb_graph.budget.bill import (
    Bill,
    Dollars,
    Reservation,
    add_spending,
    spent,
    subtract_spending,
    usage_of,
)
from pb_graph.errors import BudgetUsedUpError, InputError
from pb_graph.types import Charge


def spend(budget: Budget, tokens: int) -> None:
    budget.reserve(tokens).settle(tokens)


class TestReserving:
    def test_reserved_tokens_are_unavailable_until_the_call_is_settled(self) -> None:
        budget = Budget(100)
        call = budget.reserve(60)
        assert (call.tokens, budget.left, budget.spent) == (60, 40, 0)
        call.settle(25)
        assert (budget.left, budget.spent) == (75, 25)

    def test_a_call_gets_what_is_left_beside_what_it_keeps(self) -> None:
        budget = Budget(100)
        assert budget.reserve(keep=10).tokens == 90
        assert budget.reserve(500).tokens == 10

    def test_a_cost_above_the_cap_is_counted_and_leaves_nothing(self) -> None:
        budget = Budget(100)
        grant = budget.grant(20)
        call = budget.reserve(60)
        call.settle(95)
        call.settle(5)  # only the first time counts
        assert (budget.spent, budget.left, grant.left) == (95, 0, 5)

    def test_a_call_that_is_not_settled_keeps_its_cap_for_good(self) -> None:
        budget = Budget(100)
        with pytest.raises(asyncio.CancelledError), budget.reserve(60):
            raise asyncio.CancelledError
        assert (budget.spent, budget.unknown, budget.left) == (0, 60, 40)

    def test_the_error_names_the_highest_account_that_is_used_up(self) -> None:
        budget = Budget(10)
        spend(budget, 10)
        with pytest.raises(BudgetUsedUpError, match="budget of 10 tokens is used up"):
            budget.limit(5).reserve()
        with pytest.raises(BudgetUsedUpError, match="budget of 0 tokens"):
            Budget(10).limit(0).reserve()
        with pytest.raises(BudgetUsedUpError, match="budget of 1 token is"):
            Budget(1).reserve(2, at_least=2)

    @pytest.mark.parametrize("figure", [-5, 1.5, float("nan"), "7"])
    def test_only_whole_numbers_of_tokens_are_counted(self, figure: Any) -> None:
        budget = Budget(100)
        call = budget.reserve(10)
        for ask in (budget.reserve, budget.charge, budget.grant, budget.limit, call.settle):
            with pytest.raises(ValueError, match="must be a whole number"):
                ask(figure)
        assert (budget.spent, budget.left) == (0, 90)

    def test_a_copy_is_the_same_account_and_pickling_is_refused(self) -> None:
        budget = Budget(100)
        spend(copy.deepcopy({"budget": budget})["budget"], 30)
        assert budget.left == 70
        with pytest.raises(TypeError, match="belongs to its process"):
            pickle.dumps(budget)


class TestWaiting:
    def test_a_thread_waits_for_tokens_that_a_call_may_return(self) -> None:
        budget = Budget(100)
        first, got = budget.reserve(), list[int]()
        thread = threading.Thread(target=lambda: got.append(budget.reserve(50, wait_for=50).tokens))
        thread.start()
        while not WAITING:
            pass
        assert got == []
        first.settle(30)
        thread.join()
        assert got == [50]

    @pytest.mark.parametrize("event", ["settle", "close", "raise"])
    async def test_a_task_waits_for_tokens_and_the_loop_goes_on(self, event: str) -> None:
        budget = Budget(100)
        grant = budget.grant(60)
        first = budget.reserve()
        task = asyncio.create_task(budget.areserve(30, wait_for=30))
        while not WAITING:
            await asyncio.sleep(0)
        {"settle": lambda: first.settle(0), "close": grant.close}.get(
            event, lambda: budget.raise_to(200)
        )()
        assert (await asyncio.wait_for(task, 5)).tokens == 30

    @pytest.mark.parametrize("way", ["reserve", "areserve"])
    async def test_a_call_never_waits_for_the_call_that_it_is_made_in(self, way: str) -> None:
        budget = Budget(100)
        with budget.reserve(80):
            if way == "areserve":
                call = await budget.areserve(50, wait_for=50)
            else:
                call = await asyncio.to_thread(budget.reserve, 50, wait_for=50)
        assert call.tokens == 20

    async def test_a_blocking_reservation_in_an_event_loop_does_not_wait(self) -> None:
        budget = Budget(100)
        budget.reserve()
        with pytest.raises(BudgetUsedUpError):
            budget.reserve(wait_for=1)

    def test_a_call_does_not_wait_for_a_grant(self) -> None:
        budget = Budget(100)
        budget.grant(100).reserve()
        with pytest.raises(BudgetUsedUpError):
            budget.reserve(wait_for=1)


class TestGrants:
    def test_a_call_that_ends_after_its_grant_is_closed_settles(self) -> None:
        budget = Budget(100)
        grant = budget.grant(100)
        inner = grant.grant(50)
        late, lost = inner.reserve(30), grant.reserve(10)
        grant.close()
        assert (inner.left, budget.left) == (0, 60)
        late.settle(5)
        lost.forfeit()
        assert (budget.spent, budget.unknown, budget.left) == (5, 10, 85)

    def test_what_is_kept_is_for_calls_of_its_owner_and_returns_with_its_budget(self) -> None:
        budget = Budget(100)
        budget.keep(20)
        assert (budget.left, budget.limit().left, budget.left_with_kept) == (80, 80, 100)
        budget.reserve().settle(80)
        with pytest.raises(BudgetUsedUpError):
            budget.limit(50).reserve(from_kept=True)
        assert budget.reserve(5, from_kept=True).tokens == 5
        budget.close()
        assert budget.left == 15

    def test_a_grant_of_a_limit_is_set_aside_above_and_returns_with_the_limit(self) -> None:
        budget = Budget(100)
        with budget.limit(50) as limit:
            limit.grant(20).reserve(5).forfeit()
            assert budget.left == 80
        assert (budget.unknown, budget.left) == (5, 95)

    def test_a_limit_sets_nothing_aside_and_draws_on_all_above(self) -> None:
        budget = Budget(100)
        one, other = budget.limit(80), budget.limit(80)
        spend(one, 70)
        assert (one.left, other.left, budget.left) == (10, 30, 30)


class TestSeveralTrees:
    """A call reserves in every account around it, which may stand in separate trees."""

    def test_a_call_reserves_the_same_in_each_and_settles_in_each(self) -> None:
        one, other = Budget(100), Budget(60)
        call = asyncio.run(one.limit(90).areserve(also=[other]))
        assert (call.tokens, one.left, other.left) == (60, 40, 0)
        call.settle(25)
        assert (one.spent, other.spent, one.left, other.left) == (25, 25, 75, 35)

    def test_nothing_is_reserved_in_one_if_the_other_is_used_up(self) -> None:
        one, other = Budget(100), Budget(60)
        spend(other, 60)
        with pytest.raises(BudgetUsedUpError, match="budget of 60 tokens"):
            one.reserve(10, also=[other])
        assert one.left == 100


class TestContext:
    def test_calls_in_the_block_find_the_budget_also_in_threads(self) -> None:
        budget = Budget(10)
        with use_budget(budget):
            assert asyncio.run(asyncio.to_thread(ACCOUNTS.get)) == (budget,)
        with use_budget(Budget(20)):
            assert [one.total for one in ACCOUNTS.get()] == [20]
        assert ACCOUNTS.get() == ()

    def test_a_caller_within_its_own_budget_uses_the_part_that_it_was_given(self) -> None:
        budget, other = Budget(100), Budget(5)
        with budget.grant(30) as part, use_budget(part):
            assert accounts_in_scope(budget) == (part,)
            assert accounts_in_scope(other) == (other, part)
        assert accounts_in_scope(budget) == (budget,)

    def test_available_tokens_are_those_of_the_scarcest_account(self) -> None:
        one, other = Budget(100), Budget(60)
        call = other.reserve(50)
        with use_budget(one), use_budget(other):
            assert [available_tokens(n) for n in (10, 80)] == [10, 60]
            call.settle(20)
            other.grant(30)
            assert available_tokens(80) == 10
        assert available_tokens(80) == 80


class TestRuns:
    """Accounts that are opened for one run, and know what it spent before it was paused."""

    def test_a_run_has_no_more_than_the_budget_around_it(self) -> None:
        with use_budget(Budget(100)):
            totals = [open_run(own, limit=n) for own, n in ((500, None), (80, 40), (None, 30))]
        assert [run.total for run in totals if run] == [100, 40, 30]
        assert open_run(None) is None

    def test_earlier_tokens_count_in_the_run_and_once_in_each_budget(self) -> None:
        budget, elsewhere = Budget(100), Budget(100)
        spend(open_run(budget, run="a") or budget, 40)
        for account in (budget, elsewhere):  # as in another process
            run = open_run(account, run="a", earlier={"m": Bill(output=40).usage()})
            assert run
            assert (run.spent, run.left, account.spent, account.left) == (40, 60, 40, 60)

    def test_a_limit_below_a_run_counts_its_earlier_tokens_alone(self) -> None:
        earlier = {"m": Bill(output=40).usage()}
        run = open_run(Budget(100), run="a", earlier=earlier)
        assert run
        part = run.limit(tokens=60)
        part.charge(earlier, run="a")
        assert (part.spent, part.left, run.spent, run.left) == (40, 20, 40, 60)

    def test_accounts_of_runs_above_count_earlier_tokens_once(self) -> None:
        above = open_run(100, run="lead", earlier={"m": Bill(output=10).usage()})
        assert above
        with use_budget(above):
            runs = [
                open_run(80, run="worker", earlier={"m": Bill(output=20).usage()}) for _ in range(2)
            ]
        assert [run.left for run in runs if run] == [60, 60]
        assert (above.spent, above.left) == (30, 70)


# What one caller does: how much it wants, what the call costs, and how it ends.
CALLS = st.lists(
    st.tuples(
        st.integers(0, 4),
        st.integers(1, 60),
        st.integers(0, 60),
        st.sampled_from(["settle", "forfeit", "refused"]),
    ),
    max_size=25,
)


class World:
    """A budget of 300 tokens with accounts below it, and the provider's own count."""

    def __init__(self) -> None:
        self.budget = Budget(300)
        limit, grant = self.budget.limit(80), self.budget.grant(50)
        self.grants = [limit.grant(30), grant.grant(20), grant]
        self.accounts = [self.budget, limit, grant, *self.grants[:2]]
        self.known = self.lost = 0
        self._lock = threading.Lock()

    def end(self, call: Reservation, cost: int, how: str) -> None:
        cost = min(cost, call.tokens)
        with self._lock:
            self.known += cost if how == "settle" else 0
            self.lost += cost if how == "forfeit" else 0
        if how == "forfeit":
            call.forfeit()
        else:
            call.settle(cost if how == "settle" else 0)

    def check(self) -> None:
        for grant in self.grants:
            grant.close()
        budget = self.budget
        assert budget.spent == self.known
        assert self.lost <= budget.unknown
        assert budget.spent + budget.unknown + budget.left == budget.total


class TestCallsAtOnce:
    """Whatever the order of calls, nothing is overspent and nothing is lost."""

    @given(calls=CALLS)
    def test_in_threads(self, calls: list[tuple[int, int, int, str]]) -> None:
        world = World()

        def work(one: tuple[int, int, int, str]) -> None:
            who, wanted, cost, how = one
            try:
                call = world.accounts[who].reserve(wanted, wait_for=wanted)
            except BudgetUsedUpError:
                return
            world.end(call, cost, how)

        with ThreadPoolExecutor(8) as pool:
            list(pool.map(work, calls))
        world.check()

    @given(calls=CALLS, chance=st.randoms())
    def test_in_tasks_some_of_which_are_cancelled(
        self, calls: list[tuple[int, int, int, str]], chance: random.Random
    ) -> None:
        world = World()

        async def work(one: tuple[int, int, int, str], pause: int) -> None:
            who, wanted, cost, how = one
            try:
                call = await world.accounts[who].areserve(wanted, wait_for=wanted)
            except BudgetUsedUpError:
                return
            with call:
                for _ in range(pause):
                    await asyncio.sleep(0)
                world.end(call, cost, how)

        async def all_of_them() -> None:
            tasks = [asyncio.create_task(work(one, chance.randrange(4))) for one in calls]
            for task in tasks:
                if chance.random() < 0.2:
                    await asyncio.sleep(0)
                    task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)

        asyncio.run(all_of_them())
        world.check()


NUMBERS = ("input_tokens", "output_tokens", "total_tokens", "calls")


def charge(node: str = "solve", output: int = 10, **changes: Any) -> Charge:
    whole: Any = {
        "node": node,
        "step": None,
        "cap": 100,
        "model": "m",
        "usage": Bill(input=30, output=output, reasoning=4, cached=20).usage(),
        "measured": True,
        "most": Bill(input=30, output=output).usage(),
        "seconds": 0.25,
        "finish": "stop",
    }
    charge: Charge = whole | changes
    return charge


COUNTS = st.integers(0, 10**6)
CHARGES = st.lists(
    st.builds(
        charge,
        st.sampled_from(["plan", "estimate", "solve"]),
        COUNTS,
        seconds=st.floats(0, 1000),
        measured=st.booleans(),
    ),
    max_size=20,
)


@given(CHARGES)
def test_the_nodes_add_up_to_the_query(charges: list[Charge]) -> None:
    usage = usage_of(charges)
    parts = usage["by_node"].values()
    for column in NUMBERS:
        assert usage[column] == sum(part[column] for part in parts)  # type: ignore[literal-required]
    assert usage["output_tokens"] == spent(charges)
    assert usage["measured"] == all(part["measured"] for part in parts)
    for node, part in usage["by_node"].items():
        assert part["measured"] == all(one["measured"] for one in charges if one["node"] == node)
    assert abs(usage["seconds"] - sum(part["seconds"] for part in parts)) < 0.01


def test_a_cost_is_known_only_where_every_model_has_a_price() -> None:
    rows = [
        charge("plan", model="small", usage=Bill(input=30, output=10).usage()),
        charge("solve", model="large", usage=Bill(input=30, output=10, cached=10).usage()),
    ]
    prices = Dollars({"openai:small": (1.0, 2.0), "large": (10.0, 20.0, 5.0)})
    both = usage_of(rows, prices)
    assert both["by_node"]["plan"]["cost"] == 50e-6
    assert both["by_node"]["solve"]["cost"] == (20 * 10 + 10 * 5 + 10 * 20) / 1e6
    assert both["cost"] == 500e-6
    assert usage_of(rows, Dollars({"large": (1.0, 1.0)}))["cost"] is None
    assert "cost" not in usage_of(rows)


@pytest.mark.parametrize("count", [math.inf, math.nan, -1, 1.5, True])
def test_a_bill_holds_whole_numbers_only(count: Any) -> None:
    usage: Any = {"input_tokens": 1, "output_tokens": count, "total_tokens": 1}
    with pytest.raises(InputError, match="whole"):
        Budget(10).charge({"m": usage})


def test_tokens_by_model_add_up_and_keep_the_largest_call() -> None:
    first = add_spending({"m": Bill(input=300, output=2).usage()}, None)
    whole = add_spending(first, {"m": Bill(input=200, output=3, largest=150).usage()})
    assert whole == {"m": Bill(input=500, output=5, largest=300).usage()}
    rest = subtract_spending(whole, first)
    assert rest == {"m": Bill(input=200, output=3, largest=300).usage()}
    assert add_spending(first, rest) == whole
