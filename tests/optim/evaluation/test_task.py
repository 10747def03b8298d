"""What a person sees in `inspect view`, and what Inspect's own tools compute."""

from __future__ import annotations

from typing import Any

import pytest
from inspect_ai.event import InfoEvent, ModelEvent, SpanBeginEvent
from inspect_ai.log import EvalLog, EvalSample, list_eval_logs, read_eval_log

from optim.evaluation import Evaluation
from tests.support.chat_model import ScriptedChat
from tests.support.evaluations import (
    evaluated,
    leaks_collected,
    rows,
    solves_the_easy_ones,
    tolerates_inspect,
)

__all__ = ["leaks_collected"]  # applies to every test here

pytestmark = tolerates_inspect


def log_of(found: Evaluation, method: str) -> EvalLog:
    logs = (
        read_eval_log(info, resolve_attachments=True) for info in list_eval_logs(str(found.log_dir))
    )
    return next(log for log in logs if (log.eval.metadata or {})["method"] == method)


def sample_of(log: EvalLog, level: int) -> EvalSample:
    return next(s for s in log.samples or [] if s.metadata["level"] == level)


def events(sample: EvalSample, kind: type[Any]) -> list[Any]:
    return [event for event in sample.events if isinstance(event, kind)]


@pytest.fixture(scope="module")
def found(tmp_path_factory: pytest.TempPathFactory) -> Evaluation:
    model = ScriptedChat(
        solve=solves_the_easy_ones, plan=["What is | given?", "What follows? | add | after 1"]
    )
    folder = tmp_path_factory.mktemp("logs")
    return evaluated(
        model, folder, methods="vanilla,cosine,stepwise", epochs=2, settings={"plan_from": 1}
    )


def test_the_metrics_are_those_of_the_table(found: Evaluation) -> None:
    log, row = log_of(found, "cosine"), next(r for r in rows(found.records) if r.method == "cosine")
    assert log.results
    metrics = {name: metric.value for name, metric in log.results.scores[0].metrics.items()}
    names = ("accuracy", "tokens", "e3", "e3_lower", "e3_upper")
    assert metrics == pytest.approx({name: getattr(row, name) for name in names})


def test_every_call_is_there_under_its_node_and_so_are_plan_and_budgets(found: Evaluation) -> None:
    sample = sample_of(log_of(found, "stepwise"), 3)
    (info,) = events(sample, InfoEvent)
    assert (info.data["level"], info.data["budget"]) == (3, 350)
    assert [step["question"] for step in info.data["steps"]] == ["What is", "What follows?"]
    calls = events(sample, ModelEvent)
    assert [call.model for call in calls] == ["recorded/scripted-1"] * 3
    plan, first, last = calls
    assert "What is" in plan.output.completion
    assert "Solve sub-question 1 now" in first.input[-1].text
    assert "Solve sub-question 2 now" in last.input[-1].text
    assert last.output.completion.startswith("well well well")
    assert last.output.usage.output_tokens == 4
    assert (
        sum(call.output.usage.output_tokens for call in calls)
        == sample.store["report"]["usage"]["output_tokens"]
    )
    spans = [span.name for span in events(sample, SpanBeginEvent)]
    stages = [name for name in spans if name.split()[0] in {"plan", "estimate", "solve", "answer"}]
    assert stages == ["plan", "solve step 1", "solve step 2"]
