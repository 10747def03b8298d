"""One account for many callers: reserve before a call, settle after it, never overspend."""
# ruff: noqa: ANN401, ASYNC110 -- JSON; a test that waits for a waiter has no event to wait for

from __future__ import annotations

import asyncio
import copy
import pickle
import random
import threading
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pb_graph.budget import tree as trees
from pb_graph.budget.account import (
    Budget,
    Reservation,
    accounts_in_scope,
    areserve_in,
    available_tokens,
    current_budget,
    open_run,
    reserve_in,
    use_budget,
)
from pb_graph.errors import BudgetUsedUpError, InputError


def spend(budget: Budget, tokens: int) -> None:
    budget.reserve(tokens).settle(tokens)


class TestReserving:
    def test_what_is_reserved_is_nobody_elses_until_it_is_settled(self) -> None:
        budget = Budget(100)
        call = budget.reserve(60)
        assert (call.tokens, budget.left, budget.spent) == (60, 40, 0)
        call.settle(25)
        assert (budget.left, budget.spent) == (75, 25)

    def test_a_call_gets_what_there_is_and_leaves_what_it_is_to_keep(self) -> None:
        budget = Budget(100)
        assert budget.reserve(keep=10).tokens == 90
        assert budget.reserve(500).tokens == 10

    def test_a_call_is_settled_once(self) -> None:
        budget = Budget(100)
        call = budget.reserve(60)
        for _ in range(3):
            call.settle(20)
        call.forfeit()
        assert (budget.spent, budget.left, budget.unknown) == (20, 80, 0)

    def test_a_call_that_nobody_settles_keeps_its_cap_for_good(self) -> None:
        budget = Budget(100)
        with pytest.raises(asyncio.CancelledError), budget.reserve(60):
            raise asyncio.CancelledError
        assert (budget.spent, budget.unknown, budget.left) == (0, 60, 40)

    def test_a_server_that_ignores_its_cap_is_counted_and_leaves_nothing(self) -> None:
        budget = Budget(100)
        budget.reserve(60).settle(500)
        assert (budget.spent, budget.left) == (500, 0)

    def test_an_empty_budget_says_what_to_do(self) -> None:
        budget = Budget(5)
        spend(budget, 5)
        with pytest.raises(BudgetUsedUpError, match="budget of 5 tokens: raise it"):
            budget.reserve(1)

    def test_the_one_that_is_used_up_is_named(self) -> None:
        budget = Budget(10)
        spend(budget, 10)
        with pytest.raises(BudgetUsedUpError, match="budget of 10 tokens"):
            budget.limit(budget.left // 2).reserve()
        with pytest.raises(BudgetUsedUpError, match="budget of 0 tokens"):
            Budget(10).limit(0).reserve()

    def test_a_budget_has_a_token(self) -> None:
        with pytest.raises(ValueError, match="whole number of at least 1"):
            Budget(0)


class TestWaiting:
    @pytest.mark.parametrize("figure", [-5, 1.5, float("nan"), float("inf"), True, "7"])
    def test_only_whole_numbers_of_tokens_are_counted(self, figure: Any) -> None:
        budget = Budget(100)
        call = budget.reserve(10)
        for ask in (budget.reserve, budget.charge, budget.grant, budget.limit, call.settle):
            with pytest.raises(ValueError, match="must be a whole number"):
                ask(figure)
        assert (budget.spent, budget.left) == (0, 90)

    def test_it_cannot_be_pickled(self) -> None:
        with pytest.raises(TypeError, match="belongs to its process"):
            pickle.dumps(Budget(100))

    @pytest.mark.parametrize("copied", [copy.copy, copy.deepcopy])
    def test_a_copy_is_the_same_account(self, copied: Any) -> None:
        budget = Budget(100)
        spend(copied({"budget": budget})["budget"], 60)
        assert budget.left == 40

    @pytest.mark.parametrize("way", ["reserve", "areserve"])
    def test_nobody_waits_for_the_call_that_he_is_in_the_middle_of(self, way: str) -> None:
        async def taken(budget: Budget) -> int:
            with budget.reserve(80):
                wanted: Any = {"tokens": 50, "at_least": 50}
                if way == "areserve":
                    return (await budget.areserve(**wanted)).tokens
                return (await asyncio.to_thread(budget.reserve, **wanted)).tokens

        assert asyncio.run(taken(Budget(100))) == 20

    def test_a_thread_waits_for_what_a_call_under_way_may_give_back(self) -> None:
        budget = Budget(100)
        first, got = budget.reserve(), list[int]()
        thread = threading.Thread(target=lambda: got.append(budget.reserve(50, at_least=50).tokens))
        thread.start()
        while not trees.WAITING:
            pass
        assert got == []
        first.settle(30)
        thread.join()
        assert got == [50]

    def test_a_task_waits_and_its_loop_goes_on(self) -> None:
        async def both() -> list[str]:
            budget, said = Budget(100), list[str]()

            async def wait() -> None:
                said.append(f"got {(await budget.areserve(at_least=50)).tokens}")

            first = budget.reserve()
            task = asyncio.create_task(wait())
            while not trees.WAITING:
                await asyncio.sleep(0)
            said.append("the loop goes on")
            first.settle(10)
            await task
            return said

        assert asyncio.run(both()) == ["the loop goes on", "got 90"]

    def test_who_waits_hears_of_a_grant_that_is_closed(self) -> None:
        async def waited() -> int:
            budget = Budget(100)
            grant, under_way = budget.grant(80), budget.reserve(10)
            task = asyncio.create_task(budget.areserve(50, at_least=50))
            while not trees.WAITING:
                await asyncio.sleep(0)
            grant.close()
            got = (await asyncio.wait_for(task, 5)).tokens
            under_way.settle(0)
            return got

        assert asyncio.run(waited()) == 50

    def test_in_a_loop_a_blocking_call_does_not_wait(self) -> None:
        async def alone() -> None:
            budget = Budget(100)
            budget.reserve()
            with pytest.raises(BudgetUsedUpError):
                budget.reserve(at_least=1)

        asyncio.run(alone())

    def test_a_waiting_task_can_be_cancelled_and_holds_nobody_up(self) -> None:
        async def cancelled() -> int:
            budget = Budget(100)
            first = budget.reserve()
            task = asyncio.create_task(budget.areserve(50, at_least=50))
            while not trees.WAITING:
                await asyncio.sleep(0)
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
            first.settle(0)
            return budget.left

        assert asyncio.run(cancelled()) == 100

    def test_nobody_waits_for_a_grant_which_may_be_held_by_who_waits(self) -> None:
        budget = Budget(100)
        budget.grant(100).reserve()
        with pytest.raises(BudgetUsedUpError):
            budget.reserve(at_least=1)


class TestGrants:
    def test_what_a_grant_leaves_returns(self) -> None:
        budget = Budget(100)
        with budget.grant(60) as grant:
            spend(grant, 20)
            assert (grant.left, budget.left, budget.spent) == (40, 40, 20)
        assert (budget.left, budget.spent, grant.left) == (80, 20, 0)

    def test_a_grant_is_no_more_than_there_is(self) -> None:
        budget = Budget(100)
        spend(budget, 70)
        assert budget.grant(1_000_000).total == 30

    def test_a_call_that_ends_after_its_grant_settles_all_the_same(self) -> None:
        budget = Budget(100)
        grant = budget.grant(60)
        late, lost = grant.reserve(30), grant.reserve(10)
        grant.close()
        assert budget.left == 60
        late.settle(5)
        lost.forfeit()
        assert (budget.spent, budget.unknown, budget.left) == (5, 10, 85)

    def test_calls_of_what_a_closed_grant_had_set_aside_pass_no_total(self) -> None:
        budget = Budget(100)
        grant = budget.grant(100)
        inner = grant.grant(50)
        late = inner.reserve(30)
        grant.close()
        assert (inner.left, budget.left) == (0, 70)
        late.settle(5)
        assert (budget.spent, budget.left) == (5, 95)

    def test_a_named_grant_is_opened_once(self) -> None:
        budget = Budget(100)
        grant = budget.grant(20, "last")
        spend(grant, 5)
        assert budget.grant(20, "last") is grant
        budget.close()
        assert (grant.left, budget.left) == (0, 95)

    def test_a_grant_stands_back_for_a_server_that_ignored_its_cap(self) -> None:
        budget = Budget(100)
        grant = budget.grant(50)
        budget.reserve(40).settle(70)
        assert (grant.left, budget.left) == (30, 0)

    def test_a_grant_of_a_limit_is_set_aside_in_all_that_it_draws_on(self) -> None:
        budget = Budget(100)
        with budget.limit(90).grant(60) as grant:
            assert budget.left == 40
            spend(grant, 10)
            assert (budget.left, budget.spent) == (40, 10)
        assert budget.left == 90

    def test_what_a_grant_lost_stays_lost(self) -> None:
        budget = Budget(100)
        with budget.grant(60) as grant:
            grant.reserve(25).forfeit()
        assert (budget.unknown, budget.left) == (25, 75)

    def test_a_limit_sets_nothing_aside_and_draws_on_all_above(self) -> None:
        budget = Budget(100)
        one, other = budget.limit(80), budget.limit(80)
        spend(one, 70)
        assert (one.left, other.left, budget.left) == (10, 30, 30)

    def test_what_was_set_aside_of_a_limit_returns_with_the_limit(self) -> None:
        budget = Budget(100)
        with budget.limit(50) as limit:
            limit.grant(20, "last").reserve(5).forfeit()
            assert budget.left == 80
        assert (budget.unknown, budget.left) == (5, 95)


class TestSeveralTrees:
    """A call reserves in every account around it, which may stand in separate trees."""

    def test_a_call_reserves_the_same_in_each_and_settles_in_each(self) -> None:
        one, other = Budget(100), Budget(60)
        call = reserve_in([one.limit(90), other])
        assert (call.tokens, one.left, other.left) == (60, 40, 0)
        call.settle(25)
        assert (one.spent, other.spent, one.left, other.left) == (25, 25, 75, 35)

    def test_nothing_is_reserved_in_one_if_the_other_is_used_up(self) -> None:
        one, other = Budget(100), Budget(60)
        spend(other, 60)
        with pytest.raises(BudgetUsedUpError, match="budget of 60 tokens"):
            reserve_in([one, other], 10)
        assert one.left == 100

    def test_a_call_waits_for_the_scarcer_one(self) -> None:
        async def waited() -> int:
            one, other = Budget(100), Budget(60)
            under_way = other.reserve()
            task = asyncio.create_task(areserve_in([one, other], 50, at_least=50))
            while not trees.WAITING:
                await asyncio.sleep(0)
            under_way.settle(0)
            return (await task).tokens

        assert asyncio.run(waited()) == 50


class TestContext:
    def test_what_runs_in_the_block_finds_the_budget_also_in_threads(self) -> None:
        budget = Budget(10)

        async def inner() -> Budget | None:
            return await asyncio.to_thread(current_budget)

        with use_budget(budget):
            assert current_budget() is budget
            assert asyncio.run(inner()) is budget
        assert current_budget() is None

    def test_a_number_is_refused(self) -> None:
        refused = pytest.raises(InputError, match=r"must be a Budget, such as Budget\(4000\)")
        with refused, use_budget(5):  # type: ignore[arg-type]
            pass

    def test_a_callers_own_budget_is_met_as_the_part_that_was_given(self) -> None:
        budget, other = Budget(100), Budget(5)
        with budget.grant(30) as part, use_budget(part):
            assert accounts_in_scope(budget) == (part,)
            assert accounts_in_scope(other) == (other, part)
        assert accounts_in_scope(budget) == (budget,)

    def test_a_grant_of_the_same_tree_is_spent_alone(self) -> None:
        budget = Budget(100)
        with budget.grant(30) as grant, use_budget(budget.limit(50)):
            assert accounts_in_scope(grant) == (grant,)

    def test_available_tokens_are_those_of_the_scarcest_account(self) -> None:
        one, other = Budget(100), Budget(60)
        call = other.reserve(50)
        with use_budget(one), use_budget(other):
            assert [available_tokens(n) for n in (10, 80)] == [10, 60]
            call.settle(20)
            other.grant(30)
            assert (available_tokens(80), available_tokens(80, include_pending=True)) == (10, 40)
        assert available_tokens(80) == 80


class TestRuns:
    """Accounts that are opened for one run, and know what it spent before it was paused."""

    def test_a_run_has_no_more_than_is_around_it(self) -> None:
        with use_budget(Budget(100)):
            totals = [open_run(own, limit=n) for own, n in ((500, None), (80, 40), (None, 30))]
        assert [run.total for run in totals if run] == [100, 40, 30]
        assert open_run(None) is None

    def test_what_it_spent_before_counts_in_its_total_and_not_twice_in_a_users_budget(self) -> None:
        budget = Budget(100)
        spend(budget, 40)
        run = open_run(budget, run="a", earlier=40)
        assert run
        assert (run.spent, run.left, budget.spent, budget.left) == (40, 60, 40, 60)

    def test_runs_above_that_were_opened_anew_learn_of_it_once(self) -> None:
        above = open_run(100, run="lead", earlier=10)
        assert above
        with use_budget(above):
            runs = [open_run(80, run="worker", earlier=20) for _ in range(2)]
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


def tree(budget: Budget) -> tuple[list[Budget], list[Budget]]:
    """A budget with accounts below it, and those of them that have something to give back."""
    limit, grant = budget.limit(80), budget.grant(50)
    within = limit.grant(30), grant.grant(20)
    return [budget, limit, grant, *within], [*within, grant]


class Bill:
    """The provider's own count."""

    def __init__(self) -> None:
        self.known = self.lost = self.most_at_once = 0
        self._lock = threading.Lock()

    def add(self, call: Reservation, cost: int, end: str) -> None:
        cost = min(cost, call.tokens)
        with self._lock:
            self.known += cost if end == "settle" else 0
            self.lost += cost if end == "forfeit" else 0
        if end == "forfeit":
            call.forfeit()
        else:
            call.settle(cost if end == "settle" else 0)


def holds(budget: Budget, bill: Bill) -> None:
    assert budget.spent == bill.known
    assert bill.lost <= budget.unknown
    assert budget.spent + budget.unknown + budget.left == budget.total


class TestInterleavings:
    @given(calls=CALLS, order=st.randoms())
    def test_whatever_the_order_nothing_is_over_and_nothing_is_lost(
        self, calls: list[tuple[int, int, int, str]], order: random.Random
    ) -> None:
        budget, bill = Budget(150), Bill()
        open_calls: list[tuple[Reservation, int, str]] = []
        accounts, grants = tree(budget)
        for who, wanted, cost, end in calls:
            held = sum(call.tokens for call, *_ in open_calls)
            assert budget.spent + budget.unknown + held <= 150
            try:
                open_calls.append((accounts[who].reserve(wanted), cost, end))
            except BudgetUsedUpError:
                if open_calls:
                    bill.add(*open_calls.pop(order.randrange(len(open_calls))))
        order.shuffle(open_calls)
        for one in open_calls:
            bill.add(*one)
        for grant in grants:
            grant.close()
        holds(budget, bill)

    @given(calls=CALLS)
    def test_threads(self, calls: list[tuple[int, int, int, str]]) -> None:
        budget, bill = Budget(300), Bill()
        accounts, grants = tree(budget)

        def work(one: tuple[int, int, int, str]) -> None:
            who, wanted, cost, end = one
            try:
                call = accounts[who].reserve(wanted, at_least=wanted)
            except BudgetUsedUpError:
                return
            bill.add(call, cost, end)

        with ThreadPoolExecutor(8) as pool:
            list(pool.map(work, calls))
        for grant in grants:
            grant.close()
        holds(budget, bill)

    @given(calls=CALLS, chance=st.randoms())
    def test_tasks_some_of_which_are_cancelled(
        self, calls: list[tuple[int, int, int, str]], chance: random.Random
    ) -> None:
        budget, bill = Budget(300), Bill()
        accounts, grants = tree(budget)

        async def work(one: tuple[int, int, int, str], pause: int) -> None:
            who, wanted, cost, end = one
            try:
                call = await accounts[who].areserve(wanted, at_least=wanted)
            except BudgetUsedUpError:
                return
            with call:
                for _ in range(pause):
                    await asyncio.sleep(0)
                bill.add(call, cost, end)

        async def all_of_them() -> None:
            tasks = [asyncio.create_task(work(one, chance.randrange(4))) for one in calls]
            for task in tasks:
                if chance.random() < 0.2:
                    await asyncio.sleep(0)
                    task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)

        asyncio.run(all_of_them())
        for grant in grants:
            grant.close()
        holds(budget, bill)
