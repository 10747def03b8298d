"""Who answers and plans in an evaluation, what the logs call them, and how they sample."""

from __future__ import annotations

import importlib.util
from typing import TYPE_CHECKING, Any

import pytest
from langchain_ollama import ChatOllama

from optim.evaluation.experiment import scorer_code
from optim.evaluation.models import Models, build_models
from optim.evaluation.store import ReplyCache
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
    return build_models(model, None, program=None, settings=Settings(), cache=cache, **options)


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
    monkeypatch.setattr("optim.evaluation.models.resolve", lambda *_: ScriptedChat())
    models = built(tmp_path, given.format(folder=tmp_path))
    assert (models.model, models.planner_model) == (shown, shown)


def test_a_model_made_from_a_name_is_made_with_the_temperature(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: dict[str, float] = {}

    def made(*_: object, **options: float) -> Warm:
        asked.update(options)
        return Warm(**options)

    monkeypatch.setattr("optim.evaluation.models.resolve", made)
    models = built(tmp_path, "fake:model", temperature=0.7)
    assert asked == {"temperature": 0.7}
    assert models.temperature == 0.7
    assert models.solver_identity != built(tmp_path, "fake:model").solver_identity


def test_a_chat_model_is_copied_with_the_temperature_or_refused(tmp_path: Path) -> None:
    model = Warm()
    models = built(tmp_path, model, temperature=0.7)
    assert (models.temperature, model.temperature) == (0.7, None)
    assert models.solver.model.temperature == 0.7  # type: ignore[attr-defined]
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


def scorer_in(folder: Path, helper: str) -> Any:  # noqa: ANN401 -- a function
    """A scorer that calls a helper of its own module."""
    folder.mkdir()
    source = (
        f"def helper(output):\n    return {helper}\n\n\nscore = lambda output, _: helper(output)\n"
    )
    (folder / "mine.py").write_text(source)
    spec = importlib.util.spec_from_file_location("mine", folder / "mine.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module.score


def test_a_scorer_is_known_by_its_whole_module(tmp_path: Path) -> None:
    first, mended = scorer_in(tmp_path / "a", "1.0"), scorer_in(tmp_path / "b", "0.5")
    assert scorer_code(first) == scorer_code(scorer_in(tmp_path / "c", "1.0"))
    assert scorer_code(first) != scorer_code(mended)
    assert scorer_code("math") == ""
