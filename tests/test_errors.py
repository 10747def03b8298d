"""Our exceptions, as other processes get them: from a pool of workers, or from Ray."""

from __future__ import annotations

import pickle
from typing import Any

import pytest

from pb_graph import BudgetUsedUpError, ModelCallError, NoAnswerError, PlanAndBudgetError

LOST: Any = ({"output_tokens": 7},)
REPORT: Any = {"usage": {"output_tokens": 7}}


@pytest.mark.parametrize(
    "error",
    [
        PlanAndBudgetError("said"),
        ModelCallError("said", 404, LOST),
        BudgetUsedUpError("5 tokens"),
        NoAnswerError("said", REPORT),
    ],
    ids=lambda error: type(error).__name__,
)
def test_another_process_gets_an_error_whole(error: PlanAndBudgetError) -> None:
    found = pickle.loads(pickle.dumps(error))  # noqa: S301 -- as multiprocessing does
    assert (type(found), str(found), vars(found)) == (type(error), str(error), vars(error))
