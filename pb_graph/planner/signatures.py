"""What planner and solver are asked, as DSPy signatures. Their texts are what ``optim`` tunes.

The form of the reply is no part of them: the adapter adds it, so that no optimizer can break it.
"""

from __future__ import annotations

import dspy

from pb_graph.planner.parsing import Difficulty, GradedPlan, Plan
from pb_graph.prompts import SHORT_LINES


class Decompose(dspy.Signature):  # type: ignore[misc]  # dspy carries no types
    """You plan how to solve a problem; you never solve it.

    Split the problem into short sub-questions that, answered in order, lead to the final answer:
    two for an easy problem, up to five for a hard one. Each builds on those before it, and the
    last one asks for the final answer itself. Give each a hint of a few words on how to go about
    it, never a result.
    """

    domain: str = dspy.InputField(desc="Field")
    problem: str = dspy.InputField(desc="Problem")
    level: str = dspy.InputField(desc="Difficulty")
    correction: str = dspy.InputField(desc="Your last reply could not be used")
    plan: Plan = dspy.OutputField()


class EstimateDifficulty(dspy.Signature):  # type: ignore[misc]
    """You judge how hard a problem and its sub-questions are; you never solve them.

    Levels run from 1 (easiest) to 5 (hardest), by the ideas, the steps, the knowledge and the
    pitfalls involved. The whole problem is worth 100 credits: share them among the sub-questions
    by how much work each one takes.
    """

    domain: str = dspy.InputField(desc="Field")
    examples: str = dspy.InputField(desc="Problems of known level")
    problem: str = dspy.InputField(desc="Problem")
    sub_questions: str = dspy.InputField(desc="Sub-questions")
    level: str = dspy.InputField(desc="Difficulty")
    correction: str = dspy.InputField(desc="Your last reply could not be used")
    difficulty: Difficulty = dspy.OutputField()


class DecomposeAndEstimate(dspy.Signature):  # type: ignore[misc]
    """You plan how to solve a problem; you never solve it.

    Split the problem into short sub-questions that, answered in order, lead to the final answer:
    two for an easy problem, up to five for a hard one. Each builds on those before it, and the
    last one asks for the final answer itself. Judge the level of the problem and of each
    sub-question, from 1 (easiest) to 5 (hardest), and share 100 credits among the sub-questions
    by how much work each one takes.
    """

    domain: str = dspy.InputField(desc="Field")
    examples: str = dspy.InputField(desc="Problems of known level")
    problem: str = dspy.InputField(desc="Problem")
    level: str = dspy.InputField(desc="Difficulty")
    correction: str = dspy.InputField(desc="Your last reply could not be used")
    plan: GradedPlan = dspy.OutputField()


class Solve(dspy.Signature):  # type: ignore[misc]  # noqa: D101 -- it has one
    __doc__ = SHORT_LINES

    problem: str = dspy.InputField(desc="Problem")
    solution: str = dspy.OutputField()
