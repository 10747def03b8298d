"""TravelPlanner: reads a plan without a language model, and checks it by the item's own tables.

A score of 1 means that all hard constraints hold (so the mean is the benchmark's hard macro pass
rate); they are looked at only in a plan that is complete and stays within the sandbox, as in the
official evaluation. What an item's `reference_information` does not list is outside the sandbox.

Where the official evaluation has an accident in its code, this one does what is meant. Stricter
than the official code are:

- places and flights that the item does not list are outside the sandbox, though the official
  tables may know them; so are drives that are listed neither one way nor the other (an item of 5
  or 7 days lists one round trip, the official distance table all pairs of cities);
- the last attraction of a day is checked like the others;
- on a day without a journey, meals and lodging must be in the current city, which the official
  check compares letter by letter;
- trains and buses are outside the sandbox, not free;
- "flight", "self-driving" and "taxi" count in lower case too, also against a wish not to use them.

Looser: a name that is part of another one finds its own row; the full stop of the prompt's own
example ("Romare Bearden Park, Charlotte.") is no part of the city; a meal at home does not hide the
cuisines of the same day's other meals.
"""

from __future__ import annotations

from statistics import fmean
from typing import TYPE_CHECKING, Any

from optim.scorers.base import Score, ScorerError, register
from optim.scorers.travelplanner.constraints import (
    COMMONSENSE,
    GATES,
    Case,
    hard_constraints,
)
from optim.scorers.travelplanner.plan import read_plan
from optim.scorers.travelplanner.trip import Query, Trip, cost
from pb_graph.answers import without_thinking

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from optim.datasets import Question

__all__ = ["TravelPlannerScorer", "rates"]

_UNREAD = "no plan could be read"
_LONGEST = 100_000  # characters kept from the end; a plan of seven days has five thousand


@register("travelplanner")
class TravelPlannerScorer:
    """1 for a plan that keeps every hard constraint of its question, else 0.

    The question's metadata holds the data set's fields: org, days, people_number, budget,
    local_constraint, reference_information, and, where known, visiting_city_number. The score's
    metadata says, for each check and constraint, whether it passed, and the reason when not.
    """

    def score(self, output: str, question: Question) -> Score:
        """Score a plan.

        Raises:
            ScorerError: The question's metadata is not that of a TravelPlanner item.
        """
        text = without_thinking(output)[-_LONGEST:]
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
        said = "; ".join(f"{name}: {reason}" for name, reason in metadata["reasons"].items())
        passed = float(all(metadata["hard"].values()))
        return Score(passed, text, said or "keeps every constraint", metadata)


def _judge(case: Case, *, delivered: bool) -> dict[str, Any]:
    """Run every check. A plan that fails a gate passes no hard constraint."""
    common = {name: check(case) if delivered else _UNREAD for name, check in COMMONSENSE.items()}
    entered = all(common[gate] is None for gate in GATES)
    hard = {
        name: check(case) if entered else "not looked at: the plan fails a gate"
        for name, check in hard_constraints(case.query.constraints).items()
    }
    # Failed gates explain the rest; commonsense does not count in the value, but is worth saying.
    reasons = common | {f"hard.{name}": reason for name, reason in hard.items()}
    told = {name: reason for name, reason in reasons.items() if reason is not None}
    return {
        "delivered": delivered,
        "entered": entered,
        "commonsense": {name: reason is None for name, reason in common.items()},
        "hard": {name: reason is None for name, reason in hard.items()},
        "reasons": told if delivered else {},
        "cost": cost(case.query, case.trip, case.days) if entered else None,
    }


def rates(items: Sequence[Mapping[str, Any]]) -> dict[str, float]:
    """Return the benchmark's six rates, as shares from 0 to 1.

    Args:
        items: `Score.metadata` of each item, at least one.

    Returns:
        ``delivery``: items with a readable plan. ``commonsense_micro``: commonsense checks passed,
        of all; ``commonsense_macro``: items that pass all of them. ``hard_micro``: hard constraints
        passed, of all that the items have (a plan that fails a gate passes none); ``hard_macro``:
        items that pass all of theirs, the mean of the scores. ``final``: items that pass
        everything.
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
