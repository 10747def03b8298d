"""Candidates, and the graph as a DSPy program whose prompts can be tuned."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Self, cast

import dspy

from optim.datasets.dataset import INPUTS, digest
from optim.methods import RETRY_SETTINGS, Method
from pb_graph.errors import InputError, NoAnswerError
from pb_graph.graph import PlanAndBudgetGraph, build_graph
from pb_graph.methods import METHODS
from pb_graph.models.caps import CapPolicy, known_policy
from pb_graph.models.reply import ASYNC, BLOCKING, IO, run_sync
from pb_graph.planner.planner import Planner, is_demo, load_planner
from pb_graph.program import PlannerProgram
from pb_graph.settings import PLANNED, Context, Settings
from pb_graph.state import Input

if TYPE_CHECKING:
    from optim.bench.bench import ModelSpec

DEFAULT_INSTRUCTIONS: Mapping[str, str] = MappingProxyType(
    {name: part.signature.instructions for name, part in Planner().named_predictors()}
)
"""The package's own instructions, by predictor."""


class SharedOnDeepcopy:
    """Base of objects that all copies of a program share: optimizers deep-copy programs."""

    def __deepcopy__(self, memo: object) -> Self:
        return self


@dataclass(frozen=True)
class Candidate(SharedOnDeepcopy, Method):
    """A method that a search may change: instructions and examples under settings.

    Attributes:
        instructions: Text by predictor (`DEFAULT_INSTRUCTIONS` has their names). The package's own
            text is dropped, so that equal candidates have one identity.
        settings: Settings of the graph.
        examples: Examples by predictor, as plain JSON: inputs and output by name. Rows of training
            data are dropped. A predictor without examples shows the package's own.
    """

    name: str = "tune"
    settings: Settings = field(default_factory=Settings)
    instructions: Mapping[str, str] = field(default_factory=dict)
    examples: Mapping[str, Sequence[Mapping[str, Any]]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        texts = {name: text.strip() for name, text in sorted(self.instructions.items())}
        changed = {name: text for name, text in texts.items() if text != DEFAULT_INSTRUCTIONS[name]}
        examples = {name: _plain(name, demos) for name, demos in sorted(self.examples.items())}
        non_empty = {name: demos for name, demos in examples.items() if demos}
        object.__setattr__(self, "instructions", MappingProxyType(changed))
        object.__setattr__(self, "examples", MappingProxyType(non_empty))
        object.__setattr__(self, "program", self.prompts().program())
        Method.__post_init__(self)

    def __hash__(self) -> int:
        return hash(self.identity)

    @cached_property
    def identity(self) -> str:
        """A digest that tells candidates apart."""
        settings = self.settings.model_dump(mode="json", exclude=RETRY_SETTINGS)
        return digest([dict(self.instructions), settings, dict(self.examples)])

    def text(self, predictor: str) -> str:
        """Return the instruction of a predictor."""
        return self.instructions.get(predictor, DEFAULT_INSTRUCTIONS[predictor])

    def with_instruction(self, predictor: str, text: str) -> Candidate:
        """Return the candidate with another instruction for one predictor.

        Args:
            predictor: Name of the predictor.
            text: The instruction.
        """
        return replace(self, instructions={**self.instructions, predictor: text})

    def with_predictors(self, predictors: Mapping[str, dspy.Predict]) -> Candidate:
        """Return the candidate with the instructions and examples of these predictors."""
        texts = {name: each.signature.instructions for name, each in predictors.items()}
        demos = {name: each.demos for name, each in predictors.items()}
        return replace(
            self, instructions={**self.instructions, **texts}, examples={**self.examples, **demos}
        )

    def prompts(self) -> Planner:
        """Return a new planner with these instructions and examples."""
        planner = Planner()
        for name, text in self.instructions.items():
            predictor = getattr(planner, name)
            predictor.signature = predictor.signature.with_instructions(text)
        for name, examples in self.examples.items():
            getattr(planner, name).demos = [dict(example) for example in examples]
        return planner


def _plain(name: str, examples: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Return examples as they are saved, without what DSPy adds to them."""
    predictor = getattr(Planner(), name)
    predictor.demos = [
        {key: example[key] for key in predictor.signature.fields if example.get(key) is not None}
        for example in examples
        if is_demo(predictor.signature, example)
    ]
    demos: list[dict[str, Any]] = predictor.dump_state()["demos"]
    return demos


def active_predictors(settings: Settings) -> dict[str, str]:
    """Return the predictors whose prompts the settings use, by their ``--tune`` name."""
    fused = settings.method == PLANNED and settings.planning == "fused"
    is_planned = settings.is_planned(None)
    names = {"decompose": "fused" if fused else "decompose"} if is_planned else {}
    if settings.needs_credits and is_planned and not fused:
        names["estimate"] = "estimate"
    if settings.needs_level:
        names["level"] = "level"
        names.setdefault("estimate", "level")
    if METHODS[settings.method].style and not settings.has_plan:
        names["solve"] = "solve"
    return names


def predictor_of(settings: Settings, tuned: str) -> str:
    """Return the predictor that ``--tune`` names."""
    active = active_predictors(settings)
    if tuned == "settings":
        return "decompose"  # no prompt is changed
    if tuned in active:
        return active[tuned]
    msg = (
        f"With method={settings.method}, planning={settings.planning} and plan_from="
        f"{settings.first_planned} there is no {tuned!r} prompt to tune; available: "
        f"{', '.join(active) or 'none'}. Choose another --tune or other settings; "
        "`solve` needs method=global_budget."
    )
    raise InputError(msg)


def check_is_sent(predictor: str, settings: Settings, levels: Sequence[int | None]) -> None:
    """Check that the graph sends a predictor's prompt for at least one question."""
    if predictor == "level" and None not in levels:
        msg = (
            "the level of every question is known, so the prompt that judges it is never sent: "
            "pass --estimate-level (estimate_level=True), or tune another prompt"
        )
        raise InputError(msg)
    plans = predictor not in ("level", "solve")
    if plans and not any(settings.is_planned(level) for level in levels):
        msg = (
            f"No dev question has level {settings.first_planned} (plan_from) or above, so the "
            f"{predictor!r} prompt is never sent. Plan every question with --set plan_from=1 "
            "(settings={'plan_from': 1}), or give harder questions."
        )
        raise InputError(msg)


class TunableProgram(dspy.Module):  # type: ignore[misc]  # dspy carries no types
    """A program whose predictors hold the prompts that are open to tuning.

    The prompts are read at every call, so changes by an optimizer take effect.
    """

    def __init__(self, base: Candidate, *predictors: str) -> None:
        super().__init__()
        self._open, self._base = predictors, base
        planner = base.prompts()
        for name in predictors:
            setattr(self, name, getattr(planner, name))

    @property
    def candidate(self) -> Candidate:
        """The candidate that this copy of the program is now."""
        return self._base.with_predictors({name: getattr(self, name) for name in self._open})

    def _trace(self, name: str, given: Mapping[str, Any], **outputs: str) -> None:
        """Report a predictor's call by the graph, or a stored reply, to DSPy."""
        if dspy.settings.trace is not None:
            call = getattr(self, name), dict(given), dspy.Prediction(**outputs)
            dspy.settings.trace.append(call)


class GraphProgram(TunableProgram):
    """The graph as a DSPy module for DSPy's optimizers and evaluation.

    Only the prompts that the settings use can be tuned. Use a tuned program with
    ``build_graph(planner_program=program)``, or save it and pass the path.

    Args:
        model: Solves, as for `build_graph`; a name is resolved at the first question.
        planner: Plans; None for the same model.
        settings: Settings of the graph. A mapping overrides the saved program's, else the defaults.
        planner_program: A planner or a program to begin from, or the path of a saved one.
        cap_policy: As for `build_graph`.

    Raises:
        InputError: If a setting is unknown, or the planner program does not fit.
    """

    def __init__(
        self,
        model: ModelSpec = None,
        *,
        planner: ModelSpec = None,
        settings: Settings | Mapping[str, Any] | None = None,
        planner_program: Planner | PlannerProgram | GraphProgram | str | Path | None = None,
        cap_policy: CapPolicy | str | None = None,
    ) -> None:
        saved: Any = planner_program
        if isinstance(saved, str | Path):
            saved = PlannerProgram.load(saved)
        if not isinstance(settings, Settings):
            own = getattr(saved, "settings", None)
            fields = own.set_fields() if own else {}
            settings = Settings.read(fields | dict(settings or {}))
        loaded = load_planner(getattr(saved, "prompts", saved))
        base = Candidate(settings=settings).with_predictors(dict(loaded.named_predictors()))
        super().__init__(base, *dict.fromkeys(active_predictors(settings).values()))
        self.graph = GraphCache(model, planner, settings, known_policy(cap_policy))

    @property
    def settings(self) -> Settings:
        """The settings of the graph."""
        return self._base.settings

    @property
    def prompts(self) -> Planner:
        """The planner with the predictors of this program, as an optimizer has changed them."""
        planner = self._base.prompts()
        for name in self._open:
            setattr(planner, name, getattr(self, name))
        return planner

    def program(self) -> PlannerProgram:
        """Return prompts and settings as they are saved, without a model's address."""
        saved = self.candidate.prompts().program()
        return saved.model_copy(update={"settings": self.settings})

    def save(self, path: str | Path) -> None:
        """Write the JSON file that ``build_graph(planner_program=path)`` and `load` read."""
        self.program().save(path)

    def load(self, path: str | Path) -> Self:
        """Take over the prompts of a saved program; the settings stay."""
        loaded = GraphProgram(planner_program=path, settings=self.settings)
        for name in self._open:
            setattr(self, name, getattr(loaded, name))
        self._base = loaded._base
        return self

    def forward(self, question: str, **inputs: Any) -> dspy.Prediction:  # noqa: ANN401
        """Answer one question.

        If the model could not answer, the answer is wrong and keeps its cost, because DSPy would
        give a constant score to an exception.

        Args:
            question: The question.
            inputs: Other inputs of the graph: level, domain, instruction, answer_format,
                reference. Further fields of an example are ignored.

        Returns:
            ``answer``; ``tokens``, its completion tokens, planning included; ``report``;
            ``error``, None when there is an answer.
        """
        return run_sync(self._answer(BLOCKING, question, inputs))

    async def aforward(self, question: str, **inputs: Any) -> dspy.Prediction:  # noqa: ANN401
        """Answer one question as `forward` does, in an event loop."""
        return await self._answer(ASYNC, question, inputs)

    async def _answer(self, io: IO, question: str, inputs: dict[str, Any]) -> dspy.Prediction:
        graph = await io.load(lambda: self.graph.compiled)
        known = {name: inputs[name] for name in INPUTS if inputs.get(name) is not None}
        given = cast("Input", {**known, "question": question})
        error: str | None = None
        try:
            context = Context(planner_program=self.prompts)
            output: Any = await io.call(graph.invoke, graph.ainvoke, given, None, context=context)
            report = output["report"]
        except NoAnswerError as failure:
            error, report = str(failure), failure.report
        answer = "" if error else report["answer"]
        if error is None and "solve" in self._open:
            self._trace("solve", {"problem": question}, solution=answer)
        tokens = report["usage"]["output_tokens"]
        return dspy.Prediction(tokens=tokens, report=report, error=error, answer=answer)


@dataclass
class GraphCache(SharedOnDeepcopy):
    """The models and the compiled graph of all copies of a program."""

    model: ModelSpec
    planner: ModelSpec
    settings: Settings
    cap_policy: CapPolicy | None

    @cached_property
    def compiled(self) -> PlanAndBudgetGraph:
        """The graph, compiled once: prompts come with each question."""
        return build_graph(
            self.model, planner=self.planner, settings=self.settings, cap_policy=self.cap_policy
        )
