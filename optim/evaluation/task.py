"""Define the Inspect task of a data set and a method, for `pb-optim eval` and `inspect eval`.

Inspect computes the metrics over the samples that have a score. Samples that ended in an error have
none; they are counted in the log, and tables show them beside the figures.

With ``inspect eval plan_and_budget/math500`` Inspect's ``--model`` answers: retries, time limits,
cache, connections and log are Inspect's. The cap of a call is its ``max_tokens``; all other options
of Inspect's command line apply. `pb-optim report` reads the log.

`pb-optim eval` asks LangChain models, which Inspect does not know: `show_call` has an Inspect model
repeat each call, so the viewer shows prompts, replies, tokens and seconds as for its own models.
With `inspect eval`, the graph calls Inspect's model through `InspectChat`.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from contextlib import nullcontext, suppress
from dataclasses import asdict, dataclass
from statistics import fmean
from typing import Any, cast

from inspect_ai import Task
from inspect_ai.dataset import MemoryDataset, Sample
from inspect_ai.log import transcript
from inspect_ai.model import (
    ChatMessage,
    ChatMessageAssistant,
    ChatMessageSystem,
    ChatMessageUser,
    GenerateConfig,
    ModelAPI,
    ModelOutput,
    ModelUsage,
    get_model,
    modelapi,
)
from inspect_ai.scorer import Metric, SampleScore, Score, Target, Value, metric, scorer
from inspect_ai.scorer import Scorer as InspectScorer
from inspect_ai.solver import Generate, Solver, TaskState, solver
from inspect_ai.util import EarlyStop, span
from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessage, BaseMessage
from langchain_core.outputs import ChatGeneration, ChatResult
from pydantic import JsonValue

from optim.bench.bench import Meter, Models, NamedClient, Runner, conditions, score_answer
from optim.bench.store import CacheMissError, Call, Recording
from optim.datasets import Question
from optim.datasets.dataset import digest
from optim.e3 import interval
from optim.evaluation.experiment import Experiment, part_of, read_part
from optim.methods import Method, methods
from optim.records import PLANNING, planning_tokens
from optim.scorers import Scorer, as_scorer, scorer_code, scorer_name
from pb_graph.budget.bill import Bill
from pb_graph.errors import InputError, PlanAndBudgetError
from pb_graph.models.client import ChatClient, RetryPolicy
from pb_graph.models.options import generic
from pb_graph.types import Report

PROVIDER = "recorded"
_KINDS = {"system": ChatMessageSystem, "human": ChatMessageUser, "ai": ChatMessageAssistant}
_PLANNER = "planner"  # the role of the model that plans: --model-role planner=openai/gpt-5-nano
_OVERVIEW = ("level", "budget", "limit", "steps", "warnings")


def make_task(  # noqa: PLR0913, PLR0917 -- what a run has
    experiment: Experiment,
    method: Method,
    questions: Sequence[Question],
    models: Models,
    judge: Scorer,
    meter: Meter | None = None,
) -> Task:
    """Make the Inspect task of one method on its part of the questions.

    A failed question becomes an error sample, and the task continues. Its report is in the sample's
    store like that of any other.
    """
    runner = Runner(method, models)
    by_id = {question.id: question for question in experiment.in_part(questions)}
    samples = [  # the rest of a question's metadata may be large, or hold the solution
        Sample(
            id=question.id,
            input=question.question,
            target=list(question.targets),
            metadata={name: getattr(question, name) for name in ("level", "domain", "identity")},
        )
        for question in by_id.values()
    ]
    dataset = experiment.label
    metadata = _metadata(experiment, method, questions, models, judge)
    if meter is None:  # these are options of Inspect's own command line
        del metadata["made_by"]["epochs"], metadata["made_by"]["temperature"]
    return Task(
        name=f"{dataset}-{method.name}".replace(":", "-"),
        dataset=MemoryDataset(samples, name=dataset),
        solver=_make_solver(runner, by_id, meter),
        scorer=_make_scorer(judge, by_id, meter, metadata["made_by"]["scorer"]),
        epochs=experiment.epochs,
        fail_on_error=False,
        early_stopping=EarlyStopping(meter, runner, by_id) if meter else None,
        metadata=metadata,
    )


def _metadata(
    experiment: Experiment,
    method: Method,
    questions: Sequence[Question],
    models: Models,
    judge: Scorer,
) -> dict[str, Any]:
    """Return a log's metadata, for `optim.records`: names, conditions, origin, part."""
    settings, about = method.settings, experiment.origin()
    about |= {"scorer": scorer_name(judge), "scorer_code": scorer_code(judge)}
    number, parts = read_part(experiment.part) if experiment.part else (None, None)
    matters = conditions(
        method,
        models,
        epochs=experiment.epochs,
        source=[about["data"], about["split"]],
        part=experiment.part,
        parts=parts,
        asked=digest([[each.identity, list(each.targets)] for each in questions]),
        **{name: about[name] for name in ("seed", "scorer", "scorer_code")},
    )
    metadata: dict[str, Any] = {
        "dataset": experiment.label,
        "method": method.name,
        "model": models.solver.name,
        "planner": models.planner.name,
        "uses_level": settings.has_plan or settings.needs_level,
        "conditions": matters,
        "made_by": about
        | {"settings": settings.model_dump(mode="json"), "program": method.program_digest}
        | {"temperature": models.temperature, "epochs": experiment.epochs},
    }
    if parts is not None:
        filled = sorted({part_of(question.id, parts) for question in questions})
        metadata["part"] = {"number": number, "of": parts, "filled": filled}
    return metadata


def _make_solver(runner: Runner, by_id: Mapping[str, Question], meter: Meter | None) -> Solver:
    @solver(name="plan_and_budget")
    def make() -> Solver:
        async def solve(state: TaskState, generate: Generate) -> TaskState:  # noqa: ARG001
            recorded = Recording(state.epoch)
            with meter.answering() if meter else nullcontext():
                record = await runner.answer(by_id[str(state.sample_id)], recorded)
            for call in recorded.calls:
                await show_call(call)
            solving = [call for call in recorded.calls if call.charge["node"] not in PLANNING]
            report = record.report
            state.store.set("report", report)
            state.store.set("error", record.error)
            overview: dict[str, Any] = {n: value for n, value in report.items() if n in _OVERVIEW}
            transcript().info(overview, source="plan and budgets")
            if solving:  # none are known where Inspect's own model answers
                state.messages = to_inspect(solving[-1].messages)
            answer = solving[-1].text if solving else report["answer"]
            state.messages.append(ChatMessageAssistant(content=answer))
            state.output = ModelOutput.from_content(state.model.name, report["answer"])
            if record.error is not None:
                if meter:
                    meter.end(is_scored=False)
                # Inspect records the sample as an error, without a score.
                raise PlanAndBudgetError(record.error)
            return state

        return solve

    return make()


def _make_scorer(
    judge: Scorer, by_id: Mapping[str, Question], meter: Meter | None, name: str
) -> InspectScorer:
    @scorer(name=name, metrics=[figures()])
    def make() -> InspectScorer:
        async def score(state: TaskState, target: Target) -> Score:  # noqa: ARG001
            report: Report = state.store.get("report")
            try:
                verdict = await score_answer(judge, report, by_id[str(state.sample_id)])
            except Exception:  # whose reason Inspect records; an interrupt is no error
                if meter:
                    meter.end(is_scored=False)
                raise
            if meter:
                meter.end(is_scored=True)
            value = {
                "score": verdict.value,
                "tokens": report["usage"]["output_tokens"],
                "planning": planning_tokens(report),
                "seconds": report["usage"]["seconds"],
            }
            about = asdict(verdict) | {"metadata": dict(verdict.metadata)}
            return Score(**about | {"value": value})

        return score

    return make()


@metric
def figures() -> Metric:
    """Return A in percent, T with planning, and E³ = A²/T with the ends of its 95 % interval.

    With several epochs Inspect first takes the mean of each question, so a question is one
    cluster, as it should be.
    """

    def compute(scores: list[SampleScore]) -> Value:
        values = [cast("Mapping[str, float]", score.score.value) for score in scores]
        right, spent = ([value[name] for value in values] for name in ("score", "tokens"))
        found = [math.nan] * 5
        with suppress(InputError):  # nothing scored, or no token spent
            estimate = interval(right, spent)
            ends = (math.nan if end is None else end for end in (estimate.lower, estimate.upper))
            found = [100 * fmean(right), fmean(spent), estimate.e3, *ends]
        names = ("accuracy", "tokens", "e3", "e3_lower", "e3_upper")
        return dict(zip(names, found, strict=True))

    return compute


@dataclass(frozen=True)
class EarlyStopping:
    """Inspect's early-stopping hook of one task, called before each sample starts.

    Samples wait here and not in the solver, because a sample that has started cannot be left out of
    the log. After the limit is reached, only samples that cost nothing start.
    """

    meter: Meter
    runner: Runner
    questions: Mapping[str, Question]

    async def start_task(self, *_: object, **__: object) -> str:
        """Return the name that logs show."""
        return "limit"

    async def schedule_sample(self, id: str | int, epoch: int) -> EarlyStop | None:  # noqa: A002
        """Start a sample when a place is free, or leave the sample out."""
        await self.meter.places.acquire()
        reason = await self.meter.stop_reason()
        if reason is not None:
            stored = Recording(epoch, replay_only=True)
            try:
                await self.runner.answer(self.questions[str(id)], stored)
            except CacheMissError:
                self.meter.places.release()
                self.meter.skipped += 1
                return EarlyStop(id=id, epoch=epoch, reason=reason)
        return None  # the solver gives the place back

    async def complete_sample(self, *_: object, **__: object) -> None:
        """Do nothing."""

    async def complete_task(self) -> dict[str, JsonValue]:
        """Return nothing for the log."""
        return {}


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

    Args:
        dataset: Name of the data set.
        method: Name of the method.
        settings: Settings of the graph.
        program: File that `pb-optim tune` wrote.
        levels: Levels to keep; None for all.
        options: Other fields of `Experiment`.

    Raises:
        InputError: If the experiment is invalid, or has several methods.
    """
    if len(methods(method)) > 1:
        msg = f"a task takes one method, not {method!r}. Run one task for each method."
        raise InputError(msg)
    experiment = Experiment(
        dataset=dataset,
        methods=method,
        settings=settings or {},
        planner_program=program,
        levels=[levels] if isinstance(levels, int) else levels,
        **options,
    )
    questions = experiment.load()
    models = Models(_client(None), _client(_PLANNER))
    row, judge = experiment.chosen_methods(questions)[0], as_scorer(experiment.chosen_scorer)
    return make_task(experiment, row, questions, models, judge)


def _client(role: str | None) -> NamedClient:
    """Return a client of Inspect's model of a role; the log has all calls, so none is cached."""
    model, chat = get_model(role=role), InspectChat(role=role)
    identity = f"{model} {digest(model.config.model_dump(exclude_none=True))}"
    return NamedClient(ChatClient(chat, generic, RetryPolicy(max_retries=0)), str(model), identity)


def to_inspect(messages: Sequence[BaseMessage]) -> list[ChatMessage]:
    """Return LangChain's messages as Inspect's."""
    return [_KINDS[message.type](content=str(message.text)) for message in messages]


async def show_call(call: Call) -> None:
    """Write a call into the transcript of the running sample, under its node and step."""
    charge = call.charge
    output = ModelOutput.from_content(
        call.model, call.text, stop_reason="max_tokens" if charge["finish"] == "length" else "stop"
    )
    bill = Bill.of(call.model, charge["usage"])
    output.usage = ModelUsage(
        input_tokens=bill.input - bill.cached,
        output_tokens=bill.output,
        total_tokens=bill.input + bill.output,
        input_tokens_cache_read=bill.cached,
        reasoning_tokens=bill.reasoning,
    )
    output.time = charge["seconds"]
    step = "" if charge["step"] is None else f" step {charge['step'] + 1}"
    async with span(f"{charge['node']}{step}"):
        model = get_model(f"{PROVIDER}/{call.model}", memoize=False, output=output)
        config = GenerateConfig(max_tokens=charge["cap"])
        await model.generate(to_inspect(call.messages), config=config)


@modelapi(name=PROVIDER)
class RecordedModel(ModelAPI):
    """Returns one recorded call again."""

    def __init__(self, model_name: str, output: ModelOutput | None = None, **_: Any) -> None:  # noqa: ANN401
        super().__init__(model_name)
        self._output = output

    def max_connections(self) -> int:
        """Return a limit that no run reaches, because this model makes no request."""
        return 10_000

    async def generate(self, *_: Any, **__: Any) -> ModelOutput:  # noqa: ANN401 -- inherited
        """Return the reply with its tokens and seconds."""
        if self._output is None:
            msg = "a scorer that asks a model needs one of its own: model_graded_qa(model=...)"
            raise RuntimeError(msg)
        return self._output


class InspectChat(BaseChatModel):
    """Asks the model that Inspect evaluates, or the model of a role, in an event loop."""

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
        model = get_model(role=self.role)
        options = {name: given[name] for name in ("max_tokens", "temperature") if name in given}
        config = GenerateConfig(stop_seqs=stop, **options)
        output = await model.generate(to_inspect(messages), config=config)
        tokens: Any = None
        if usage := output.usage:  # LangChain's input includes cached tokens
            cached, written = usage.input_tokens_cache_read or 0, usage.input_tokens_cache_write
            tokens = Bill(
                input=usage.input_tokens + cached + (written or 0),
                output=usage.output_tokens,
                cached=cached,
                reasoning=usage.reasoning_tokens or 0,
            ).usage()
        about = {"finish_reason": output.stop_reason, "model_name": output.model}
        reply = AIMessage(output.completion, response_metadata=about, usage_metadata=tokens)
        return ChatResult(generations=[ChatGeneration(message=reply)])
