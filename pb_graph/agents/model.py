"""A chat model within a token budget, for hosts that take a model and no middleware."""
# ruff: noqa: ANN401 -- inherited signatures

from __future__ import annotations

from collections.abc import Sequence
from inspect import signature
from typing import Annotated, Any

from langchain.agents.middleware.types import ModelRequest, ModelResponse
from langchain_core.caches import BaseCache
from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessage
from langchain_core.outputs import ChatGeneration, ChatResult
from langchain_core.runnables import Runnable
from langchain_core.tools import StructuredTool
from pydantic import BeforeValidator, Field, PositiveInt, PrivateAttr

from pb_graph.agents.call import Answer, Call, CallLimits, reserve_of
from pb_graph.budget.account import Budget, accounts_in_scope
from pb_graph.errors import InputError
from pb_graph.models.client import RetryPolicy
from pb_graph.models.options import identity_of, llm_type_of, ls_params_of, name_of
from pb_graph.models.reply import ASYNC, BLOCKING, IO, run_sync

_OPENED = BeforeValidator(lambda given: Budget(given) if isinstance(given, int) else given)


class BudgetedChatModel(BaseChatModel):
    """A chat model whose calls are charged to a `Budget`, for a supervisor or any graph of agents.

    It does for a model what `TokenBudgetMiddleware` does for an agent. The reserve is set aside at
    creation, or at the first call within `use_budget`. When the reserve is used up, too, the answer
    is a message that says so; structured output raises `BudgetUsedUpError`.

    Attributes:
        model: The chat model. Call ``bind`` and ``with_retry`` on the `BudgetedChatModel` instead.
        budget: Completion tokens, or a `Budget` of any unit to share; `None` for the budget that
            the host's run is within (`pb_graph.budget.use_budget`).
        per_call: Completion tokens of a single call; `None` for no further limit.
        reserve: Share of the budget set aside for its last answer; 0 for a worker's model.
        retry_policy: Retries after transient faults, instead of those of the provider's SDK.
    """

    model: BaseChatModel
    budget: Annotated[int | Budget | None, _OPENED] = None
    per_call: PositiveInt | None = None
    reserve: Annotated[float, Field(ge=0, lt=1)] = 0.1
    retry_policy: RetryPolicy = RetryPolicy()
    # Off: a budget may have shortened the reply. The cache of the wrapped model still works.
    cache: BaseCache | bool | None = Field(default=False, exclude=True)
    _by_tool: bool = PrivateAttr(default=False)

    def model_post_init(self, context: Any, /) -> None:
        """Set the reserve aside, and let callbacks of the inner model receive this model's run."""
        super().model_post_init(context)
        if isinstance(self.budget, Budget):
            self._keep(self.budget)
        for name in ("callbacks", "tags", "profile"):
            setattr(self, name, getattr(self, name) or getattr(self.model, name))
        self.metadata = {**(self.model.metadata or {}), **(self.metadata or {})}

    @property
    def budgeted(self) -> tuple[BaseChatModel, CallLimits]:
        """The model with the callbacks of this model, and the limits of each call."""
        update = {name: getattr(self, name) for name in ("callbacks", "tags", "metadata")}
        accounts = (self.budget,) if isinstance(self.budget, Budget) else ()
        own = CallLimits(accounts, per_call=self.per_call, reserve=self.reserve)
        return self.model.model_copy(update=update), own

    @property
    def model_name(self) -> str:
        """The model's name. Hosts that expect a text in ``model`` read this attribute first."""
        return name_of(self.model)

    @property
    def _llm_type(self) -> str:
        return f"budgeted-{llm_type_of(self.model)}"

    @property
    def _identifying_params(self) -> Any:
        return identity_of(self.model)

    def _get_ls_params(self, stop: list[str] | None = None, **kwargs: Any) -> Any:
        return ls_params_of(self.model)(stop, **kwargs)

    def get_num_tokens_from_messages(self, *args: Any, **kwargs: Any) -> int:
        """Return the model's own token count, which hosts use to trim conversations."""
        return self.model.get_num_tokens_from_messages(*args, **kwargs)

    # langgraph-supervisor looks for `parallel_tool_calls`, `with_fallbacks` for the result's type.
    def bind_tools(
        self, tools: Sequence[Any], *, parallel_tool_calls: bool | None = None, **kwargs: Any
    ) -> Runnable[Any, AIMessage]:
        """Bind tools in the format of the model's provider."""
        bind = self.model.bind_tools
        if parallel_tool_calls is not None and "parallel_tool_calls" in signature(bind).parameters:
            kwargs["parallel_tool_calls"] = parallel_tool_calls
        bound: Any = bind(tools, **kwargs)
        copy = self.model_copy()
        # LangChain marks structured output by this key, or by tools that have no function to run.
        run = [not isinstance(t, StructuredTool) or t.func or t.coroutine for t in tools]
        copy._by_tool = "ls_structured_output_format" in kwargs or bool(run and not any(run))  # noqa: SLF001 -- a copy of ours
        return copy.bind(**bound.kwargs)

    def with_structured_output(self, schema: Any, **options: Any) -> Runnable[Any, Any]:
        """Return the model with structured output, which `with_fallbacks` gives each model."""
        return super().with_structured_output(schema, **options)

    def _generate(
        self, messages: Any, stop: Any = None, run_manager: Any = None, **given: Any
    ) -> ChatResult:
        return run_sync(self._agenerate(messages, stop, run_manager, io=BLOCKING, **given))

    async def _agenerate(
        self, messages: Any, stop: Any = None, run_manager: Any = None, io: IO = ASYNC, **given: Any
    ) -> ChatResult:
        async def ask(request: ModelRequest[Any], limits: CallLimits) -> ModelResponse[Any]:
            # `invoke` would start a second run, and usage callbacks would count the call twice.
            parts = request.model, request.messages, stop, run_manager, request.model_settings
            return ModelResponse([await Call(limits, *parts, io).reply()])

        plain, own = self.budgeted
        accounts = accounts_in_scope(*own.accounts or (None,))
        if not accounts:
            msg = "There is no budget. Give BudgetedChatModel one, or run it in use_budget(budget)."
            raise InputError(msg)
        self._keep(accounts[0])
        request = ModelRequest(model=plain, messages=messages, model_settings=given)
        answer = Answer(request, own._replace(accounts=accounts), ask, by_tool=self._by_tool)
        response = await self.retry_policy.repeat(answer.respond, io, longest=60.0)
        return ChatResult(generations=[ChatGeneration(message=each) for each in response.result])

    def _keep(self, account: Budget) -> None:
        """Keep at least the reserve of an account, before other callers can spend it."""
        if account.kept < (share := reserve_of(account, self.reserve)):
            account.keep(share)
