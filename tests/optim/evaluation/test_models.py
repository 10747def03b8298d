"""Who answers and plans in an evaluation, what the logs call them, and how they sample."""

from __future__ import annotations

import runpy
from typing import TYPE_CHECKING, Any

import pytest
from langchain_ollama import ChatOllama

from optim.bench.bench import Models, build_models, model_identity
from optim.bench.store import ReplyCache
from optim.scorers import scorer_code
from pb_graph import InputError
from pb_graph.settings import Settings
from tests.support.chat_model import ScriptedChat

if TYPE_CHECKING:
    from pathlib import Path


class Warm(ScriptedChat):
    """A chat model with a temperature, as providers' have."""

    temperature: float | None = None


def built(folder: Path, model: Any, **options: Any) -> Models:  # noqa: ANN401
    cache = ReplyCache(folder / "replies.sqlite")
    return build_models(model, None, settings=Settings(), cache=cache, **options)


def test_logs_name_a_model_but_not_where_its_file_lies(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "some-model.gguf").write_bytes(b"GGUF")
    monkeypatch.setattr("optim.bench.bench.resolve", lambda *_: ScriptedChat())
    models = built(tmp_path, f"local:{tmp_path}/some-model.gguf")
    assert (models.model, models.planner_model) == ("local:some-model", "local:some-model")


def test_a_model_of_a_name_or_a_copy_of_a_chat_model_gets_the_temperature(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("optim.bench.bench.resolve", lambda *_, **options: Warm(**options))
    model = Warm()
    for spec in ("fake:model", model):
        models = built(tmp_path, spec, temperature=0.7)
        assert models.temperature == models.solver.wrapped.model.temperature == 0.7
        assert models.solver_identity != built(tmp_path, spec).solver_identity
    assert model.temperature is None
    with pytest.raises(InputError, match="ScriptedChat has no temperature"):
        built(tmp_path, ScriptedChat(), temperature=0.7)


def test_a_model_that_tells_nothing_of_itself_is_known_by_its_fields(tmp_path: Path) -> None:
    """Two of them must not have each other's replies; what a class of one's own adds may change."""

    class Counting(ChatOllama):
        calls: int = 0

    first, other = ChatOllama(model="a"), ChatOllama(model="b")
    assert not first._identifying_params
    models = first, other, ChatOllama(model="a", temperature=0.7), Counting(model="a")
    known = [built(tmp_path, model).solver_identity for model in models]
    assert len(set(known)) == 4
    for same, place in ((ChatOllama(model="a"), 0), (Counting(model="a", calls=9), 3)):
        assert built(tmp_path, same).solver_identity == known[place]


def test_the_address_of_a_server_makes_no_other_model() -> None:
    class Served(ScriptedChat):
        base_url: str = "http://one"
        effort: str = "low"

        @property
        def _identifying_params(self) -> dict[str, Any]:
            return {"effort": self.effort, "base_url": self.base_url}

    known = model_identity(Served(), None)
    assert model_identity(Served(base_url="http://two"), None) == known
    assert model_identity(Served(effort="high"), None) != known


def scorer_in(folder: Path, helper: str) -> Any:  # noqa: ANN401 -- a function
    """A scorer that calls a helper of its own module."""
    folder.mkdir()
    (folder / "mine.py").write_text(f"helper = {helper}\nscore = lambda *_: helper\n")
    module = runpy.run_path(str(folder / "mine.py"))
    return module["score"]


def test_a_scorer_is_known_by_its_whole_module(tmp_path: Path) -> None:
    first, mended = scorer_in(tmp_path / "a", "1.0"), scorer_in(tmp_path / "b", "0.5")
    assert scorer_code(first) == scorer_code(scorer_in(tmp_path / "c", "1.0"))
    assert scorer_code(first) != scorer_code(mended)
    assert scorer_code("math") == ""
