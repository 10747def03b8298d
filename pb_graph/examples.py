"""Short worked examples for the solver, by field: written for this purpose, of no benchmark."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pb_graph.prompts import Example

_MATHEMATICS: tuple[Example, ...] = (
    (
        "For how many positive integers $n$ is $n^2 - 9n + 14$ negative?",
        "n^2 - 9n + 14 = (n - 2)(n - 7) < 0\n2 < n < 7\nn = 3, 4, 5, 6",
        "4",
    ),
    (
        "Two fair dice are rolled. What is the probability that their maximum is 4?",
        "max <= 4: 4^2 = 16 of 36\nmax <= 3: 3^2 = 9 of 36\n16 - 9 = 7",
        r"\frac{7}{36}",
    ),
    (
        "$ABC$ has a right angle at $B$, $AB = 9$, $BC = 12$; $M$ bisects $AC$. What is $[ABM]$?",
        "[ABC] = 9 * 12 / 2 = 54\n[ABM] = 54 / 2 = 27",
        "27",
    ),
    (
        "What is the remainder when $3^{50} + 5^{50}$ is divided by $13$?",
        "mod 13: 3^3 = 1, so 3^50 = 3^2 = 9\n5^2 = -1, so 5^50 = (-1)^25 = -1\n9 - 1 = 8",
        "8",
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
_SETS: Mapping[str, tuple[Example, ...]] = {
    "mathematics": _MATHEMATICS,
    "arithmetic": _ARITHMETIC,
}


def examples_for(domain: str) -> tuple[Example, ...]:
    """The package's set for a field of questions; a general one where it has none for it."""
    return _SETS.get(domain.strip().casefold(), _GENERAL)
