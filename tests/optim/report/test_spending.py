"""The tokens of one question as a drawing."""

from __future__ import annotations

import re
from itertools import pairwise
from typing import Any

from optim.report import plot_spending
from pb_graph import build_graph
from tests.support.chat_model import ScriptedChat, until_forced

QUESTION = {"question": "What is 6 * 7?"}
BAR = re.compile(r'<rect x="([\d.]+)" y="[\d.]+" width="([\d.]+)" height="14" class="part (\w+)')


def _report(solve: Any = "so Final answer: 42", **settings: Any) -> Any:  # noqa: ANN401
    graph = build_graph(ScriptedChat(solve=solve), settings={"budget": 300} | settings)
    return graph.invoke(QUESTION)["report"]


def test_each_part_begins_where_the_one_before_ended_and_none_passes_the_ceiling() -> None:
    report = _report(until_forced, execution="stepwise")
    drawing = str(plot_spending(report).svg)
    bars = [(float(start), float(width)) for start, width, _ in BAR.findall(drawing)]
    assert len(bars) == 2 + len(report["steps"])
    for (start, width), (after, _) in pairwise(bars):
        assert abs(start + width - after) < 0.11
    ceiling = re.search(r'<line x1="([\d.]+)"[^>]* class="limit"', drawing)
    assert ceiling
    assert bars[-1][0] + bars[-1][1] <= float(ceiling[1])
    assert "150 of 195, stopped and asked for its result" in drawing
    assert [kind for *_, kind in BAR.findall(drawing)][-1] == "p5"


def test_it_tells_those_who_do_not_see_it() -> None:
    report = _report(method="plan_and_budget")
    spent = report["usage"]["output_tokens"]
    said = f"{spent} of at most {report['ceiling']} completion tokens: plan 22; estimate 8; "
    assert said in repr(plot_spending(report))


def test_a_ceiling_that_is_far_away_is_only_named() -> None:
    report = _report(enforcement="prompt", execution="stepwise")
    drawing = str(plot_spending(report).svg)
    assert report["ceiling"] > 20_000
    assert 'class="limit"' not in drawing
    assert "ceiling 24\N{NARROW NO-BREAK SPACE}606 \N{RIGHTWARDS ARROW}" in drawing
    assert max(float(width) for _, width, _ in BAR.findall(drawing)) > 100


def test_questions_are_data_and_long_ones_are_shortened() -> None:
    report = _report(execution="stepwise")
    report["ceiling"] = None
    report["steps"][0]["question"] = "<b>" + "x" * 90
    drawing = str(plot_spending(report).svg)
    assert "ceiling" not in drawing
    assert "<b>" not in drawing
    assert "x…" in drawing
