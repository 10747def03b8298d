"""Who answers and plans in an evaluation, and what the logs call them."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from optim.clients import hire
from optim.journal import Journal

from pb_graph.settings import Settings
from tests.support.chat_model import ScriptedChat

if TYPE_CHECKING:
    from pathlib import Path


@pytest.mark.parametrize(
    ("given", "shown"),
    [
        ("local:{folder}/some-model.gguf", "local:some-model"),
        ("fake:some-model", "fake:some-model"),
    ],
)
def test_logs_name_a_model_but_not_where_its_file_lies(
    given: str, shown: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "some-model.gguf").write_bytes(b"GGUF")
    monkeypatch.setattr("optim.clients.resolve", lambda *_: ScriptedChat())
    staff = hire(
        given.format(folder=tmp_path),
        None,
        program=None,
        settings=Settings(),
        plans=Journal(tmp_path / "plans.jsonl"),
        pay=lambda _: None,
    )
    assert (staff.model, staff.planner_model) == (shown, shown)
