"""Our data sets as tasks that Inspect runs by itself: ``inspect eval plan_and_budget/math500``.

Inspect's ``--model`` answers: retries, time limits, cache, connections and log are Inspect's. The
cap of a call is its ``max_tokens``; all other options of Inspect's command line apply. The log is
one of `pb-optim eval`, so `pb-optim report` reads it. The package `plan_and_budget` registers the
tasks.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from inspect_ai.model import GenerateConfig, get_model
from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessage, BaseMessage
from langchain_core.messages.ai import InputTokenDetails, OutputTokenDetails, UsageMetadata
from langchain_core.outputs import ChatGeneration, ChatResult

from optim.datasets.dataset import digest
from optim.evaluation.experiment import Experiment
from optim.evaluation.models import Models, program_of
from optim.evaluation.task import make_method_task, make_task
from optim.evaluation.transcript import KINDS
from pb_graph.errors import InputError
from pb_graph.models.caps import generic
from pb_graph.models.client import ChatClient, RetryPolicy

if TYPE_CHECKING:
    from collections.abc import Sequence

    from inspect_ai import Task
    from inspect_ai.model import ChatMessage, Model, ModelOutput

PLANNER = "planner"
"""The role of the model that plans: ``--model-role planner=openai/gpt-5-nano``."""


def task_for(
    dataset: str,
    *,
    method: str,
    settings: dict[str, Any] | None,
    program: str | None,
    levels: int | Sequence[int] | None,
    **options: Any,  # noqa: ANN401 -- fields of `Experiment`
) -> Task:
    """Make the task of one data set and one method, as `plan_and_budget.tasks` says.

    Raises:
        InputError: As `Experiment`; or several methods, of which each is a task of its own.
    """
    one_level = [levels] if isinstance(levels, int) else levels
    experiment = Experiment(
        dataset=dataset,
        methods=method,
        settings=settings or {},
        planner_program=program,
        levels=one_level and [int(level) for level in one_level],
        fresh_plans=True,  # there is no cache to take them from
        **options,
    )
    questions = experiment.source.read()
    chosen = next(iter(experiment.chosen_methods(questions)))
    if chosen.name != method:
        msg = f"a task has one method, not {method!r}: name one, and run the others as well"
        raise InputError(msg)
    solver, planner = get_model(), get_model(role=PLANNER)
    models = Models(  # their log has all calls, so none is cached
        solver=ChatClient(InspectChat(), generic, RetryPolicy(max_retries=0)),
        planner=ChatClient(InspectChat(role=PLANNER), generic, RetryPolicy(max_retries=0)),
        program=program_of(program),
        solver_identity=_identity(solver),
        planner_identity=_identity(planner),
        model=str(solver),
        planner_model=str(planner),
    )
    task = make_method_task(experiment, chosen, experiment.draw(questions), models)
    # Epochs and temperature are options of Inspect's command line.
    task.metadata["made_by"] = experiment.provenance(chosen)
    return make_task(task, experiment.build_scorer())


def _identity(model: Model) -> str:
    return f"{model} {digest(model.config.model_dump(exclude_none=True))}"


class InspectChat(BaseChatModel):
    """Asks the model that Inspect evaluates, or the model of a role, in an event loop.

    Attributes:
        role: Of ``--model-role``; None, or a role without a model, means ``--model``.
        max_tokens: Declares that calls take a cap under this name.
        timeout: Seconds. Long, as Inspect keeps the time and waits for connections within a call.
    """

    role: str | None = None
    max_tokens: int | None = None
    timeout: float = 86_400.0

    @property
    def _llm_type(self) -> str:
        return "inspect"

    def _generate(self, *_: Any, **__: Any) -> ChatResult:  # noqa: ANN401 -- inherited
        raise NotImplementedError

    async def _agenerate(
        self,
        messages: list[BaseMessage],
        stop: list[str] | None = None,
        run_manager: object = None,  # noqa: ARG002 -- inherited
        **given: Any,  # noqa: ANN401
    ) -> ChatResult:
        model = get_model(role=self.role) if self.role else get_model()
        options = {name: given[name] for name in ("max_tokens", "temperature") if name in given}
        asked: list[ChatMessage] = [KINDS[one.type](content=str(one.text)) for one in messages]
        output = await model.generate(asked, config=GenerateConfig(stop_seqs=stop, **options))
        return ChatResult(generations=[ChatGeneration(message=_convert(output))])


def _convert(output: ModelOutput) -> AIMessage:
    """Return the reply with its tokens in LangChain's terms, where input includes cached tokens."""
    usage, told = output.usage, None
    if usage is not None:
        cached = usage.input_tokens_cache_read or 0
        asked = usage.input_tokens + cached + (usage.input_tokens_cache_write or 0)
        told = UsageMetadata(
            input_tokens=asked,
            output_tokens=usage.output_tokens,
            total_tokens=asked + usage.output_tokens,
            input_token_details=InputTokenDetails(cache_read=cached),
            output_token_details=OutputTokenDetails(reasoning=usage.reasoning_tokens or 0),
        )
    about = {"finish_reason": output.stop_reason, "model_name": output.model}
    return AIMessage(output.completion, response_metadata=about, usage_metadata=told)
