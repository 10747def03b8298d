"""Score travel plans of TravelPlanner by the tables of each item, without a language model.

A plan scores 1 if it meets every hard constraint, so the mean score is the benchmark's hard macro
pass rate. Hard constraints are checked only if the plan is complete and within the sandbox, the
item's `reference_information`, as in the official evaluation. Where the official code has
accidental rules, this scorer does what is meant; `tests/benchmarks/travelplanner_agreement.py`
counts how often the two agree. It is stricter: places, flights and drives must be listed by the
item, trains and buses are outside the sandbox, the last attraction of a day is checked, and without
a journey everything must be in the current city, and transport is recognized in lower case. It is
looser: a name that is part of a longer name finds its own row, a full stop does not belong to a
city, and a meal in the city of origin hides no cuisine.
"""

from __future__ import annotations

from statistics import fmean
from typing import TYPE_CHECKING, Any

from optim.scorers.scorer import Score, ScorerError, register
from optim.scorers.travelplanner.constraints import COMMONSENSE, GATES, Case, hard_constraints
from optim.scorers.travelplanner.plan import read_plan
from optim.scorers.travelplanner.trip import Query, Trip, cost
from pb_graph.answers import without_thinking

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from optim.datasets import Question

__all__ = ["TravelPlannerScorer", "rates"]

_UNREAD = "no plan could be read"
_MAX_LENGTH = 100_000  # characters kept from the end; a plan of seven days has five thousand


@register("travelplanner")
class TravelPlannerScorer:
    """Scores 1 for a plan that meets every hard constraint of its question, else 0.

    The question's metadata holds the data set's fields, the score's metadata the result of each
    check, with the reason for a failure.
    """

    def unanswered(self, question: Question) -> Mapping[str, Any]:
        """Return the metadata of an empty answer, which is not delivered and passes no check."""
        return self.score("", question).metadata

    def score(self, output: str, question: Question) -> Score:
        """Score a plan as `Scorer.score`."""
        text = without_thinking(output)[-_MAX_LENGTH:]
        days = read_plan(text)
        try:
            query = Query.from_metadata(question.metadata)
            trip = Trip.from_reference(question.metadata["reference_information"])
            case = Case(query, trip, (days or [])[: query.days])
            metadata = _judge(case, delivered=days is not None)
        except (AttributeError, KeyError, TypeError, ValueError) as error:
            msg = f"{question.id!r} is not a TravelPlanner item: {type(error).__name__} {error}"
            raise ScorerError(msg) from error
        if days is None:
            return Score(0.0, None, _UNREAD, metadata)
        explanation = "; ".join(f"{name}: {reason}" for name, reason in metadata["reasons"].items())
        passed = float(all(metadata["hard"].values()))
        return Score(passed, text, explanation or "keeps every constraint", metadata)


def _judge(case: Case, *, delivered: bool) -> dict[str, Any]:
    """Run every check and return the score's metadata. A failed gate fails all constraints."""
    common = {name: check(case) if delivered else _UNREAD for name, check in COMMONSENSE.items()}
    is_entered = all(common[gate] is None for gate in GATES)
    hard = {
        name: check(case) if is_entered else "not checked: the plan fails a gate"
        for name, check in hard_constraints(case.query.constraints).items()
    }
    # Commonsense checks besides the gates do not change the value, but their reasons are told.
    reasons = common | {f"hard.{name}": reason for name, reason in hard.items()}
    failures = {name: reason for name, reason in reasons.items() if reason is not None}
    return {
        "delivered": delivered,
        "entered": is_entered,
        "commonsense": {name: reason is None for name, reason in common.items()},
        "hard": {name: reason is None for name, reason in hard.items()},
        "reasons": failures if delivered else {},
        "cost": cost(case.query, case.trip, case.days) if is_entered else None,
    }


def rates(items: Sequence[Mapping[str, Any]]) -> dict[str, float]:
    """Return the benchmark's six rates from the scores' metadata, as shares from 0 to 1.

    Micro rates are passed checks among all checks, macro rates items that pass all of them. A plan
    that fails a gate passes no hard constraint, and one that is not delivered no check.
    """
    commonsense = [item["commonsense"].values() for item in items]
    hard = [item["hard"].values() for item in items]
    return {
        "delivery": fmean(item["delivered"] for item in items),
        "commonsense_micro": fmean(passed for item in commonsense for passed in item),
        "commonsense_macro": fmean(map(all, commonsense)),
        "hard_micro": fmean(passed for item in hard for passed in item),
        "hard_macro": fmean(map(all, hard)),
        "final": fmean(all((*a, *b)) for a, b in zip(commonsense, hard, strict=True)),
    }
