"""Numbered steps: the working in short numbered lines, as five examples show it."""

from __future__ import annotations

from pb_graph.methods.registry import OURS, Asked, method
from pb_graph.prompts import Example, Teaching, Turn, after_examples, exchanges

STYLE = """Solve the problem step by step, one short line for each step: what the step finds, and \
its calculation in full. Do not restate the problem, and do not explain more than the step needs."""

# Written for this purpose, and of no benchmark.
EXAMPLES: tuple[Example, ...] = (
    (
        "The roots of $x^2 - 8x + k = 0$ are positive and one is three times the other. Find $k$.",
        (
            "1. Name the roots: the smaller is $r$, the larger $3r$.\n"
            "2. Their sum is minus the coefficient of $x$: $r + 3r = 8$, so $4r = 8$ and $r = 2$.\n"
            "3. So the roots are $r = 2$ and $3r = 6$.\n"
            "4. Their product is the constant term: $k = 2 \\cdot 6 = 12$."
        ),
        "12",
    ),
    (
        "Two fair dice are rolled. What is the probability that the sum is at least 10?",
        (
            "1. All outcomes: $6 \\cdot 6 = 36$.\n"
            "2. Sum 10: $(4,6), (5,5), (6,4)$, that is 3.\n"
            "3. Sum 11: $(5,6), (6,5)$, that is 2.\n"
            "4. Sum 12: $(6,6)$, that is 1.\n"
            "5. Together: $3 + 2 + 1 = 6$.\n"
            "6. Probability: $\\frac{6}{36} = \\frac{1}{6}$."
        ),
        r"\frac{1}{6}",
    ),
    (
        "For how many integers $n$ with $1 \\le n \\le 100$ is $n^2 + n$ divisible by 7?",
        (
            "1. Factor: $n^2 + n = n(n + 1)$, so 7 divides $n$ or $n + 1$, never both.\n"
            "2. Multiples of 7 up to 100: $7 \\cdot 14 = 98$, so 14 values of $n$.\n"
            "3. $n + 1$ a multiple of 7, from 2 to 101: $7, 14, \\ldots, 98$, so 14 values of "
            "$n$.\n"
            "4. Together: $14 + 14 = 28$."
        ),
        "28",
    ),
    (
        "In triangle $ABC$, $AB = 7$, $AC = 5$ and $\\cos A = \\frac{1}{7}$. Find $BC$.",
        (
            "1. Law of cosines: $BC^2 = AB^2 + AC^2 - 2 \\cdot AB \\cdot AC \\cdot \\cos A$.\n"
            "2. Squares: $AB^2 + AC^2 = 49 + 25 = 74$.\n"
            "3. Last term: $2 \\cdot 7 \\cdot 5 \\cdot \\frac{1}{7} = 10$.\n"
            "4. So $BC^2 = 74 - 10 = 64$.\n"
            "5. A length is positive: $BC = 8$."
        ),
        "8",
    ),
    (
        "Find the smallest value of $x^2 + \\frac{4}{x^2 + 1}$ for real $x$.",
        (
            "1. Put $t = x^2 + 1$, so $t \\ge 1$ and $x^2 = t - 1$.\n"
            "2. The expression becomes $t - 1 + \\frac{4}{t}$.\n"
            "3. By AM-GM, $t + \\frac{4}{t} \\ge 2\\sqrt{4} = 4$, with equality at $t = 2$.\n"
            "4. $t = 2$ is allowed, as $x^2 = 1$.\n"
            "5. The smallest value: $4 - 1 = 3$."
        ),
        "3",
    ),
)


@method("numbered_steps", "Shows solutions in short numbered lines, to imitate.", source=OURS)
def numbered_steps(asked: Asked) -> list[Turn]:
    """A style between drafts and prose: enough is written to be right, and nothing beside it."""
    return after_examples(asked.query, Teaching(STYLE, exchanges(asked.query, EXAMPLES)))
