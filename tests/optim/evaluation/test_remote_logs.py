"""Logs in a store such as S3: here one of fsspec's own, in memory."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any
from uuid import uuid4

import fsspec
import pytest

from optim.evaluation import Evaluation
from optim.records import Record, read_records
from pb_graph import InputError
from tests.support.chat_model import ScriptedChat
from tests.support.evaluations import evaluated, leaks_collected, solves, tolerates_inspect

__all__ = ["leaks_collected"]  # applies to every test here

pytestmark = tolerates_inspect


@pytest.fixture
def store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """An address under which nothing is yet."""
    name = f"run-{uuid4().hex}"
    monkeypatch.chdir(tmp_path)
    yield f"memory://{name}"
    fsspec.filesystem("memory").rm(f"/{name}", recursive=True)


def run(model: ScriptedChat, store: str, part: int, **options: Any) -> Evaluation:  # noqa: ANN401
    folder: Any = f"{store}/part-{part}"
    return evaluated(model, folder, **{"part": f"{part}/2", "limit": 12} | options)


def figures(records: list[Record]) -> list[tuple[Any, ...]]:
    return sorted((r.method, r.question, str(r.score), r.tokens, r.output) for r in records)


def test_parts_in_a_store_go_on_unpaid_and_are_pooled_from_there(
    store: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    model = ScriptedChat(solve=solves)
    assert run(model, store, 1, limit_tokens=1, concurrency=1).not_started
    for part in (1, 2, 1):
        run(model, store, part)
    asked = [call.ask for call in model.calls]
    assert len(asked) == len(set(asked)) == 12
    whole = evaluated(ScriptedChat(solve=solves), tmp_path / "whole", limit=12)
    assert figures(read_records(store)) == figures(whole.records)
    assert not list(tmp_path.glob("run-*/*/*.eval"))
    assert len(list(tmp_path.glob("run-*/part-*/replies.sqlite"))) == 2
    with pytest.raises(InputError, match="missing parts: 2"):
        read_records(f"{store}/part-1")
    # The logs are enough on another machine, where all of the part is done.
    (tmp_path / "other").mkdir()
    monkeypatch.chdir(tmp_path / "other")
    run(model, store, 1)
    assert len(model.calls) == len(asked)
