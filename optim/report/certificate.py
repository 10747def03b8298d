"""The cheapest row of a study whose loss of accuracy is proven to stay below a bound."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from statistics import fmean
from typing import TYPE_CHECKING, Any, Literal

from optim.datasets.dataset import digest
from optim.statistics.certificate import Trial, front, trials
from optim.statistics.checks import check_confidence
from optim.statistics.estimates import PERCENT
from optim.summary import grouped, scored
from pb_graph.errors import InputError

if TYPE_CHECKING:
    from optim.records import Record

_REFERENCE = "vanilla"

Row = dict[str, list["Record"]]
"""A row's records by question."""


@dataclass(frozen=True, slots=True)
class Certificate:
    """What was tested, and what that proves.

    Attributes:
        certified: The cheapest row whose loss is proven; None where none is.
        reference: The row that it is compared with.
        loss: Points of accuracy that may be lost.
        confidence: In percent, that no row is certified that loses more.
        trials: The tests in their order, up to the first that failed.
        not_tested: Rows that come after the first failure.
        left_out: Rows that were no candidates: on the questions that the order is from, they cost
            no less than the reference, or a cheaper one was as good.
        order: ``split`` where other questions of the same logs told it, or ``given``.
        ordering_questions: How many those were; no test uses them.
        tokens: Mean completion tokens of every row on the questions of the tests; answers that
            never came are left out.
        about: Data set, solver, planner, seed, and the certified row's settings.
        saving: Tokens of the certified row over those of the reference, on the questions that both
            have answered.
    """

    certified: str | None
    reference: str
    loss: float
    confidence: float
    trials: Sequence[Trial]
    not_tested: Sequence[str]
    left_out: Sequence[str]
    order: Literal["split", "given"]
    ordering_questions: int
    tokens: Mapping[str, float]
    about: Mapping[str, Any] = field(default_factory=dict)
    saving: float | None = None

    def to_dict(self) -> dict[str, Any]:
        """Plain JSON, with a digest that shows whether it was changed since."""
        content = asdict(self)
        return content | {"digest": digest(content)}


def certify(  # noqa: PLR0913 -- five choices of one analysis, all with defaults
    records: Sequence[Record],
    *,
    loss: float = 3.0,
    confidence: float = 95.0,
    reference: str | None = None,
    order: Sequence[str] | None = None,
    split: float = 20.0,
    seed: int = 0,
) -> Certificate:
    """Find the cheapest row whose loss of accuracy is proven to stay below a bound.

    An answer that never came counts as wrong for its row, and is left out of the reference: as a
    wrong one it would make the reference easier to match. A question of which the reference has no
    answer is left out.

    Args:
        records: Of one data set, solver and planner.
        loss: Points of accuracy that may be lost, above 0.
        confidence: In percent.
        reference: A row; None for vanilla.
        order: Rows in the order of their tests, chosen without a look at these answers. None lets
            a part of the questions choose it, which the tests then do without.
        split: That part, in percent of the questions.
        seed: Of its draw.

    Raises:
        InputError: No such row, several studies, too few questions, or a number out of its range.
    """
    check_confidence(confidence / PERCENT)
    rows = _rows(records)
    reference = _known(reference or _REFERENCE, rows, "--reference")
    came = {question: scored(found) for question, found in rows[reference].items()}
    rows[reference] = {question: found for question, found in came.items() if found}
    told, kept = _divided(rows[reference], split / PERCENT if order is None else 0.0, seed)
    chosen = _order(rows, reference, told) if order is None else _given(order, rows, reference)
    # An answer that never came is wrong.
    scores = {
        name: {q: [record.score or 0.0 for record in row[q]] for q in kept if q in row}
        for name, row in rows.items()
    }
    found = list(
        trials(
            chosen, scores[reference], scores, loss=loss / PERCENT, confidence=confidence / PERCENT
        )
    )
    proven = [one.row for one in found if one.proven]
    certified = proven[-1] if proven else None
    return Certificate(
        certified=certified,
        reference=reference,
        loss=loss,
        confidence=confidence,
        trials=found,
        not_tested=chosen[len(found) :],
        left_out=[name for name in rows if name not in chosen and name != reference],
        order="split" if order is None else "given",
        ordering_questions=len(told),
        tokens={name: _tokens(row, kept) for name, row in rows.items() if _came(row, kept)},
        about=_about(records[0], rows, certified, seed),
        saving=None if certified is None else _saving(rows[certified], rows[reference], kept),
    )


def _rows(records: Sequence[Record]) -> dict[str, Row]:
    studies = grouped(records, ("dataset", "model", "planner"))
    if len(studies) != 1:
        names = "; ".join(", ".join(key) for key in studies) or "none"
        msg = f"a certificate is about one data set, solver and planner, and the logs hold {names}"
        raise InputError(msg)
    found: dict[str, Row] = {}
    for record in records:
        found.setdefault(record.method, {}).setdefault(record.question, []).append(record)
    return found


def _known(name: str, rows: Mapping[str, Row], option: str) -> str:
    if name not in rows:
        msg = f"no row named {name!r}; choose one with {option}: {', '.join(rows)}"
        raise InputError(msg)
    return name


def _divided(row: Row, share: float, seed: int) -> tuple[list[str], list[str]]:
    """Questions for the order and for the tests, in an order that no answer bears on."""
    if not 0.0 <= share < 1.0:
        msg = f"--split lies between 0 and 100 percent, not at {PERCENT * share:g}"
        raise InputError(msg)
    drawn = sorted(row, key=lambda question: digest([seed, question]))
    count = round(share * len(drawn))
    if len(drawn) == count or (share and not count):
        msg = f"{len(drawn)} questions are too few to choose an order and to test; give --order"
        raise InputError(msg)
    return drawn[:count], drawn[count:]


def _order(rows: Mapping[str, Row], reference: str, questions: Sequence[str]) -> list[str]:
    figures = {
        name: (_tokens(row, questions), fmean(r.score or 0.0 for r in _asked(row, questions)))
        for name, row in rows.items()
        if _came(row, questions)
    }
    return front(figures, reference)


def _given(order: Sequence[str], rows: Mapping[str, Row], reference: str) -> list[str]:
    chosen = [_known(name, rows, "--order") for name in order]
    if reference in chosen or len(set(chosen)) < len(chosen):
        msg = f"--order names each row once, and not the reference {reference!r}"
        raise InputError(msg)
    return chosen


def _asked(row: Row, questions: Sequence[str]) -> list[Record]:
    return [record for question in questions for record in row.get(question, ())]


def _came(row: Row, questions: Sequence[str]) -> list[Record]:
    return scored(_asked(row, questions))


def _tokens(row: Row, questions: Sequence[str]) -> float:
    return fmean(record.tokens for record in _came(row, questions))


def _saving(row: Row, reference: Row, questions: Sequence[str]) -> float | None:
    """Paired: on other questions, a row that was asked the cheap ones only would look cheap."""
    shared = [question for question in questions if _came(row, [question])]
    return _tokens(row, shared) / _tokens(reference, shared) if shared else None


def _about(
    first: Record, rows: Mapping[str, Row], certified: str | None, seed: int
) -> dict[str, Any]:
    about = {
        "dataset": first.dataset,
        "model": first.model,
        "planner": first.planner,
        "seed": seed,
        "data": first.made_by.get("data"),
        "split": first.made_by.get("split"),
    }
    if certified is not None:
        made = next(iter(rows[certified].values()))[0].made_by
        about |= {"date": made.get("date"), "settings": made.get("settings")}
    return about
