"""The report's oracle: from a study's records to shares, waste, the page and JSON."""

from __future__ import annotations

from dataclasses import replace

import pytest

from optim.records import Record, cut_off
from optim.report import as_json, page, studies
from optim.report.groups import reachable
from tests.optim.report.samples import record, records


def test_shares_and_parts_are_there_for_every_row() -> None:
    (one,) = studies(records(errors=False))
    found = reachable(one)
    assert found is not None
    assert list(found.shares) == list(found.waste) == one.methods
    assert all(0 <= (share.ratio or 0) <= 1 for share in found.shares.values())
    for row in one.rows:
        parts = found.waste[row.method]
        total = sum(getattr(parts, name) for name in parts.__slots__)
        assert total == pytest.approx(row.tokens)
    assert not found.oracle.split


def test_with_several_answers_the_halves_choose_for_each_other() -> None:
    (one,) = studies(records(["vanilla", "cosine"], epochs=4, errors=False))
    found = reachable(one)
    assert found is not None
    assert found.oracle.split
    assert "chosen on one half" in page([one])
    assert as_json([one])["studies"][0]["reachable"]["split_halves"]


def test_single_answers_are_marked_as_biased() -> None:
    (one,) = studies(records(["vanilla", "cosine"], errors=False))
    assert "<b>Biased upwards</b>" in page([one])
    best = as_json([one])["studies"][0]["reachable"]
    assert best["biased_upwards"]
    assert best["rows"]["vanilla"]["share"]["ratio"] <= 1


def test_there_is_none_for_a_single_row_for_graded_scores_and_where_nothing_is_shared() -> None:
    for found in (
        records(["vanilla"]),
        [record("vanilla", 0, score=0.5), record("cosine", 0)],
        [record("vanilla", 0), record("cosine", 1)],
    ):
        (one,) = studies(found)
        assert reachable(one) is None
        assert "What could be reached</h3>" not in page([one])


def test_where_nothing_is_right_there_is_no_share() -> None:
    (one,) = studies(records(["vanilla", "cosine"], skill=0, errors=False))
    found = reachable(one)
    assert found is not None
    assert {share.ratio for share in found.shares.values()} == {None}
    assert all(parts.futility == pytest.approx(row.tokens) for parts, row in
               zip(found.waste.values(), one.rows, strict=True))  # fmt: skip


def with_tokens(one: Record, tokens: int, ceiling: int, **settings: object) -> Record:
    """The same, with so many tokens of solving in one call."""
    usage = one.report["usage"]["by_node"]["answer"] | {"output_tokens": tokens}
    whole = one.report["usage"] | {"output_tokens": tokens, "by_node": {"answer": usage}}
    report = one.report | {"usage": whole, "ceiling": ceiling, "steps": []}
    return replace(one, report=report, made_by={"settings": settings})  # type: ignore[arg-type]


def test_what_ran_into_its_cap_is_read_off_the_tokens() -> None:
    plain = record("vanilla", 0)
    assert cut_off(with_tokens(plain, 500, 500))
    assert not cut_off(with_tokens(plain, 499, 500))
    forced = record("global_budget", 0)
    force = {"enforcement": "force", "reserve": 48}
    assert cut_off(with_tokens(forced, 455, 500, **force))
    assert not cut_off(with_tokens(forced, 451, 500, **force))
    assert cut_off(with_tokens(forced, 13, 30, **force))  # a small budget keeps back two thirds
    assert not cut_off(with_tokens(forced, 9, 30, **force))
    told = with_tokens(plain, 90, 500)
    told.report["finish"] = "forced"
    assert cut_off(told)
    told.report["finish"] = "stop"
    assert not cut_off(told)
    steps = record("stepwise", 0)
    steps.report["steps"][0]["finish"] = "forced"
    assert cut_off(steps)
