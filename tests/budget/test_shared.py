"""One account for many callers: reserve before a call, settle after it, never overspend."""
# ruff: noqa: ANN401, ASYNC110 -- JSON; a test that waits for a waiter has no event to wait for

from __future__ import annotations

import asyncio
import copy
import json
import pickle
import random
import threading
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pb_graph.budget import shared, snapshots
from pb_graph.budget.around import current, drawn_on, using, within_all
from pb_graph.budget.shared import Budget
from pb_graph.budget.snapshots import newer
from pb_graph.errors import BudgetUsedUpError, InputError


def spend(budget: Budget, tokens: int) -> None:
    budget.reserve(tokens).settle(tokens)


def as_in_another_process(monkeypatch: pytest.MonkeyPatch) -> None:
    """From here on this process has none of the accounts, and another name."""
    monkeypatch.setattr(snapshots, "_PROCESS", "another")
    shared._LIVE.clear()


def through_json(budget: Budget) -> Any:
    return json.loads(json.dumps(budget.snapshot()))


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
        call.keep()
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

    def test_what_was_refused_leaves_no_entry(self) -> None:
        budget = Budget(10)
        budget.reserve().settle(0)
        assert budget.snapshot()["spent"] == {}

    def test_a_budget_has_a_token(self) -> None:
        with pytest.raises(ValueError, match="whole number of at least 1"):
            Budget(0)


class TestWaiting:
    @pytest.mark.parametrize("figure", [-5, 1.5, float("nan"), float("inf"), True, "7"])
    def test_only_whole_numbers_of_tokens_are_counted(self, figure: Any) -> None:
        budget = Budget(100)
        call = budget.reserve(10)
        for ask in (budget.reserve, budget.charge, budget.grant, budget.limit, call.settle):
            with pytest.raises(ValueError, match="tokens must be a whole number"):
                ask(figure)
        assert (budget.spent, budget.left) == (0, 90)

    @pytest.mark.parametrize("copied", [copy.copy, copy.deepcopy])
    def test_a_copy_is_the_same_account(self, copied: Any) -> None:
        budget = Budget(100)
        spend(copied({"budget": budget})["budget"], 60)
        assert budget.left == 40

    def test_it_does_not_go_to_another_process_unnoticed(self) -> None:
        with pytest.raises(TypeError, match="snapshot"):
            pickle.dumps(Budget(100))

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
        while not shared._WAITING:
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
            while not shared._WAITING:
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
            while not shared._WAITING:
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
            while not shared._WAITING:
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
        lost.keep()
        assert (budget.spent, budget.unknown, budget.left) == (5, 10, 85)

    @pytest.mark.parametrize("below", ["a grant", "a part of a limit"])
    def test_calls_of_what_a_closed_grant_had_set_aside_pass_no_total(self, below: str) -> None:
        budget = Budget(100)
        grant = budget.grant(100)
        limit = grant.limit(100)
        inner = grant.grant(50) if below == "a grant" else limit.part("a", ["a", "b"], keep=0)
        late = inner.reserve(30)
        grant.close()
        assert (inner.left, budget.left) == (0, 70)
        late.settle(5)
        assert (budget.spent, budget.left, budget._grants) == (5, 95, {})

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
            grant.reserve(25).keep()
        assert (budget.unknown, budget.left) == (25, 75)

    def test_a_limit_sets_nothing_aside_and_draws_on_all_above(self) -> None:
        budget = Budget(100)
        one, other = budget.limit(80), budget.limit(80)
        spend(one, 70)
        assert (one.left, other.left, budget.left) == (10, 30, 30)

    def test_what_was_set_aside_of_a_limit_returns_with_the_limit(self) -> None:
        budget = Budget(100)
        with budget.limit(50) as limit:
            limit.grant(20, "last").reserve(5).keep()
            assert budget.left == 80
        assert (budget.unknown, budget.left) == (5, 95)

    def test_what_was_lost_is_lost_once_however_often_it_is_closed(self) -> None:
        budget = Budget(100)
        with budget.limit(50) as limit, limit.grant(20, "last") as grant:
            grant.reserve(5).keep()
        limit.close()
        assert (budget.unknown, budget.left) == (5, 95)

    def test_parts_of_one_turn_are_equal_and_found_again(self) -> None:
        budget = Budget(110)
        names = ["a", "b", "c"]
        parts = [budget.part(name, names, keep=11) for name in names]
        assert [part.total for part in parts] == [33, 33, 33]
        assert budget.part("b", names, keep=11) is parts[1]


class TestFourDefects:
    """What a review of another agent's shared budgets found, each of them here held to."""

    def test_the_pool_is_not_read_stale(self) -> None:
        """Three deep, each level first looks at what is left, and all spend it at once."""
        budget = Budget(100)
        callers = [budget, budget.limit(100), budget.limit(100).limit(100)]
        seen = [account.left for account in callers]
        taken = [callers[0].reserve(60).tokens, callers[1].reserve(30).tokens]
        taken.append(callers[2].reserve(seen[2]).tokens)
        with pytest.raises(BudgetUsedUpError):
            callers[2].reserve(seen[2])
        assert (seen, taken) == ([100, 100, 100], [60, 30, 10])

    def test_a_branch_does_not_reset_what_was_spent(self) -> None:
        budget = Budget(100)
        spend(budget, 10)
        early = through_json(budget)
        spend(budget, 50)
        branch = Budget.restore(early)
        spend(branch, 10)
        assert (budget.spent, branch.left) == (70, 30)

    def test_the_cap_cannot_be_removed_from_inside(self) -> None:
        budget = Budget(100)
        part = budget.grant(40)
        forged = part.snapshot() | {"total": 10**9, "spent": {}, "version": 10**9}
        with using(part):
            bigger = within_all(drawn_on(Budget(10**6)), 10**6)
        assert bigger is not None
        part.adopt(forged)
        assert bigger.reserve().tokens == Budget.restore(forged).total == 40

    def test_a_resumed_grant_does_not_shrink(self, monkeypatch: pytest.MonkeyPatch) -> None:
        budget = Budget(100)
        spend(budget.grant(60, "research"), 20)
        kept = through_json(budget)
        as_in_another_process(monkeypatch)
        again = Budget.restore(kept)
        grant = again.grant(60, "research")
        assert (grant.total, grant.left, again.left, again.spent) == (60, 40, 40, 20)


class TestSnapshots:
    def test_another_process_goes_on_with_the_account(
        self, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        budget = Budget(100)
        spend(budget, 30)
        budget.reserve(20).keep()
        kept = through_json(budget)
        as_in_another_process(monkeypatch)
        again = Budget.restore(kept)
        spend(again, 10)
        assert (again.spent, again.unknown, again.left) == (40, 20, 40)
        assert again.snapshot()["total"] == 100

    def test_a_child_that_comes_back_first_is_counted_above_it_once(
        self, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        budget = Budget(100)
        child = budget.limit(50)
        spend(child, 20)
        early, kept = through_json(budget), through_json(child)
        spend(child, 5)
        late = through_json(child)
        as_in_another_process(monkeypatch)
        again = Budget.restore(early)
        for snapshot in (kept, late, kept):
            Budget.restore(snapshot, [again])
        assert again.spent == 25

    @given(st.lists(st.integers(0, 20), min_size=1, max_size=5), st.randoms())
    def test_snapshots_of_a_process_come_in_any_order(
        self, costs: list[int], chance: random.Random
    ) -> None:
        budget, taken = Budget(1000), []
        for cost in costs:
            budget.charge(cost)
            taken.append(through_json(budget))
        last, merged = taken[-1], None
        chance.shuffle(taken)
        for snapshot in taken:
            merged = newer(merged, snapshot)
        assert merged == last

    def test_a_grant_that_is_closed_stays_so_whatever_an_older_snapshot_says(
        self, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        budget = Budget(100)
        spend(budget.grant(60, "research"), 20)
        kept = through_json(budget)
        as_in_another_process(monkeypatch)
        again = Budget.restore(kept)
        again.grant(60, "research").close()
        again.adopt(kept)
        assert again.left == 80

    def test_an_account_that_was_made_anew_knows_more_than_it_did_before(self) -> None:
        """As one does that was paused for so long that this process had forgotten it."""
        budget = Budget(100)
        for _ in range(5):
            spend(budget, 10)
        kept = through_json(budget)
        shared._LIVE.clear()
        again = Budget.restore(kept)
        spend(again, 10)
        assert newer(kept, again.snapshot()) == again.snapshot()

    def test_another_account_takes_the_place_of_the_one_before(self) -> None:
        one, other = Budget(10).snapshot(), Budget(10).snapshot()
        assert newer(one, other) == other
        assert newer({}, one) == one

    def test_two_processes_are_put_together(self, monkeypatch: pytest.MonkeyPatch) -> None:
        budget = Budget(100)
        spend(budget, 10)
        base = through_json(budget)
        spend(budget, 20)
        here = through_json(budget)
        as_in_another_process(monkeypatch)
        again = Budget.restore(base)
        spend(again, 5)
        there = through_json(again)
        for both in (newer(here, there), newer(there, here)):
            assert both is not None
            assert sum(both["spent"].values()) == 35

    def test_so_are_their_grants(self, monkeypatch: pytest.MonkeyPatch) -> None:
        budget = Budget(100)
        spend(budget.grant(60, "research"), 10)
        base = through_json(budget)
        spend(budget.grant(60, "research"), 20)
        here = through_json(budget)
        as_in_another_process(monkeypatch)
        again = Budget.restore(base)
        spend(again.grant(60, "research"), 5)
        there = through_json(again)
        for both in (newer(here, there), newer(there, here)):
            assert both is not None
            assert sum(both["grants"]["research"]["spent"].values()) == 35


class TestAround:
    def test_what_runs_within_finds_the_budget(self) -> None:
        budget = Budget(10)

        async def inner() -> Budget | None:
            return await asyncio.to_thread(current)

        with using(budget):
            assert current() is budget
            assert asyncio.run(inner()) is budget
        assert current() is None

    def test_a_number_is_none(self) -> None:
        with pytest.raises(InputError, match=r"is a Budget, such as Budget\(4000\)"), using(5):  # type: ignore[arg-type]
            pass

    def test_its_own_budget_is_met_as_the_part_that_was_given(self) -> None:
        budget = Budget(100)
        with budget.grant(30) as part, using(part):
            assert drawn_on(budget) == (part,)
            assert len(drawn_on(Budget(5))) == 2
        assert drawn_on(budget) == (budget,)


class TestAnotherProcess:
    """What it made anew, or an earlier version wrote, passes no total."""

    def test_grants_that_it_made_anew_do_not_pass_the_total(
        self, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        budget = Budget(100)
        spend(budget.grant(90), 90)
        kept = through_json(budget.limit(100))
        as_in_another_process(monkeypatch)
        again = Budget(100)
        grants = [again.grant(45), again.grant(45)]
        Budget.restore(kept, [again])
        assert grants[0].reserve().tokens == 10
        with pytest.raises(BudgetUsedUpError):
            grants[1].reserve()

    def test_snapshots_of_earlier_versions_are_read(self, monkeypatch: pytest.MonkeyPatch) -> None:
        budget = Budget(100)
        spend(budget, 10)
        old = {key: value for key, value in through_json(budget).items() if key != "ceiling"}
        as_in_another_process(monkeypatch)
        assert Budget.restore(old).left == 90


# What one caller does: how much it wants, what the call costs, and how it ends.
CALLS = st.lists(
    st.tuples(
        st.integers(0, 4),
        st.integers(1, 60),
        st.integers(0, 60),
        st.sampled_from(["settle", "keep", "refused"]),
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

    def add(self, call: shared.Call, cost: int, end: str) -> None:
        cost = min(cost, call.tokens)
        with self._lock:
            self.known += cost if end == "settle" else 0
            self.lost += cost if end == "keep" else 0
        if end == "keep":
            call.keep()
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
        open_calls: list[tuple[shared.Call, int, str]] = []
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
