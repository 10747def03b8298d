"""The prompts of planner and solver as DSPy signatures.

The docstrings are the instructions, which ``optim`` tunes, and `with_instructions` replaces. The
form of the reply is no part of them, so that no optimizer can break it.
"""

from __future__ import annotations

import dspy

from pb_graph.planner.plans import Difficulty, Level, Plan
from pb_graph.styles import STYLES


class Decompose(dspy.Signature):  # type: ignore[misc]  # dspy carries no types
    """Plan how to do a task, without doing it.

    Write the fewest parts that lead, in order, to what is asked for: two for a task of level 1 or
    2, three of level 3 or 4, up to five of level 5. Each part is a piece of work that the next ones
    build on: a quantity to find, a choice to make, a section or a function to write. Never state
    its outcome, and ask for nothing that is given. No part repeats another. The last part delivers
    exactly what the task asks for ("last"); only where the parts are written one behind the other
    and are the answer together, as the sections of a long text or the days of a trip, do all of
    them ("all"). Add a hint of a few words that names a method, never a result. Write in
    the language of the task.
    """

    domain: str = dspy.InputField(desc="Field", default="")
    problem: str = dspy.InputField(desc="Problem")
    level: str = dspy.InputField(desc="Difficulty", default="")
    correction: str = dspy.InputField(desc="Your last reply could not be used", default="")
    plan: Plan = dspy.OutputField()


class EstimateDifficulty(dspy.Signature):  # type: ignore[misc]
    """Judge how hard a task and its parts are, without doing it.

    Levels run from 1 (easiest) to 5 (hardest), by the ideas, the steps, the knowledge and the
    pitfalls involved. The whole task is worth 100 credits: share them among the parts by how much
    work each one takes.
    """

    domain: str = dspy.InputField(desc="Field", default="")
    examples: str = dspy.InputField(desc="Levels", default="")
    problem: str = dspy.InputField(desc="Problem")
    sub_questions: str = dspy.InputField(desc="Parts", default="")
    level: str = dspy.InputField(desc="Difficulty", default="")
    correction: str = dspy.InputField(desc="Your last reply could not be used", default="")
    difficulty: Difficulty = dspy.OutputField()


class JudgeLevel(dspy.Signature):  # type: ignore[misc]
    """Judge how hard a problem is, from L1 (easiest) to L5 (hardest), without solving it."""

    domain: str = dspy.InputField(desc="Field", default="")
    examples: str = dspy.InputField(desc="Levels", default="")
    problem: str = dspy.InputField(desc="")  # without a label: shorter
    correction: str = dspy.InputField(desc="Your last reply could not be used", default="")
    level: Level = dspy.OutputField()


DecomposeAndEstimate = Decompose.insert(
    1, "examples", dspy.InputField(desc="Levels", default=""), str
).with_instructions(
    f"{Decompose.instructions} Judge the level of each part, from 1 (easiest) to 5 (hardest), and "
    "share 100 credits among the parts by how much work each one takes."
)
"""`Decompose`, which also asks for the level and the credit of each part."""


class Solve(dspy.Signature):  # type: ignore[misc]  # noqa: D101 -- the docstring is set below
    __doc__ = STYLES["auto"].instruction

    problem: str = dspy.InputField(desc="Problem")
    solution: str = dspy.OutputField()
