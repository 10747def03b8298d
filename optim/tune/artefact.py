"""The record of a tuning, in the file that is deployed: what was tried, and the evidence.

A planner program (`pb_graph.program`) carries it unread. Format version 1: what earlier versions
wrote is read, and fields that they did not have are optional.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import AwareDatetime, BaseModel, ConfigDict, Field, ValidationError

from optim.report import formatting
from pb_graph.errors import PlannerProgramError
from pb_graph.program import PlannerProgram, Text, damaged
from pb_graph.settings import Settings

MAX_CANDIDATES = 500
"""More than the widest search of settings proposes."""

_Count = Annotated[int, Field(ge=0)]
_Amount = Annotated[float, Field(ge=0)]
_Percent = Annotated[float, Field(ge=0, le=100)]
_Role = Literal["original", "reference", "chosen", "other"]


class _Part(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)


class Figure(_Part):
    """A measured figure and the ends of its 95 % interval, None where there is none."""

    value: _Amount
    lower: _Amount | None = None
    upper: _Amount | None = None

    @property
    def ends(self) -> tuple[float | None, float | None]:
        """Of the interval."""
        return self.lower, self.upper


class Measured(_Part):
    """What a program achieved: A in percent, T in completion tokens with planning, E³ = A²/T."""

    questions: Annotated[int, Field(ge=1)]
    accuracy: Figure
    tokens: Figure
    e3: Figure


class Paired(_Part):
    """The tuned program against the original on the same questions, paired by question.

    Attributes:
        ratio: E³ of the tuned over that of the original; None when the latter is 0.
        lower: Lower end of the ratio's interval; None where the log scale does not apply.
        upper: Upper end, likewise.
        p_value: Two-sided, for equal E³.
        probability_better: Share of resampled question sets on which the tuned one is better;
            None below 30 questions or where no score differs, as it promises too much there.
        probability_higher: One-sided confidence that the tuned one's E³ is higher.
        accuracy_difference: In percentage points.
        tokens_ratio: Mean tokens of the tuned over those of the original.
        tokens_lower: Lower end of its interval.
        tokens_upper: Upper end.
        discordant: On how many questions the two scores differ; None in earlier files.
        questions: How many are compared.
        confidence: Nominal coverage of the interval.
    """

    ratio: _Amount | None = None
    lower: _Amount | None = None
    upper: _Amount | None = None
    p_value: _Amount | None = None
    probability_better: _Amount | None = None
    probability_higher: _Amount | None = None
    accuracy_difference: float
    tokens_ratio: _Amount | None = None
    tokens_lower: _Amount | None = None
    tokens_upper: _Amount | None = None
    discordant: _Count | None = None
    questions: _Count
    confidence: float


class SplitRecord(_Part):
    """Before and after on one split; without another program to compare, both are the same."""

    before: Measured
    after: Measured
    paired: Paired | None = None


class CandidateRecord(_Part):
    """One program that was proposed.

    Attributes:
        name: Short, unique within the tuning.
        role: The original, one that is measured for reference only, the chosen one, or any other.
        instructions: Tuned texts by predictor; empty for the original's.
        settings: The fields that differ from the original's settings.
        examples: How many worked examples it shows, by predictor; those of the package are not
            counted.
        questions: On how many it was measured; fewer than others when it was given up early, 0
            when it was not measured at all.
        accuracy: Percent; None without a question, as the next three.
        tokens: Mean completion tokens per query.
        input_tokens: Mean prompt tokens per query; None in files of earlier versions, too.
        e3: A²/T.
        fell: Why it is not what is used now; None for what is, and in files of earlier versions.
    """

    name: Text
    role: _Role = "other"
    instructions: dict[str, Text] = Field(default_factory=dict)
    settings: dict[str, Any] = Field(default_factory=dict)
    examples: dict[str, _Count] = Field(default_factory=dict)
    questions: _Count
    accuracy: _Percent | None = None
    tokens: _Amount | None = None
    input_tokens: _Amount | None = None
    e3: _Amount | None = None
    fell: Text | None = None

    @property
    def other(self) -> str:
        """What differs from the original beside instructions, in a few words."""
        shown = [f"{count} examples for {name}" for name, count in self.examples.items()]
        return ", ".join(filter(None, [formatting.settings(self.settings), *shown]))

    @property
    def is_measured(self) -> bool:
        """Whether it met any question."""
        return self.questions > 0


class Models(_Part):
    """Names of the models; never their addresses or keys."""

    solver: Text
    planner: Text
    reflection: Text | None = None


class Data(_Part):
    """Which questions were used: the data set, its fingerprint, and the sizes of the splits."""

    name: Text
    fingerprint: Text
    train: _Count
    dev: _Count
    held_out: _Count


class Cost(_Part):
    """What the tuning took.

    Attributes:
        metric_calls: Questions answered.
        tokens: Completion tokens of all models, reflection included.
        seconds: Wall time.
    """

    metric_calls: _Count
    tokens: _Count
    seconds: _Amount


class Tuning(_Part):
    """How the program was come by.

    Attributes:
        date: When, with its time zone; written in UTC.
        optimizer: Who searched.
        seed: Of the search.
        verdict: ``better``, ``undecided`` (the program holds the winner of dev in both) or
            ``kept``; ``adopted`` in files of earlier versions, which did not tell the first two
            apart.
        reason: Why, in a sentence.
        models: Who solved, planned and reflected.
        data: On what.
        versions: Package to version.
        settings_before: What the original was measured with.
        dev: Before and after where the choice was made.
        held_out: Before and after where it was judged.
        cost: What it took.
        candidates: What was proposed, `MAX_CANDIDATES` at most.
        left_out: How many more there were.
        made_by: How it came about, as far as the command knows: the command itself, data file or
            repository, split, and scorer. Empty where a notebook called `tune`, and in earlier
            files.
    """

    date: AwareDatetime
    optimizer: Text
    seed: int
    verdict: Literal["better", "undecided", "kept", "adopted"]
    reason: Text
    models: Models
    data: Data
    versions: dict[str, Text]
    settings_before: Settings
    dev: SplitRecord
    held_out: SplitRecord | None = None
    cost: Cost
    candidates: tuple[CandidateRecord, ...] = Field(default=(), max_length=MAX_CANDIDATES)
    left_out: _Count = 0
    made_by: dict[str, Any] = Field(default_factory=dict)

    @property
    def adopted(self) -> bool:
        """Whether the winner of dev is what the program holds."""
        return self.verdict != "kept"


def tuning_of(program: PlannerProgram) -> Tuning | None:
    """Read the record that a program carries; None for prompts written by hand.

    Raises:
        PlannerProgramError: It is damaged, or of a version to come.
    """
    if program.tuning is None:
        return None
    try:
        return Tuning.model_validate(program.tuning)
    except ValidationError as error:
        raise PlannerProgramError(damaged("The planner program", error, "tuning")) from error


def changed(settings: Settings, base: Settings) -> dict[str, Any]:
    """The fields that differ from the base, as plain JSON."""
    ours, theirs = settings.model_dump(mode="json"), base.model_dump(mode="json")
    return {name: value for name, value in ours.items() if value != theirs[name]}
