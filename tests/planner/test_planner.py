"""The planner program: tuned text that is saved as JSON, and files that are refused."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import dspy
import pytest

from pb_graph.errors import PlannerProgramError
from pb_graph.planner.adapter import TerseAdapter
from pb_graph.planner.parsing import Difficulty, GradedPlan, Level, Plan, PlannedStep
from pb_graph.planner.planner import Planner, load_planner
from pb_graph.planner.signatures import Decompose
from pb_graph.program import FORMAT, MAX_FILE_BYTES, PlannerProgram

STEPS = [
    PlannedStep(question="First?", hint="look", depends_on=[], level=2, credit=30),
    PlannedStep(question="Second?", depends_on=[0], level=3, credit=70),
]
EXAMPLES: dict[str, dict[str, Any]] = {
    "decompose": {"plan": Plan(steps=[step.model_copy(update={"level": None}) for step in STEPS])},
    "estimate": {"difficulty": Difficulty(level=2, levels=[2, 3], credits=[30, 70])},
    "fused": {"plan": GradedPlan(steps=STEPS, level=2)},
}


def tuned() -> Planner:
    planner = Planner()
    for name, shown in EXAMPLES.items():
        predictor = getattr(planner, name)
        predictor.signature = predictor.signature.with_instructions(f"Tuned {name}: ünïcode")
        demo = dspy.Example(problem="Old problem", **shown).with_inputs("problem")
        predictor.demos = [demo, {"problem": "Older"} | shown]
    return planner


def teaching() -> Planner:
    planner = tuned()
    planner.solve.signature = planner.solve.signature.with_instructions("Tuned solve")
    planner.solve.demos = [dspy.Example(problem="1 + 1?", solution="2"), {"question": "no demo"}]
    return planner


def prompts(planner: Planner) -> list[list[dict[str, Any]]]:
    """What each predictor would send, which is all that matters of it."""
    return [
        TerseAdapter("FORM").format(predictor.signature, predictor.demos, {"problem": "New"})
        for _, predictor in planner.named_predictors()
    ]


@pytest.fixture
def saved(tmp_path: Path) -> Path:
    path = tmp_path / "planner.json"
    tuned().save(path)
    return path


def changed(path: Path, **fields: object) -> Path:
    document = json.loads(path.read_text(encoding="utf-8"))
    path.write_text(json.dumps(document | fields), encoding="utf-8")
    return path


def with_state(path: Path, **fields: object) -> Path:
    """The saved program with parts of its first predictor replaced."""
    state = json.loads(path.read_text(encoding="utf-8"))["state"]
    return changed(path, state=state | {"decompose": state["decompose"] | fields})


def test_the_planner_has_the_predictors_that_optimizers_tune() -> None:
    names = [name for name, _ in Planner().named_predictors()]
    assert names == ["decompose", "estimate", "fused", "solve", "level"]


def test_instructions_and_examples_survive_saving_and_loading(saved: Path) -> None:
    loaded = Planner().load(saved)
    assert loaded.decompose.signature.instructions == "Tuned decompose: ünïcode"
    assert prompts(loaded) == prompts(tuned())


def test_what_the_solver_is_taught_is_in_the_same_file(tmp_path: Path) -> None:
    teaching().save(tmp_path / "taught.json")
    loaded = Planner().load(tmp_path / "taught.json")
    assert loaded.teaching == ("Tuned solve", [("1 + 1?", "2")])
    assert prompts(loaded)[:3] == prompts(tuned())[:3]


def test_a_program_that_teaches_nothing_is_saved_as_before_and_unteaches(saved: Path) -> None:
    assert "solve" not in PlannerProgram.load(saved).state
    assert teaching().load(saved).teaching is None


def test_saving_what_was_loaded_changes_nothing(saved: Path, tmp_path: Path) -> None:
    again = tmp_path / "again.json"
    Planner().load(saved).save(again)
    assert again.read_text(encoding="utf-8") == saved.read_text(encoding="utf-8")


def test_the_file_is_json_that_a_person_can_read(saved: Path) -> None:
    text = saved.read_text(encoding="utf-8")
    assert set(json.loads(text)) == {"format", "version", "fingerprint", "state"}
    assert "Tuned decompose: ünïcode" in text


def test_the_fingerprint_is_of_the_fields_not_of_the_text() -> None:
    assert Planner().fingerprint() == tuned().fingerprint()
    names = [*EXAMPLES, "solve"]
    assert Planner().fingerprint(names) == teaching().fingerprint()
    other = Planner()
    other.decompose = dspy.Predict(Decompose.append("reason", dspy.OutputField(), str))
    assert other.fingerprint() != Planner().fingerprint()


def test_a_program_of_another_version_is_refused(saved: Path) -> None:
    with pytest.raises(PlannerProgramError, match=r"other fields.*Tune again"):
        Planner().load(changed(saved, fingerprint="0123456789abcdef"))


@pytest.mark.parametrize("text", ["[]", "1", '{"format": "something else"}', '{"decompose": {}}'])
def test_foreign_json_is_refused(tmp_path: Path, text: str) -> None:
    path = tmp_path / "foreign.json"
    path.write_text(text, encoding="utf-8")
    with pytest.raises(PlannerProgramError, match=r"no planner program.*Planner\.save"):
        Planner().load(path)


@pytest.mark.parametrize(
    "content", [b"", b"{", b"\x80\x04K\x01.", b"\xff\xfe", b"[" * 100_000], ids=repr
)
def test_what_is_no_json_is_refused(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "planner.json"
    path.write_bytes(content)
    with pytest.raises(PlannerProgramError, match=r"not JSON.*Planner\.save"):
        Planner().load(path)


def test_no_pickle_is_ever_opened(tmp_path: Path) -> None:
    path = tmp_path / "planner.pkl"
    path.write_bytes(b"cos\nsystem\n(S'touch " + str(tmp_path / "ran").encode() + b"'\ntR.")
    with pytest.raises(PlannerProgramError, match="not JSON"):
        Planner().load(path)
    assert not (tmp_path / "ran").exists()


@pytest.mark.parametrize("path", [Path("nowhere") / "planner.json", Path()])
def test_a_file_that_cannot_be_read_says_why(path: Path) -> None:
    with pytest.raises(PlannerProgramError, match=r"Cannot read .*: (No such file|Is a directory)"):
        Planner().load(path)


def test_a_huge_file_is_not_even_read(tmp_path: Path) -> None:
    path = tmp_path / "planner.json"
    with path.open("wb") as file:
        file.truncate(MAX_FILE_BYTES + 1)
    with pytest.raises(PlannerProgramError, match="too large"):
        Planner().load(path)


@pytest.mark.parametrize("state", [None, [], {}, "text", {"decompose": {}}], ids=repr)
def test_a_damaged_state_is_refused(saved: Path, state: object) -> None:
    with pytest.raises(PlannerProgramError, match=r"damaged.*Save it again"):
        Planner().load(changed(saved, state=state))


@pytest.mark.parametrize(
    "fields",
    [
        {"demos": "text"},
        {"demos": [7]},
        {"demos": None},
        {"demos": [{"problem": "Q", "plan": {"steps": 3}}]},
        {"signature": {"instructions": 5, "fields": []}},
        {"signature": None},
    ],
    ids=repr,
)
def test_damaged_parts_are_found_when_loading_not_when_planning(
    saved: Path, fields: dict[str, object]
) -> None:
    with pytest.raises(PlannerProgramError, match=r"(?s)damaged.*Save it again"):
        Planner().load(with_state(saved, **fields))


def test_a_file_without_a_state_is_damaged(tmp_path: Path) -> None:
    path = tmp_path / "planner.json"
    document = {"format": FORMAT, "version": 1, "fingerprint": Planner().fingerprint()}
    path.write_text(json.dumps(document), encoding="utf-8")
    with pytest.raises(PlannerProgramError, match="damaged"):
        Planner().load(path)


def test_a_program_may_be_given_in_any_form_or_not_at_all(saved: Path) -> None:
    planner = tuned()
    assert load_planner(planner) is planner
    assert prompts(load_planner(saved)) == prompts(load_planner(str(saved))) == prompts(planner)
    assert prompts(load_planner(PlannerProgram.load(saved))) == prompts(planner)
    assert prompts(load_planner(None)) == prompts(Planner())


def test_a_class_that_is_renamed_or_documented_otherwise_leaves_programs_usable() -> None:
    class Elsewhere(Plan):
        """Other words."""

    moved = Planner()
    moved.decompose.signature = Decompose.with_updated_fields("plan", type_=Elsewhere)
    assert moved.fingerprint() == Planner().fingerprint()


def test_an_output_of_another_form_does_not_fit() -> None:
    other = Planner()
    other.decompose.signature = Decompose.with_updated_fields("plan", type_=GradedPlan)
    assert other.fingerprint() != Planner().fingerprint()


def test_a_program_that_was_saved_under_the_first_fingerprint_still_fits(saved: Path) -> None:
    old = changed(saved, fingerprint="d5a2d5462caf5b40")
    assert prompts(Planner().load(old)) == prompts(tuned())


def test_what_was_added_later_is_saved_where_it_is_tuned(saved: Path, tmp_path: Path) -> None:
    assert set(json.loads(saved.read_text(encoding="utf-8"))["state"]) == set(EXAMPLES)
    planner = tuned()
    planner.level.signature = planner.level.signature.with_instructions("Tuned level")
    planner.level.demos = [{"problem": "Old problem", "level": Level(level=4)}]
    planner.save(tmp_path / "with_level.json")
    loaded = Planner().load(tmp_path / "with_level.json")
    assert prompts(loaded) == prompts(planner)
    assert prompts(loaded)[-1][2]["content"] == "L4"
    assert prompts(loaded.load(saved)) == prompts(tuned())
