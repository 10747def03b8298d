"""Short worked examples for the solver, by field: written for this purpose, of no benchmark."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pb_graph.prompts import Example

_MATHEMATICS: tuple[Example, ...] = (
    (
        "The roots of $x^2 - 8x + k = 0$ are positive and one is three times the other. Find $k$.",
        (
            "Let the roots be $r$ and $3r$.\nSum: $r + 3r = 8$, so $4r = 8$ and $r = 2$.\n"
            "The roots are $2$ and $6$.\nProduct: $k = 2 \\cdot 6 = 12$."
        ),
        "12",
    ),
    (
        "Two fair dice are rolled. What is the probability that the sum is at least 10?",
        (
            "There are $6 \\cdot 6 = 36$ outcomes.\nSum 10: $(4,6), (5,5), (6,4)$, so 3.\n"
            "Sum 11: $(5,6), (6,5)$, so 2.\nSum 12: $(6,6)$, so 1.\n"
            "Total: $3 + 2 + 1 = 6$, and $\\frac{6}{36} = \\frac{1}{6}$."
        ),
        r"\frac{1}{6}",
    ),
    (
        "How many positive divisors of 360 are multiples of 6?",
        (
            "$360 = 2^3 \\cdot 3^2 \\cdot 5$.\nExponent of $2$: $1, 2, 3$, so 3 choices.\n"
            "Exponent of $3$: $1, 2$, so 2 choices.\nExponent of $5$: $0, 1$, so 2 choices.\n"
            "Total: $3 \\cdot 2 \\cdot 2 = 12$."
        ),
        "12",
    ),
    (
        "In triangle $ABC$, $AB = 7$, $AC = 5$ and $\\cos A = \\frac{1}{7}$. Find its area.",
        (
            "$\\sin A = \\sqrt{1 - \\frac{1}{49}} = \\frac{4\\sqrt{3}}{7}$.\n"
            "Area: $\\frac{1}{2} \\cdot 7 \\cdot 5 \\cdot \\frac{4\\sqrt{3}}{7} = 10\\sqrt{3}$."
        ),
        r"10\sqrt{3}",
    ),
)
_ARITHMETIC: tuple[Example, ...] = (
    (
        "A cyclist rides 2 hours at 18 km/h, then 3 hours at 12 km/h. How many km is that in all?",
        "2 * 18 = 36\n3 * 12 = 36\n36 + 36 = 72",
        "72",
    ),
    (
        "A box holds 24 pencils. Each of 30 pupils gets 4 pencils. How many boxes are needed?",
        "30 * 4 = 120\n120 / 24 = 5",
        "5",
    ),
    (
        "A coat of $80 is reduced by 25 %, then by another $6. How many dollars does it cost now?",
        "80 * 0.75 = 60\n60 - 6 = 54",
        "54",
    ),
    (
        "Lena is 3 times as old as her son, and in 12 years twice as old. How old is her son now?",
        "3s + 12 = 2(s + 12)\n3s + 12 = 2s + 24\ns = 12",
        "12",
    ),
)
_GENERAL: tuple[Example, ...] = (
    (
        "Which lasts longer, 100 minutes or an hour and a half, and by how much?",
        "An hour and a half = 90 minutes\n100 - 90 = 10",
        "100 minutes, by 10 minutes",
    ),
    (
        "All books here are novels, and some novels are by women. Is a book here by a woman?",
        "The novels by women may all be elsewhere",
        "Not necessarily",
    ),
    (
        "A meeting on Tuesday, 28 February 2023 is put off by two days. When is it now?",
        "2023 is no leap year: 28 February, 1 March, 2 March\nTuesday + 2 days = Thursday",
        "Thursday, 2 March 2023",
    ),
    (
        "Put into the passive voice: The committee has approved the plan.",
        "Subject: the plan\nhas approved -> has been approved",
        "The plan has been approved by the committee.",
    ),
)
_SETS: Mapping[str, tuple[Example, ...]] = {"mathematics": _MATHEMATICS, "arithmetic": _ARITHMETIC}


def examples_for(domain: str) -> tuple[Example, ...]:
    """The package's set for a field of questions; a general one where it has none for it."""
    return _SETS.get(domain.strip().casefold(), _GENERAL)
