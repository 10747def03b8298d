"""Define every setting with default, unit and meaning, and the choices of one run."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Annotated, Any, Literal, Self, get_args

from pydantic import AfterValidator, BaseModel, Field, ValidationError, WrapValidator
from pydantic_core.core_schema import ValidationInfo

from pb_graph.budget.account import Budget
from pb_graph.budget.allocation import BudgetRule, Level, LevelTable, Limit, Schedule, ScheduleName
from pb_graph.errors import InputError, describe_errors, did_you_mean
from pb_graph.methods import METHODS
from pb_graph.tasks import is_sum, needed_tokens
from pb_graph.types import Query


def _known_method(name: str) -> str:
    if name not in METHODS:
        msg = f"there is no method {name!r}; available: {', '.join(METHODS)}"
        raise InputError(msg + did_you_mean(name, METHODS))
    return name


ClassName = Literal["small", "large", "thinking"]  # the defaults of each: models/classes.py
PLANNED = "plan_and_budget"  # the default method
MIN_SHARE = 24  # tokens, the smallest share of a step where the budget allows; the paper has none
LEVEL_CAP = 2  # tokens of the call for the level: a letter and a digit, or a small model's digit

_DOMAIN_STYLES = {"arithmetic": "calculation", "mathematics": "concise"}  # that `auto` stands for
_DOMAIN_DEFAULTS: Mapping[str, Mapping[str, Any]] = {  # of `PLANNED`: docs/measured.md says why
    "mathematics": {"budget": 700},
    "instruction following": {"style": "answer", "plan_from": None, "budget": 350},
}

_SHAPES = {name: Schedule(name=name) for name in (*get_args(ScheduleName), "bam")}
_PAPER = LevelTable()  # the paper's budgets by level
_listed = Field(json_schema_extra=lambda schema: schema.update(enum=list(METHODS)))
_Style = Literal["auto", "draft", "calculation", "concise", "prose", "plain", "answer", "paper"]
_Tokens = Annotated[int, Field(strict=True, ge=1)]
_SENTENCES = {
    "limit": "a limit is a whole number of completion tokens, at least 1, such as 4000, or one of "
    '{"usd": 0.02} and {"total_tokens": 6000}',
    "budget": "a budget is a whole number of tokens, at least 1, such as 400, or a rule by level, "
    'such as {"rule": "level_table", "tokens": {"1": 200, "2": 250, "3": 350, "4": 450, "5": 600}}',
}


def _explain(value: object, validate: Callable[[object], object], info: ValidationInfo) -> object:
    """Replace pydantic's errors for each kind of budget or limit by one sentence."""
    try:
        return validate(value)
    except ValidationError as error:
        raise ValueError(_SENTENCES[info.field_name or ""]) from error


class Settings(BaseModel, frozen=True, extra="forbid", use_attribute_docstrings=True):
    """Settings for planning, budgeting and solving. Immutable; unknown fields are refused."""

    method: Annotated[str, AfterValidator(_known_method), _listed] = PLANNED
    """How a question is answered."""
    style: _Style | None = None
    """Style of the solver: docs/concepts/methods.md. auto: by the domain. None: the method's."""
    model_class: ClassName | None = None
    """The solver's class, with its defaults. None: found by its name, profile or first reply."""
    execution: Literal["single_pass", "stepwise"] | None = None
    """One call for all steps, or one each (plan_and_budget only). None: by the model's class."""
    plan_from: Level | None = None
    """The lowest level that is decomposed; below it the plan is one step, without a call for a
    plan. 1: always, as in the paper. None, if it is set: never; else by the class of the model."""
    planning: Literal["two_call", "fused"] = "fused"
    """fused: one call plans and grades the steps. two_call: one call for each, as in the paper."""
    schedule: Literal[ScheduleName, "bam"] | Schedule = "weighted"
    """How the budget is split over the steps: a name, or {"name": "polynomial", "power": 3}."""
    limit: Annotated[Limit | _Tokens | None, WrapValidator(_explain)] = None
    """The most that a question may cost, planning included: completion tokens, or {"usd": 0.02} or
    {"total_tokens": 6000}, which count the input."""
    budget: Annotated[BudgetRule | _Tokens | None, WrapValidator(_explain)] = None
    """Solving tokens of a question: a number, or a rule by level. None: the paper's budgets by
    level, at least what the asked length needs (2 a word, 45 a sentence, 1,000 a page, 300 a day of
    a trip), or none if the method has none. A set budget also limits methods of one call."""
    enforcement: Literal["prompt", "force"] = "force"
    """prompt: the model is only told its budget. force: each call has a hard cap, and a call that
    reaches its cap is asked for its result, unless `reserve` is 0."""
    reserve: int | None = Field(default=None, ge=0)
    """Tokens of a share for the result; 0: a call ends at its cap. None: by the model's class."""
    cutoff: int = Field(default=8192, gt=0)
    """Hard limit of completion tokens for each call."""
    planner_cap: int | None = Field(default=None, gt=0)
    """Cap of a planner's call. None: by its class; 384, 512 (large) or 2,048 (thinking)."""
    synthesis: Literal["auto", "last_step", "join", "call"] = "auto"
    """How the parts of a stepwise plan become the answer. last_step: the last gives it. join: one
    behind the other. call: a further call writes it. auto: join or last_step, as the plan says."""
    review_plan: bool = False
    """Interrupt the run so that a person can review the plan and its budgets."""
    max_steps: int = Field(default=5, ge=1, le=20)
    """Largest number of sub-questions."""
    timeout: float | None = Field(default=None, gt=0, allow_inf_nan=False)
    """Time limit of a call in seconds, and the longest Retry-After to wait for. A chat model object
    keeps its own time limit. None: 120 seconds, or an hour for a local model."""
    max_retries: int = Field(default=3, ge=0, le=10)
    """Retries of a call that was refused or never sent (rate limit, server error, no connection),
    not of one that may have been billed. The max_retries of a model object are turned off."""
    domain: str = Field(default="general problem solving", min_length=1, max_length=200)
    """The field of the questions, told to the planner; some set the style and the totals."""
    level_examples: str | None = Field(default=None, max_length=8000)
    """Example problems of known level for the planner, one a line: 'Level 1: …' to 'Level 5: …'.
    '': no examples. None: the package's own, from mathematics."""

    @classmethod
    def read(cls, value: object) -> Self:
        """Return a `Settings`, or a mapping of its fields, as `Settings`; else raise InputError."""
        if isinstance(value, Mapping) and (unknown := sorted(set(value) - set(cls.model_fields))):
            msg = f"unknown setting {unknown[0]}; available: {', '.join(cls.model_fields)}"
            raise InputError(msg + did_you_mean(unknown[0], cls.model_fields))
        try:
            return cls.model_validate(value)
        except ValidationError as error:
            raise InputError(describe_errors(error)) from error

    @classmethod
    def paper(cls, method: str = PLANNED, **changes: Any) -> Self:  # noqa: ANN401 -- fields
        """Return the settings of a method in the paper's tables: docs/concepts/methods.md.

        Args:
            method: One of the paper's five methods.
            changes: Further fields, such as ``schedule="cosine"``.

        Raises:
            InputError: If a field is unknown, or its value is wrong.
        """
        budget = {"budget": _PAPER} if METHODS[_known_method(method)].budgets else {}
        row = {"method": method, "style": "paper", "enforcement": "prompt", "plan_from": 1}
        row |= {"execution": "single_pass", "planning": "two_call", "planner_cap": 2048}
        return cls.read(budget | row | changes)

    def merged_with(self, changes: Self | None) -> Self:
        """Return these settings, updated with the fields that the settings of a run set."""
        if changes is None:
            return self
        return self.model_copy(update={n: getattr(changes, n) for n in changes.model_fields_set})

    def set_fields(self, **options: Any) -> dict[str, Any]:  # noqa: ANN401 -- pydantic's
        """Return the fields that were set, as `model_dump` does; the others follow the domain."""
        return self.model_dump(include=self.model_fields_set, **options)

    def for_domain(self, domain: str) -> Self:
        """Return these settings with the defaults of a domain, unless a style or plans were set."""
        defaults, chosen = _DOMAIN_DEFAULTS.get(domain.casefold(), {}), self.model_fields_set
        has_plans = "plan_from" in defaults and "plan_from" in chosen
        if self.method != PLANNED or self.style not in {None, "auto"} or has_plans or not defaults:
            return self
        return self.model_copy(update={n: defaults[n] for n in {*defaults} - (chosen - {"style"})})

    def told(self, tokens: int, level: int | None) -> int:
        """Return the part of a budget or share that the solver is told: none of the thinking."""
        rule = self.budget
        if not isinstance(rule, LevelTable) or not rule.thinking or self.enforcement == "prompt":
            return tokens
        level = level or max(rule.tokens)
        return max(1, tokens * rule.tokens[level] // rule.budget_for(level))

    @property
    def budgets(self) -> dict[int, int]:
        """The solving tokens of a question by its level."""
        rule = self.budget or _PAPER
        return {n: rule if isinstance(rule, int) else rule.budget_for(n) for n in _PAPER.tokens}

    def budget_for(self, level: int | None) -> int:
        """Return the solving tokens of a question; the most of any level if its level is None."""
        return max(self.budgets.values()) if level is None else self.budgets[level]

    def solver_style(self, query: Query) -> str | None:
        """Return the style of the solver; None for a method with a style of its own."""
        own = METHODS[self.method].style
        style = own and (self.style or own)
        if style == "auto":
            style = _DOMAIN_STYLES.get(query["domain"].casefold(), "auto")
        if style == "auto" and self.model_class == "small" and is_sum(query["question"]):
            style = "calculation"
        if style == "calculation" and self.is_stepwise and self.is_planned(query["level"]):
            return "draft"  # no calculation is of a part
        return style

    @property
    def shape(self) -> Schedule:
        """The schedule with its parameters."""
        return _SHAPES[self.schedule] if isinstance(self.schedule, str) else self.schedule

    @property
    def is_paper(self) -> bool:
        """Return whether this is a row of the paper, whose shares are words, rounded down."""
        return self.style == "paper" and self.splits_budget

    @property
    def has_plan(self) -> bool:
        """Return whether the method decomposes the question."""
        return METHODS[self.method].plans

    @property
    def first_planned(self) -> Level | None:
        """The lowest level that is planned: 4 until the class of the model has told the level."""
        return self.plan_from if "plan_from" in self.model_fields_set else 4

    def is_planned(self, level: int | None) -> bool:
        """Return whether a question of a level is decomposed; None for any level."""
        first = self.first_planned
        return self.has_plan and first is not None and (level is None or level >= first)

    @property
    def planner_room(self) -> int:
        """The cap of a planner's call: 384 tokens until the class of the planner has told it."""
        return self.planner_cap or 384

    @property
    def has_budget(self) -> bool:
        """Return whether the question has a budget: the method's own, or an enforced one."""
        method, is_set = METHODS[self.method], self.budget is not None
        return method.budgets or (method.is_prompt and is_set and self.enforcement == "force")

    @property
    def needs_level(self) -> bool:
        """Return whether the plan or the budget depends on the level."""
        return self.is_planned(None) or (self.has_budget and not isinstance(self.budget, int))

    @property
    def splits_budget(self) -> bool:
        """Return whether the method splits its budget across the sub-questions."""
        return METHODS[self.method].splits

    @property
    def needs_credits(self) -> bool:
        """Return whether the split depends on the grades of the sub-questions."""
        return self.splits_budget and self.shape.name != "uniform"

    @property
    def is_stepwise(self) -> bool:
        """Return whether each sub-question gets a call of its own."""
        return self.splits_budget and self.execution == "stepwise"

    def bounds(self, query: Query) -> tuple[int, int]:
        """Return the most completion tokens of planning and of solving; of any level if unknown."""
        level, planning = query["level"], 0
        budget = self.budget_for(level) if self.has_budget else None
        if self.is_planned(level):
            is_estimated = self.needs_credits and self.planning == "two_call"
            planning = self.planner_room * (4 if is_estimated else 2)  # a wrong form: asked again
        if level is None and self.needs_level:
            planning += LEVEL_CAP + 2 * self.planner_room
        if budget is not None and self.enforcement == "force":
            planning = min(planning, budget)  # costs at most the budget once more
        return planning, self.solving_bound(query, budget, self.max_steps if self.has_plan else 1)

    def solving_bound(self, query: Query, budget: int | None, steps: int) -> int:
        """Return the completion tokens that all calls after planning can cost together.

        Args:
            query: The question.
            budget: The solving tokens of the question; None without one.
            steps: The sub-questions, at most.
        """
        limit = METHODS[self.method].limit
        bound = limit(self, query) if limit else self.cutoff
        if budget is None or self.enforcement == "prompt":  # only the cutoff limits a call
            return self.cutoff * (steps + 1) if self.is_stepwise else bound  # + 1: synthesis
        if not self.is_stepwise:
            return min(budget, bound)
        by_call = self.synthesis == "call" and steps > 1
        return budget + (min(self.synthesis_cap(query, budget, 2), self.cutoff) if by_call else 0)

    def synthesis_cap(self, query: Query, budget: int, steps: int) -> int:
        """Return the tokens of the closing call of a plan: of an average step, or of all the text.

        Args:
            query: The question; where it asks for a text, the closing call writes all of it.
            budget: The solving tokens of the question.
            steps: The sub-questions, at least 1.
        """
        return budget if needed_tokens(query) else max(-(-budget // steps), min(MIN_SHARE, budget))


@dataclass(kw_only=True)
class Context:
    """Choices of one run: ``graph.invoke(..., context=Context(...))``, or an assistant's config.

    Attributes:
        settings: Settings of the run. The fields that are set here replace those of the graph.
        model: A chat model, or ``provider:model``, that solves.
        planner: A chat model, or ``provider:model``, that plans.
        planner_program: A `Planner`, a `GraphProgram` or a file; its settings replace the graph's.
        limit: The most that the run may cost, planning included: completion tokens, or a `Budget`.
    """

    settings: Settings | None = None
    model: str | Any = None
    planner: str | Any = None
    planner_program: Any = None
    limit: Any = None

    @classmethod
    def resolve(cls, value: object) -> Self:
        """Return a run's context, or that in the field ``plan_and_budget`` of a host's context."""
        if not isinstance(value, cls | Settings):
            fields = value if isinstance(value, Mapping) else getattr(value, "__dict__", {})
            value = fields.get("plan_and_budget")
        if value is None or isinstance(value, Mapping):
            with suppress(TypeError):  # of a field that a context does not have
                value = cls(**value or {})
        if not isinstance(value, cls):
            msg = f"The context of a run must be a Context, not {value!r:.100}. Give settings as "
            raise InputError(msg + "context=Context(settings=...).")
        require_limit("a context's limit", value.limit)
        settings = None if value.settings is None else Settings.read(value.settings)  # maybe JSON
        return replace(value, settings=settings)


def require_limit(name: str, value: object) -> int | Budget | None:
    """Return the limit that an argument gives; raise InputError for every other value."""
    if value is None or isinstance(value, Budget) or (type(value) is int and value >= 1):
        return value
    msg = f"{name} must be completion tokens, such as 4000, or a Budget, such as Budget(usd=0.50), "
    raise InputError(msg + f"not {value!r:.100}")
