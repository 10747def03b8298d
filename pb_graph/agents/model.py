"""A chat model within a token budget, for hosts that take a model and no middleware."""

from __future__ import annotations

from collections.abc import Sequence
from inspect import signature
from typing import Annotated, Any

from langchain.agents.middleware.types import ModelRequest, ModelResponse
from langchain_core.caches import BaseCache
from langchain_core.language_models import BaseChatModel, ModelProfile
from langchain_core.messages import AIMessage, BaseMessage, SystemMessage
from langchain_core.outputs import ChatGeneration, ChatResult
from langchain_core.tools import StructuredTool
from pydantic import Field, PositiveInt, PrivateAttr, field_validator

from pb_graph.agents.answer import Answer, CallLimits, call_within, reserve_of
from pb_graph.budget.account import Budget
from pb_graph.budget.scope import accounts_in_scope
from pb_graph.errors import InputError
from pb_graph.models.client import RetryPolicy
from pb_graph.models.options import identity_of, key_of, llm_type_of, ls_params_of, name_of
from pb_graph.models.reply import ASYNC, BLOCKING, IO, run_sync

_MAX_WAIT = 60.0
_RESERVE = "reserved for the last answer"


class BudgetedChatModel(BaseChatModel):
    """A chat model whose calls are charged to a `Budget`, for a supervisor or any graph of agents.

    It does for a model what `TokenBudgetMiddleware` does for an agent. Part of the budget is
    reserved for the final answer: at creation, or at the first call if the budget comes from
    `use_budget`. When that part is used up, too, the answer is a message that says so; structured
    output raises `BudgetUsedUpError`.

    The retries of the provider's SDK are turned off, as they cannot be counted. `retry_policy`
    limits the retries after transient faults, within the budget.

    Attributes:
        model: The chat model. It is not changed. Call ``bind``, ``with_retry`` and
            ``with_fallbacks`` on the `BudgetedChatModel` instead.
        budget: Completion tokens, or a `Budget` of any unit to share; `None` for the budget that
            the host's run is within (`pb_graph.budget.use_budget`).
        per_call: Completion tokens of a single call; `None` for no further limit.
        reserve: Share of the budget set aside for its last answer; 0 for a worker's model.
        retry_policy: How often a failed call is made again.
    """

    model: BaseChatModel
    budget: int | Budget | None = None
    per_call: PositiveInt | None = None
    reserve: Annotated[float, Field(ge=0, lt=1)] = 0.1
    retry_policy: RetryPolicy = RetryPolicy()
    # Off: a budget may have shortened the reply. The cache of the wrapped model still works.
    cache: BaseCache | bool | None = Field(default=False, exclude=True)
    _by_tool: bool = PrivateAttr(default=False)

    @field_validator("budget", mode="before")
    @classmethod
    def _open_budget(cls, value: object) -> object:
        return Budget(value) if isinstance(value, int) else value

    def model_post_init(self, context: Any, /) -> None:  # noqa: ANN401 -- pydantic's
        """Set the reserve aside before other callers can spend it.

        Callbacks of the inner model receive the run of this model.
        """
        super().model_post_init(context)
        if self.account:
            self._last_account(self.account)
        self.callbacks = self.callbacks or self.model.callbacks
        self.tags = self.tags or self.model.tags
        self.metadata = {**(self.model.metadata or {}), **(self.metadata or {})}

    @property
    def account(self) -> Budget | None:
        """The model's own budget, if it was given one."""
        return self.budget if isinstance(self.budget, Budget) else None

    @property
    def account_and_limit(self) -> tuple[Budget | None, int | None]:
        """The model's own account, and the completion tokens of a single call."""
        return self.account, self.per_call

    @property
    def plain(self) -> BaseChatModel:
        """The model without a budget, with the callbacks of this model."""
        heard = {name: getattr(self, name) for name in ("callbacks", "tags", "metadata")}
        return self.model.model_copy(update=heard)

    @property
    def model_name(self) -> str:
        """The model's name. Hosts that expect a text in ``model`` read this attribute first."""
        return name_of(self.model)

    @property
    def _llm_type(self) -> str:
        return f"budgeted-{llm_type_of(self.model)}"

    @property
    def _identifying_params(self) -> Any:  # noqa: ANN401
        return identity_of(self.model)

    def _get_ls_params(self, stop: list[str] | None = None, **kwargs: Any) -> Any:  # noqa: ANN401
        return ls_params_of(self.model)(stop, **kwargs)

    def _resolve_model_profile(self) -> ModelProfile | None:
        return self.model.profile

    def get_num_tokens_from_messages(self, *args: Any, **kwargs: Any) -> int:  # noqa: ANN401
        """Return the model's own token count, which hosts use to trim conversations."""
        return self.model.get_num_tokens_from_messages(*args, **kwargs)

    def bind_tools(
        self,
        tools: Sequence[Any],
        *,
        parallel_tool_calls: bool | None = None,  # langgraph-supervisor checks for this name
        **kwargs: Any,  # noqa: ANN401
    ) -> Any:  # noqa: ANN401 -- inherited
        """Bind tools in the format of the model's provider."""
        bind = self.model.bind_tools
        if parallel_tool_calls is not None and "parallel_tool_calls" in signature(bind).parameters:
            kwargs["parallel_tool_calls"] = parallel_tool_calls
        bound: Any = bind(tools, **kwargs)
        copy = self.model_copy()
        # LangChain marks structured output by this key, or by tools that have no function to run.
        run = [not isinstance(t, StructuredTool) or t.func or t.coroutine for t in tools]
        only_a_type = "ls_structured_output_format" in kwargs or (run and not any(run))
        copy._by_tool = bool(only_a_type)  # noqa: SLF001 -- a copy of ours
        return copy.bind(**bound.kwargs)

    def _generate(
        self,
        messages: list[BaseMessage],
        stop: list[str] | None = None,
        run_manager: Any = None,  # noqa: ANN401 -- inherited
        **kwargs: Any,  # noqa: ANN401
    ) -> ChatResult:
        return run_sync(self._result(messages, stop, run_manager, kwargs, BLOCKING))

    async def _agenerate(
        self,
        messages: list[BaseMessage],
        stop: list[str] | None = None,
        run_manager: Any = None,  # noqa: ANN401
        **kwargs: Any,  # noqa: ANN401
    ) -> ChatResult:
        return await self._result(messages, stop, run_manager, kwargs, ASYNC)

    async def _result(
        self,
        messages: list[BaseMessage],
        stop: list[str] | None,
        run_manager: Any,  # noqa: ANN401
        settings: dict[str, Any],
        io: IO,
    ) -> ChatResult:
        async def ask(request: ModelRequest[Any], limits: CallLimits) -> ModelResponse[Any]:
            # The model's cache, rate limiter and streaming callbacks apply. `invoke` would start
            # a second run, and usage callbacks would count the call twice.
            prompt = [*filter(None, [request.system_message]), *request.messages]
            own = request.model_settings
            return ModelResponse(
                [await call_within(limits, request.model, prompt, stop, run_manager, own, io)]
            )

        accounts = accounts_in_scope(self.account)
        if not accounts:
            msg = "There is no budget. Give BudgetedChatModel one, or run it in use_budget(budget)."
            raise InputError(msg)
        system = messages[0] if messages and isinstance(messages[0], SystemMessage) else None
        self._last_account(accounts[0])
        plain = self.plain
        answer = Answer(
            ModelRequest(
                model=plain,
                system_message=system,
                messages=messages[1:] if system else messages,  # type: ignore[arg-type]
                model_settings=settings,
            ),
            CallLimits(accounts, per_call=self.per_call, tell_every=1),
            ask,
            reserve=reserve_of(accounts[0], self.reserve),
            last_accounts=(lambda: self._last_accounts(accounts)) if self.reserve else None,
            by_tool=self._by_tool,
        )
        usage: Any = None
        try:
            response = await self.retry_policy.repeat(answer.respond, io, _MAX_WAIT)
            usage = next((m.usage_metadata for m in response.result if isinstance(m, AIMessage)), 0)
        finally:
            self._last_account(accounts[0], key_of(plain) if usage else "", usage)
        return ChatResult(
            generations=[ChatGeneration(message=message) for message in response.result]
        )

    def _last_account(self, account: Budget, model: str = "", usage: Any = None) -> None:  # noqa: ANN401
        """Keep a grant of an account for the last answer, as large as that may be.

        Args:
            account: The account.
            model: Key of the model.
            usage: Usage of the last call, by which the grant grows.
        """
        if self.reserve:
            amount = reserve_of(account, self.reserve, model, usage)
            grant = account.grant(amount, name=_RESERVE)
            if grant.left > amount:  # it had taken all that was left
                grant.close()
                account.grant(amount, name=_RESERVE)
            elif usage:
                account.grant(grant.total - grant.left + amount, name=_RESERVE)

    def _last_accounts(self, accounts: tuple[Budget, ...]) -> tuple[Budget, ...]:
        """Return the accounts for the last answer, whose reserve takes all that is left."""
        first, *others = accounts
        grant = first.grant(reserve_of(first, self.reserve), name=_RESERVE)
        return (first.grant(grant.total + first.left, name=_RESERVE), *others)
