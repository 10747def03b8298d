"""A chat model under a budget, for hosts that take a model and no middleware."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from inspect import signature
from typing import TYPE_CHECKING, Annotated, Any

from langchain.agents.middleware.types import ModelRequest, ModelResponse
from langchain_core.caches import BaseCache
from langchain_core.language_models import BaseChatModel
from langchain_core.messages import SystemMessage
from langchain_core.outputs import ChatGeneration, ChatResult
from langchain_core.tools import StructuredTool
from pydantic import Field, PositiveInt, PrivateAttr, field_validator

from pb_graph.budget.around import drawing_on, drawn_on
from pb_graph.budget.shared import Budget
from pb_graph.errors import InputError
from pb_graph.models.inner_calls import heard_on
from pb_graph.models.naming import name_of
from pb_graph.models.retry import RetryPolicy, without_sdk_retries
from pb_graph.runtime.node import finished
from pb_graph.turn import Turn

if TYPE_CHECKING:
    from langchain_core.language_models import ModelProfile
    from langchain_core.messages import BaseMessage

_KEPT = "kept for the last answer"


class BudgetedChatModel(BaseChatModel):
    """A chat model whose calls draw on a `Budget`: for a supervisor, or any graph around agents.

    What `TokenBudgetMiddleware` does for an agent, it does for a model: each call reserves its cap
    first, and settles after. A part of the budget is set aside for it as soon as it is made (or,
    where it finds its budget, at its first call), so that there is an answer when all else is used
    up: a call that was cut off, or that finds nothing else left, is followed by, or becomes, one
    that is told to answer now, and has no tools but those that give the answer its type. When that
    part is gone, too, the answer is a message that says so; it is no error, unless the answer is to
    have a type, which that message has not: then it is a `BudgetUsedUpError`.

    A call that fails for a passing reason is tried again within the budget, and by
    ``retry_policy`` alone: the model's own ``max_retries`` are set to 0.

    Attributes:
        model: The chat model. It is not changed.
        budget: None for the one that the host's run is within (`pb_graph.budget.using`).
        per_call: Completion tokens of a single call; None for no limit but what is left.
        warn_at: Share of the budget from which on the model is told how little is left.
        reserve: Share of the budget set aside for its last call; 0 for a worker's model.
        retry_policy: How often a failed call is tried again.
    """

    model: BaseChatModel
    budget: Budget | None = None
    per_call: PositiveInt | None = None
    warn_at: Annotated[float, Field(gt=0, lt=1)] = 0.8
    reserve: Annotated[float, Field(ge=0, lt=1)] = 0.1
    retry_policy: RetryPolicy = RetryPolicy()
    # Not as asked, but as its budget made it: of no use to others. The model's own cache works.
    cache: BaseCache | bool | None = Field(default=False, exclude=True)
    _by_tool: bool = PrivateAttr(default=False)

    @field_validator("model", mode="before")
    @classmethod
    def _itself(cls, given: object) -> object:
        if isinstance(given, BaseChatModel):
            return given
        msg = "give a chat model object; bind, with_fallbacks and with_retry go behind: "
        raise ValueError(msg + "BudgetedChatModel(model=model, budget=budget).with_retry()")

    def model_post_init(self, context: Any, /) -> None:  # noqa: ANN401 -- pydantic's
        """Set the last answer's part aside before anybody can spend it.

        A call is one run, ours: who listens to the model's own hears that.
        """
        super().model_post_init(context)
        if self.budget:
            self._last(self.budget)
        self.callbacks = self.callbacks or self.model.callbacks
        self.tags = self.tags or self.model.tags
        self.metadata = {**(self.model.metadata or {}), **(self.metadata or {})}

    @property
    def plain(self) -> BaseChatModel:
        """The model without a budget, and without attempts that nobody sees."""
        heard = {name: getattr(self, name) for name in ("callbacks", "tags", "metadata")}
        return without_sdk_retries(self.model).model_copy(update=heard)

    @property
    def model_name(self) -> str:
        """What the model is called: hosts that look for a text at ``model`` look here first."""
        return name_of(self.model)

    @property
    def _llm_type(self) -> str:
        return f"budgeted-{self.model._llm_type}"  # noqa: SLF001 -- as LangChain's models do

    @property
    def _identifying_params(self) -> Mapping[str, Any]:
        return self.model._identifying_params  # noqa: SLF001

    def _get_ls_params(self, stop: list[str] | None = None, **kwargs: Any) -> Any:  # noqa: ANN401
        return self.model._get_ls_params(stop, **kwargs)  # noqa: SLF001

    def _resolve_model_profile(self) -> ModelProfile | None:
        return self.model.profile

    def get_token_ids(self, text: str) -> list[int]:
        """As the model tells tokens apart: hosts trim conversations by it."""
        return self.model.get_token_ids(text)

    def get_num_tokens_from_messages(self, *args: Any, **kwargs: Any) -> int:  # noqa: ANN401
        """As the model counts them."""
        return self.model.get_num_tokens_from_messages(*args, **kwargs)

    def bind_tools(
        self,
        tools: Sequence[Any],
        *,
        parallel_tool_calls: bool | None = None,  # langgraph-supervisor looks for it
        **kwargs: Any,  # noqa: ANN401
    ) -> Any:  # noqa: ANN401 -- inherited
        """Tools in the words of the model's own provider."""
        bind = self.model.bind_tools
        if parallel_tool_calls is not None and "parallel_tool_calls" in signature(bind).parameters:
            kwargs["parallel_tool_calls"] = parallel_tool_calls
        bound: Any = bind(tools, **kwargs)
        made = self.model_copy()
        # Of an answer that is to have a type LangChain says so; its agents bind what cannot run.
        run = [not isinstance(one, StructuredTool) or one.func or one.coroutine for one in tools]
        only_a_type = "ls_structured_output_format" in kwargs or (run and not any(run))
        made._by_tool = bool(only_a_type)  # noqa: SLF001 -- a copy of ours
        return made.bind(**bound.kwargs)

    def _generate(
        self,
        messages: list[BaseMessage],
        stop: list[str] | None = None,
        run_manager: Any = None,  # noqa: ANN401 -- inherited
        **kwargs: Any,  # noqa: ANN401
    ) -> ChatResult:
        return finished(self._result(messages, stop, run_manager, kwargs, blocking=True))

    async def _agenerate(
        self,
        messages: list[BaseMessage],
        stop: list[str] | None = None,
        run_manager: Any = None,  # noqa: ANN401
        **kwargs: Any,  # noqa: ANN401
    ) -> ChatResult:
        return await self._result(messages, stop, run_manager, kwargs, blocking=False)

    async def _result(
        self,
        messages: list[BaseMessage],
        stop: list[str] | None,
        run_manager: Any,  # noqa: ANN401
        settings: dict[str, Any],
        *,
        blocking: bool,
    ) -> ChatResult:
        async def ask(request: ModelRequest[Any]) -> ModelResponse[Any]:
            # With caches, rate limits and the streaming that a host listens to, but as one run:
            # `invoke` would be a second one, and everybody's count would be double.
            model: Any = request.model
            call = model._generate_with_cache if blocking else model._agenerate_with_cache  # noqa: SLF001
            system = [request.system_message] if request.system_message else []
            made = call([*system, *request.messages], stop, run_manager, **request.model_settings)
            result = made if blocking else await made
            return ModelResponse(result=[one.message for one in result.generations])

        request = self._request(messages, settings)
        counted = heard_on()
        if counted and (self.budget is None or counted.is_part_of(self.budget)):
            return _result_of(await ask(request))
        own, *around = drawn_on(self.budget) or (None,)
        if own is None:
            msg = "There is no budget: give BudgetedChatModel one, or run it within using(budget)."
            raise InputError(msg)
        with drawing_on(own, *around) as account, drawing_on(self._last(own), *around) as last:
            turn = Turn(
                request,
                ask,
                account,
                kept=0,
                last=last,
                enough=last.total if self.reserve else 1,
                per_call=self.per_call,
                warn_at=self.warn_at,
                blocking=blocking,
                retries=self.retry_policy,
                by_tool=self._by_tool,
            )
            return _result_of(await turn.response())

    def _request(self, messages: list[BaseMessage], settings: dict[str, Any]) -> ModelRequest[Any]:
        system = next((one for one in messages[:1] if isinstance(one, SystemMessage)), None)
        return ModelRequest(
            model=self.plain,
            system_message=system,
            messages=messages[1:] if system else messages,  # type: ignore[arg-type]
            model_settings=settings,
        )

    def _last(self, account: Budget) -> Budget:
        """What is set aside of an account; the same one each time."""
        if not self.reserve:
            return account
        return account.grant(math.ceil(account.total * self.reserve), name=_KEPT)


def _result_of(response: ModelResponse[Any]) -> ChatResult:
    return ChatResult(generations=[ChatGeneration(message=message) for message in response.result])
