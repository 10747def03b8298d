"""Budgets in all tokens and in dollars: the same account, counted by another rate."""
# ruff: noqa: ANN401 -- figures of any kind

from __future__ import annotations

from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from langchain_anthropic import ChatAnthropic
from langchain_core.messages import AIMessage, HumanMessage, ToolMessage
from langchain_openai import ChatOpenAI
from pydantic import SecretStr

from pb_graph.budget.account import Budget, available_tokens, open_run, use_budget
from pb_graph.budget.bill import Bill, Dollars, spending_of
from pb_graph.errors import BudgetUsedUpError, InputError
from pb_graph.models import input_bound
from pb_graph.models.input_bound import bound_input, learn_input
from tests.support.chat_model import ScriptedChat
from tests.support.clients import ELSEWHERE, at_a_server

PRICES = {"small": (1.0, 4.0, 0.1), "large": (10.0, 40.0)}


def call(tokens: int, model: str = "x:small") -> Bill:
    return Bill(model, input=tokens, written=tokens)


class TestUnits:
    def test_all_tokens_count_the_input_and_shrink_the_cap(self) -> None:
        budget = Budget(total_tokens=1000)
        made = budget.reserve(call=call(400))
        assert (made.tokens, budget.left, budget.unit) == (600, 0, "tokens")
        made.settle([Bill("x:small", output=100, input=300)])
        assert (budget.spent, budget.left) == (400, 600)

    def test_dollars_count_cached_input_at_its_price(self) -> None:
        budget = Budget(usd=0.01, prices=PRICES)
        made = budget.reserve(call=call(2000))
        assert made.tokens == (10_000 - 2000) // 4
        made.settle([Bill("x:small", output=500, input=2000, cached=1000)])
        assert budget.spent == pytest.approx(0.001 + 0.0001 + 0.002, abs=1e-12)

    def test_a_call_without_a_reported_input_costs_its_bound(self) -> None:
        budget = Budget(total_tokens=1000)
        budget.reserve(call=call(400)).settle(100)
        assert budget.spent == 500
        budget.reserve(call=call(400)).settle(0)
        assert budget.spent == 500

    def test_a_prompt_that_does_not_fit_is_refused_with_the_figure(self) -> None:
        with pytest.raises(BudgetUsedUpError, match="may cost 1200 tokens, input included, and 10"):
            Budget(total_tokens=1000).reserve(call=call(1200))
        with pytest.raises(BudgetUsedUpError, match=r"may cost \$0.02, and \$0.01 of the budget"):
            Budget(usd=0.01, prices=PRICES).reserve(call=call(2000, "large"))

    def test_the_kept_amount_pays_for_the_same_input_again(self) -> None:
        budget = Budget(total_tokens=1000)
        first = budget.reserve(keep=100, call=call(300))
        first.settle(first.tokens)
        assert first.tokens == 150
        assert budget.reserve(call=call(300 + first.tokens)).tokens == 100

    @pytest.mark.parametrize("unit", ["total", "total_tokens"])
    def test_a_bound_with_an_output_does_not_lift_the_cap(self, unit: str) -> None:
        assert Budget(**{unit: 100}).reserve(call=Bill("x:small", output=1)).tokens <= 100  # type: ignore[arg-type]

    def test_a_call_without_its_input_is_refused(self) -> None:
        with pytest.raises(InputError, match="needs the model and the prompt"):
            Budget(total_tokens=1000).reserve(10)

    @pytest.mark.parametrize("unit", ["total", "total_tokens", "usd"])
    @pytest.mark.parametrize("figure", [0, -1, float("nan"), "1"])
    def test_totals_that_are_no_amounts_are_refused(self, unit: str, figure: Any) -> None:
        with pytest.raises(ValueError, match=f"{unit} must be a"):
            Budget(**{unit: figure})

    @pytest.mark.parametrize("totals", [{}, {"total": 1, "usd": 1}])
    def test_a_budget_has_one_total(self, totals: Any) -> None:
        with pytest.raises(InputError, match="one total"):
            Budget(**totals)

    @pytest.mark.parametrize("prices", [{"m": 1}, {"m": (1,)}, {"m": (-1, 1)}, {"m": (1, "x")}])
    def test_prices_of_another_form_are_refused(self, prices: Any) -> None:
        with pytest.raises(InputError, match="dollars per million tokens"):
            Budget(usd=1, prices=prices)

    @pytest.mark.parametrize("prices", ["auto", PRICES])
    def test_an_unknown_model_is_an_error_that_says_how_to_price_it(self, prices: Any) -> None:
        budget = Budget(usd=1, prices=prices)
        with pytest.raises(InputError, match=r'prices=\{"mine-7b": \(0.25, 2.0\)\}'):
            budget.reserve(call=call(10, "mine-7b at http://127.0.0.1:8000/v1"))
        assert budget.left == 1

    def test_known_prices_are_those_of_the_list(self) -> None:
        counts: Any = ({"input": 1}, {"output": 1}, {"input": 1, "cached": 1})
        bills = [Bill("openai:gpt-5-mini", **count) for count in counts]
        assert [*map(Dollars("auto").cost, bills)] == [250_000, 2_000_000, 25_000]

    def test_long_prompts_have_their_own_price(self) -> None:
        rate = Dollars("auto")
        short, long = (rate.cost(call(n, "google_genai:gemini-2.5-pro")) for n in (10**5, 10**6))
        assert long == 20 * short


class TestTrees:
    def test_a_question_counts_tokens_below_dollars(self) -> None:
        money = Budget(usd=0.01, prices=PRICES)
        with use_budget(money):
            question = open_run(limit=1000)
        assert question is not None
        made = question.reserve(call=call(500))
        assert made.tokens == 1000
        assert money.left == pytest.approx(0.01 - 0.0005 - 0.004)
        made.settle(100)
        assert (question.spent, money.spent) == (100, pytest.approx(0.0009))

    def test_grants_and_limits_are_in_the_unit_of_their_budget(self) -> None:
        money = Budget(usd=0.5, prices=PRICES)
        assert money.grant(0.1).total == pytest.approx(0.1)
        assert money.left == pytest.approx(0.4)
        with pytest.raises(InputError, match="given in dollars, not in tokens"):
            money.grant(100)
        with pytest.raises(InputError, match="Give the `spending`"):
            money.charge(100)

    def test_another_budgets_spending_can_be_charged(self) -> None:
        one = Budget(1000)
        one.reserve(100).settle([Bill("x:small", output=50, input=20)])
        money = Budget(usd=0.5, prices=PRICES)
        money.charge(one.spending)
        assert money.spent == pytest.approx((20 + 4 * 50) / 1e6)

    def test_a_questions_budget_shrinks_to_what_the_money_buys(self) -> None:
        with use_budget(Budget(usd=0.0004, prices=PRICES)):
            assert [available_tokens(500, model=name) for name in ("x:small", "")] == [100, 500]
        with use_budget(Budget(total_tokens=300)):
            assert available_tokens(500) == 300


class TestRaising:
    def test_a_run_is_as_large_as_its_budget(self) -> None:
        budget = Budget(100)
        run = budget.limit()
        budget.raise_to(300)
        assert run.total == run.left == 300

    def test_a_total_never_shrinks(self) -> None:
        with pytest.raises(ValueError, match="not fall below 100 tokens"):
            Budget(100).raise_to(50)

    def test_accounts_above_that_are_too_small_are_raised_with_it(self) -> None:
        budget = Budget(100)
        grant = budget.grant(40)
        part = grant.limit(30)
        part.reserve().settle(30)
        part.raise_to(80)
        assert (part.left, grant.left, budget.left) == (50, 50, 20)
        grant.raise_to(grant.total + 50)
        assert (part.left, grant.left, budget.left) == (50, 100, 0)


STEPS = st.lists(
    st.tuples(
        st.sampled_from(["reserve", "settle", "forfeit", "raise", "grant", "close"]),
        st.integers(0, 3),
        st.integers(0, 400),
        st.sampled_from(["x:small", "large"]),
    ),
    max_size=40,
)


@given(STEPS, st.sampled_from(["total", "total_tokens", "usd"]))
def test_no_interleaving_of_calls_and_raises_spends_more_than_the_total(
    steps: list[tuple[str, int, int, str]], unit: str
) -> None:
    total = 0.004 if unit == "usd" else 2000
    root: Any = Budget(**{unit: total}, prices=PRICES)  # type: ignore[arg-type]
    grant = root.grant(total / 4 if unit == "usd" else 500)
    accounts = [root, root.limit(tokens=900), root.limit(), grant]
    open_calls: list[Any] = []
    bills: list[Bill] = []
    for what, which, size, model in steps:
        if what == "reserve":
            try:
                made = accounts[which].reserve(size + 1, keep=0, call=call(size, model))
            except BudgetUsedUpError:
                continue
            open_calls.append(made)
        elif what in ("settle", "forfeit") and open_calls:
            made = open_calls.pop(which % len(open_calls))
            if what == "settle":
                output, sent = min(size, made.tokens), min(size, made.call.input)
                made.settle([Bill(made.call.model, output=output, input=sent)])
            else:
                made.forfeit()
            bills.append(made.bill)
        elif what == "raise":
            one = accounts[which]
            one.raise_to(one.total + (0.0001 if one.unit == "dollars" else 1 + size))
        elif what == "close":
            grant.close()
    for made in open_calls:
        made.settle(made.tokens)
        bills.append(made.bill)
    for one in accounts:
        assert one.spent + one.unknown <= one.total
        assert one.left >= 0
    used = (root.spent + root.unknown) * root.rate.scale
    assert used == pytest.approx(sum(map(root.rate.cost, bills)), abs=1)
    assert root.spending == spending_of(bills)


class TestBoundOfTheInput:
    def test_bytes_tools_and_images_count(self) -> None:
        model = ScriptedChat()
        assert bound_input(model, [HumanMessage("größer " * 100)]).input >= 900
        bare = bound_input(model, [HumanMessage("?")]).input
        tool = {"type": "function", "function": {"name": "f", "description": "x" * 500}}
        assert bound_input(model, [HumanMessage("?")], {"tools": [tool]}).input > bare + 500
        image: Any = [{"type": "image", "url": "https://example.org/1.png"}]
        shown = [ToolMessage([{"type": "tool_result", "content": image}], tool_call_id="1")]
        for name, most in (("openai/gpt-4o-mini", 48_000), ("gpt-5-nano", 3_700)):
            seeing = at_a_server(name)
            assert bound_input(seeing, [HumanMessage(image)]).input > most
            assert bound_input(seeing, shown).input > most

    def test_usage_counts_only_for_the_prompt_that_was_sent(self) -> None:
        model, usage = ScriptedChat(), {"input_tokens": 900, "output_tokens": 50}
        answer = AIMessage("ok", usage_metadata=usage | {"total_tokens": 950})  # type: ignore[arg-type]
        answer.response_metadata = {"model_name": "scripted-1"}
        asked, more = [HumanMessage("x" * 9000)], HumanMessage("more")
        assert bound_input(model, [*asked, answer, more]).input > 9000
        learn_input(model, asked, {}, Bill(input=900, output=50))
        assert 950 < bound_input(model, [*asked, answer, more]).input < 1100
        assert bound_input(model, [*asked, answer, more], is_learned=False).input > 9000
        input_bound._ratios.clear()
        call = {"name": "f", "args": {"text": "x" * 300}, "id": "1", "type": "tool_call"}
        answer.tool_calls = [call]  # longer than the 50 tokens that were reported
        assert bound_input(model, [*asked, answer, more]).input > 1200
        longer = HumanMessage("x" * 9001)
        for other in ([longer, answer], [*asked, longer, answer], [longer, *asked, answer]):
            assert bound_input(model, other).input > 9000
        tool = {"type": "function", "function": {"name": "f", "parameters": {}}}
        assert bound_input(model, [*asked, answer], {"tools": [tool]}).input > 9000

    def test_bytes_have_at_most_the_tokens_that_were_seen_and_a_quarter(self) -> None:
        model, prose = ScriptedChat(), "some plain words of a text " * 100
        learn_input(model, [HumanMessage(prose)], {}, Bill(input=675))
        assert 1600 < bound_input(model, [HumanMessage(prose * 2 + "new")]).input < 1750
        digits = "0123456789" * 540  # of a kind that was not seen
        assert bound_input(model, [HumanMessage(digits)]).input > 5000
        assert bound_input(model, [HumanMessage("new")]).input < 200
        elsewhere = ScriptedChat(model_name="other")
        assert bound_input(elsewhere, [HumanMessage(prose)]).input > 2700

    def test_openais_own_models_are_counted_by_their_tokenizer(self) -> None:
        words, mini = [HumanMessage("word " * 3000)], "gpt-5-mini"
        cases = [(mini, None, 3000), (mini, ELSEWHERE, 15_000), ("mine", None, 15_000)]
        for name, address, least in cases:
            model = at_a_server(name, base_url=address)
            assert least < bound_input(model, words).input < least + 150

    @pytest.mark.parametrize(
        ("content", "arguments", "said"),
        [
            ("?", {"previous_response_id": "r1"}, "previous_response_id has no known bound"),
            ("?", {"extra_body": {"plugins": [{"id": "web"}]}}, "plugins"),
            ("?", {"extra_body": {"tools": [{"type": "web_search"}]}}, "'web_search'"),
            ("?", {"extra_body": {"model": "another"}}, "model"),
            ("?", {"extra_body": {"web_search_options": {}}}, "web_search_options"),
            ("?", {"a_new_field": 1}, "a_new_field"),
            (
                "?",
                {"tools": [{"type": "web_search"}]},
                "tool 'web_search', which the provider runs",
            ),
            ("?", {"tools": [{"google_search": {}}]}, "tool 'google_search'"),
            ("?", {"tools": [object()]}, "tool object"),  # of a provider's SDK
            ([{"type": "audio", "base64": "AA=="}], {}, "'audio'"),
            ([{"type": "input_file", "file_id": "f"}], {}, "'input_file'"),
            ([{"type": "tool_result", "content": [{"type": "document"}]}], {}, "'document'"),
            ([{"type": "image", "url": "u"}], {}, "image for the model 'm'"),
        ],
    )
    def test_input_without_a_bound_is_refused(
        self, content: Any, arguments: Any, said: str
    ) -> None:
        model = at_a_server("m")
        with pytest.raises(InputError, match=said):
            bound_input(model, [HumanMessage(content)], arguments)

    @pytest.mark.parametrize(
        "options",
        [
            {"name": "m", "use_previous_response_id": True},
            {"name": "m", "model_kwargs": {"prompt": {"id": "p"}}},
            {"name": "openai/gpt-4o:online"},
        ],
    )
    def test_a_model_that_adds_input_is_refused(self, options: Any) -> None:
        model = at_a_server(**options)
        with pytest.raises(InputError, match="no known bound"):
            bound_input(model, [HumanMessage("?")])

    def test_what_adds_no_input_is_taken(self) -> None:
        model = at_a_server("m", extra_body={"top_k": 5, "max_tokens": 9})
        tool = {"name": "f", "description": "", "input_schema": {}}
        arguments = {"tools": [tool], "tool_choice": "f", "stop": ["x"], "max_completion_tokens": 9}
        assert bound_input(model, [HumanMessage("?")], arguments).input < 900


def test_the_row_of_a_models_own_provider_is_its_price() -> None:
    table = {"azure:m": (1, 1), "openai:m": (5, 20), "ft:m": (99, 99), "m at https://x/v1": (2, 4)}
    rate = Dollars(table)
    keys = ("openai:m", "azure:m", "m at https://api.openai.com/v1", "m at https://x/v1/", "b:m")
    keys += ("m at https://my.openai.azure.com/openai/v1/",)
    assert [rate.cost(Bill(key, output=1)) / 10**6 for key in keys] == [20, 1, 20, 4, 20, 1]


def test_a_cache_of_an_hour_and_a_priority_tier_cost_more() -> None:
    rate = Dollars("auto")
    hour = Bill("anthropic:claude-sonnet-4-5", input=100_000, written=100_000, lasting=100_000)
    assert rate.cost(hour) == 6 * 10**11
    key = SecretStr("any")
    cached: Any = [{"type": "text", "text": "x", "cache_control": {"ttl": "1h"}}]
    claude = ChatAnthropic(model_name="claude-sonnet-4-5", api_key=key)
    bound = bound_input(claude, [HumanMessage(cached)])
    assert bound.lasting == bound.input
    model = ChatOpenAI(model="gpt-5-mini", api_key=key, service_tier="priority")
    usual = bound_input(model.model_copy(update={"service_tier": None}), [HumanMessage("?")])
    assert rate.cost(bound_input(model, [HumanMessage("?")])) == 2 * rate.cost(usual)
    tier = {"service_tier": None, "extra_body": {"service_tier": "priority"}}
    again = bound_input(model.model_copy(update=tier), [HumanMessage("?")])
    assert rate.cost(again) == 2 * rate.cost(usual)


def test_money_is_counted_to_the_pico_dollar() -> None:
    budget = Budget(usd=1, prices={"m": (0.0375, 0.15)})
    for _ in range(1000):
        budget.reserve(1, call=call(1, "m")).settle([Bill("m", output=1, input=1)])
    assert Decimal(str(budget.spent)) == Decimal("0.0001875")
