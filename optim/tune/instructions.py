"""Instructions for `Decompose` to choose from: other styles of planning than the package's own."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

__all__ = ["INSTRUCTIONS"]

# The form of the reply is not theirs: the adapter adds it. None of them may ask for a result, or a
# planner would solve instead of planning.
INSTRUCTIONS: Mapping[str, str] = MappingProxyType(
    {
        "terse": (
            "Plan, do not solve. Break the problem into sub-questions of at most eight words "
            "each, in the order in which they are answered. Hints of at most three words. The "
            "last sub-question asks for the final answer."
        ),
        "no hints": (
            "You plan how to solve a problem; you never solve it. Write the sub-questions whose "
            "answers lead to the result, each one short and complete in itself. Leave the hints "
            "out. The last sub-question is what the problem asks for."
        ),
        "fewest steps": (
            "Find the shortest plan that still leads to the answer. Use as few sub-questions as "
            "possible and join what one calculation can do. Ask nothing whose answer already "
            "stands in the problem. Do not solve anything. End with the question of the problem."
        ),
        "two at most": (
            "Split the problem into two sub-questions at most: what has to be found first, and "
            "what the problem asks, given that. Add a hint only where the way is not plain. You "
            "plan; another one solves."
        ),
        "only if needed": (
            "Decide first whether the problem needs a plan. If one short line of thought solves "
            "it, write a single step that repeats what is asked. Otherwise write two to four "
            "sub-questions, one for each real turn in the reasoning. Never solve."
        ),
        "check at the end": (
            "Plan the solution in a few sub-questions, each building on those before it. Let the "
            "last one ask for the final answer together with a quick check: does it fit the "
            "conditions of the problem? Hints name a method, never a number."
        ),
        "by dependency": (
            "List the unknown quantities on which the answer depends, and ask for each of them "
            "once: those that follow from the problem alone come first, those that need others "
            "after them. The last sub-question puts them together into the answer. Hints name "
            "the quantities to use. You never solve."
        ),
        "quantities first": (
            "Let the first sub-question collect the numbers and conditions that matter, leaving "
            "out what has nothing to do with what is asked. Then ask for one calculation at a "
            "time. The last one gives the answer. Write no results."
        ),
        "backwards": (
            "Begin at what is asked: which quantity would give it at once, and what gives that "
            "quantity? Follow this back to what is known, then write the chain forwards as short "
            "sub-questions, the question of the problem last. Plan only."
        ),
        "operations": (
            "Write one sub-question for each operation that the solution needs, and name the "
            "operation in the hint: add, subtract, multiply, divide, compare, substitute, count "
            "cases. At most five. The last one yields the final answer. Solve nothing."
        ),
    }
)
