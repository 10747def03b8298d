"""Optimizers in a scripted world, whose best instruction for accuracy is not the best for E³."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import dspy
import pytest

from optim.datasets.dataset import example_of
from optim.e3 import ReferencePoint
from optim.tuning.evaluator import Evaluator, Reflector, SearchEndedError
from optim.tuning.optimizers import (
    Acceptance,
    EvaluatedProgram,
    OptimizerTask,
    compile_with,
    instruction_in,
    read_instructions,
)
from optim.tuning.options import OPTIMIZERS
from optim.tuning.program import DEFAULT_INSTRUCTIONS, Candidate
from optim.tuning.search import Search, Trial
from pb_graph import InputError, Settings
from tests.support.chat_model import Call, Reply, Said, ScriptedChat
from tests.support.tuning_world import (
    DEV,
    MINIMAL,
    PLAIN,
    REST,
    THOROUGH,
    TRADE_OFF,
    TRAIN,
    Style,
    asked_in,
    bench_in,
    language_model,
    luck,
    original,
    run,
    says,
    texts,
    world,
)

gepa, copro, shortest = map(OPTIMIZERS.__getitem__, ("gepa", "copro", "shortest"))
LEARN, CHOOSE = TRAIN[:10], DEV[:12]


def task(bench: Evaluator, reflection: ScriptedChat | None = None, **fields: Any) -> OptimizerTask:  # noqa: ANN401
    """The work on a few questions."""
    dev = fields.pop("dev", CHOOSE)
    chosen: dict[str, Any] = {
        "train": LEARN,
        "reflector": Reflector(reflection or says(PLAIN, THOROUGH, MINIMAL), bench),
    }
    measured = Trial(original(), bench.measure(original(), dev))
    return OptimizerTask(
        evaluator=bench,
        incumbent=original(),
        reference=ReferencePoint.of(measured.scores, measured.costs),
        dev=dev,
        predictor="decompose",
        **chosen | fields,
    )


def test_an_optimizer_object_of_dspys_brings_its_own_metric(tmp_path: Path) -> None:
    with bench_in(tmp_path) as bench:
        work = task(bench)
        writes = language_model(PLAIN, THOROUGH, MINIMAL)
        own = dspy.COPRO(metric=work.metric(), prompt_model=writes, breadth=4, depth=1)
        assert MINIMAL in texts(compile_with(work, own))
        demos = dspy.BootstrapFewShot(metric=work.metric(), max_bootstrapped_demos=1)
        with pytest.raises(InputError, match="takes examples"):
            compile_with(work, demos)


def test_a_spent_budget_ends_an_optimizer_silently_with_what_it_has(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with bench_in(tmp_path, answers=30) as bench:
        gepa.candidates(task(bench))
        assert bench.answers == 30
    assert capsys.readouterr() == ("", "")


def test_instructions_that_cannot_be_read_end_the_search(tmp_path: Path) -> None:
    with bench_in(tmp_path) as bench:
        assert copro.candidates(task(bench, ScriptedChat(solve="Plan."))) == [original()]
        assert "cannot be read" in str(bench.refusal)


def test_gepa_skips_no_answer_as_perfect(tmp_path: Path) -> None:
    """With scores of 1 and more GEPA skips every minibatch, and nothing is ever proposed."""
    right = {name: Style(1.0, style.words) for name, style in TRADE_OFF.items()}
    train, dev = ([q for q in questions if q.level == 1] for questions in (TRAIN, DEV))
    with bench_in(tmp_path, world(right), answers=120) as bench:
        assert MINIMAL in texts(gepa.candidates(task(bench, train=train, dev=dev)))


def test_gepa_leaves_no_pickle_and_goes_the_same_way_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    found = []
    for name in ("one", "two"):
        with bench_in(tmp_path / name, answers=120) as bench:
            found.append((texts(gepa.candidates(task(bench))), bench.spent()))
    assert found[0] == found[1]
    folders = {path.parent.name for path in tmp_path.rglob("*") if path.is_file()}
    assert folders == {"one", "two"}


def test_gepa_does_not_measure_a_copy_with_other_line_breaks(tmp_path: Path) -> None:
    copied = says(original().text("decompose").replace(" ", "\n"))
    with bench_in(tmp_path, answers=120) as bench:
        gepa.candidates(task(bench, copied))
        assert bench.measured([]) == [original()]


def test_gepas_reflection_model_sees_instruction_plan_and_outcome(tmp_path: Path) -> None:
    model = says(MINIMAL)
    with bench_in(tmp_path, answers=120) as bench:
        gepa.candidates(task(bench, model))
    asked = model.calls[0].ask
    for text in (original().text("decompose"), "follow a usual plan?", "tokens, "):
        assert text in asked
    assert any(question.question in asked for question in TRAIN)


Rows = list[tuple[float, float]]


def minibatch(rows: Rows) -> Any:  # noqa: ANN401
    return SimpleNamespace(objective_scores=[{"accuracy": a, "neg_tokens": -t} for a, t in rows])


@pytest.mark.parametrize(
    ("before", "after", "is_better"),
    [
        ([(1, 100), (0, 100)], [(1, 90), (0, 100)], True),
        ([(1, 100), (0, 100)], [(1, 100), (0, 100)], False),
        # Twice as often right at 3.5 times the tokens: E³ rises, though the tangent's mean falls.
        ([(1, 100), (0, 100)], [(1, 350), (1, 350)], True),
        ([(1, 100), (0, 100)], [(1, 900), (1, 900)], False),
        ([(0, 100), (0, 100)], [(0, 1), (0, 1)], False),
    ],
)
def test_a_minibatch_is_judged_by_e3(before: Rows, after: Rows, *, is_better: bool) -> None:
    proposal: Any = SimpleNamespace(eval_before=minibatch(before), eval_after=minibatch(after))
    assert Acceptance().should_accept(proposal, None) == is_better


def test_the_program_never_raises_and_a_refused_answer_scores_lowest(tmp_path: Path) -> None:
    with bench_in(tmp_path, answers=12) as bench:
        work = task(bench)
        program = EvaluatedProgram(work)
        scores = [
            work.metric()(asked, program(**asked.inputs())).score
            for asked in map(example_of, (DEV[0], TRAIN[0]))
        ]
    assert scores[0] > scores[1] == 0.0


def test_instructions_are_read_between_lines_of_dashes(tmp_path: Path) -> None:
    file = tmp_path / "candidates"
    file.write_text("---\nOne - or two --- words.\n---\n\nTwo,\nin lines.\n---\n")
    found = read_instructions(file, "decompose")
    assert found == ["One - or two --- words.", "Two,\nin lines."]
    with pytest.raises(InputError, match="cannot read the candidates"):
        read_instructions("/nowhere", "decompose")


def test_the_packages_list_has_ten_styles_and_none_for_other_predictors() -> None:
    found = read_instructions(None, "decompose")
    graded = read_instructions(None, "fused")
    assert all(text.startswith(plain) for text, plain in zip(graded, found, strict=True))
    assert len({Candidate(instructions={"decompose": text}) for text in found}) == len(found) >= 10
    assert DEFAULT_INSTRUCTIONS["decompose"] not in found
    with pytest.raises(InputError, match="give --candidates"):
        read_instructions(None, "estimate")


def boxed(call: Call) -> str:
    return rf"\boxed{{{asked_in(call).targets[0]}}}"


def imitates(call: Call) -> Said:
    """Writes half as much for two examples of its own, a third for four; often wrong after six."""
    question = asked_in(call)
    own = sum("so " in str(turn.text) for turn in call.messages if turn.type == "ai")
    right = luck(question) < (0.8 if own < 6 else 0.3)
    words = {0: 120, 2: 60, 4: 40}.get(own, 30) + 10 * (question.level or 1)
    return "so " * words + (boxed(call) if right else r"\boxed{wrong}")


def taught(folder: Path, solve: Any = imitates, **options: Any) -> Search:  # noqa: ANN401
    """Search for examples of the solver."""
    start = Candidate(settings=Settings(method="global_budget", budget=900))
    sets: dict[str, Any] = {"train": LEARN, "dev": CHOOSE, "held_out": REST}
    how = sets | {"start": start, "tuned": "solve", "answers": 200} | options
    return run(folder, how.pop("chosen", shortest), ScriptedChat(solve=solve), **how)


def shown(candidate: Candidate) -> list[str]:
    return [example["problem"] for example in candidate.examples.get("solve", ())]


def test_sets_of_two_four_and_six_right_training_answers_are_tried(tmp_path: Path) -> None:
    found = taught(tmp_path)
    trials = {len(shown(one.candidate)): one for one in found.trials}
    assert set(trials) == {0, 2, 4, 6}
    assert len(shown(found.candidate)) == max(trials, key=lambda size: trials[size].e3) == 4
    known = {question.question: question for question in LEARN}
    for example in trials[6].candidate.examples["solve"]:
        target = known[example["problem"]].targets[0]
        assert example["solution"].endswith(rf"\boxed{{{target}}}")


def test_forced_endings_are_no_examples(tmp_path: Path) -> None:
    def solve(call: Call) -> Said:
        return boxed(call) if call.forced else Reply(reasoning=10**6)

    assert not any(shown(one.candidate) for one in taught(tmp_path, solve).trials)


def test_the_solvers_instruction_is_tuned_by_the_other_optimizers(tmp_path: Path) -> None:
    reflects = says("Be MINIMAL: two lines.")
    taught(tmp_path, chosen=gepa, reflection=reflects)
    prompt = reflects.calls[0].ask
    assert "the instruction that the solver works by" in prompt
    assert "sub-question" not in prompt


@pytest.mark.parametrize(
    ("reply", "instruction"),
    [
        (' "Plan."\n', "Plan."),
        ("Here it is:\n```text\nPlan\nwell.\n```\nDone.", "Plan\nwell."),
        ("Sure:\n<instruction>\nPlan.\n</instruction>\nThe rest remains.", "Plan."),
        ("<instruction>\nPlan.", "Plan."),
        ('Say "none"', 'Say "none"'),
    ],
)
def test_an_instruction_is_found_in_a_reply(reply: str, instruction: str) -> None:
    assert instruction_in(reply) == instruction


def test_the_same_prompt_gets_another_reply_each_time_and_the_same_ones_again_later(
    tmp_path: Path,
) -> None:
    model = says("one", "two", "three")
    for begun in (True, False):
        with bench_in(tmp_path) as bench:
            reflector = Reflector(model, bench)
            assert [reflector.ask(text) for text in "??!"] == ["one", "two", "three"]
            assert (len(model.calls), bench.replies.spent) == (3, 3)
            if not begun:
                assert reflector.ask("?") == "one"  # the third time is new
                assert bench.replies.spent == 4


def test_nothing_is_asked_once_the_budget_is_spent(tmp_path: Path) -> None:
    with bench_in(tmp_path, answers=1) as bench:
        reflector = Reflector(says("one"), bench)
        reflector.ask("?")
        bench.measure(original(), DEV[:1])
        with pytest.raises(SearchEndedError):
            reflector.ask("!")


@pytest.mark.parametrize("reply", ["", "word " * 3000], ids=["empty", "cut off"])
def test_a_reply_without_a_whole_instruction_ends_the_search(reply: str, tmp_path: Path) -> None:
    model = says(reply)
    with bench_in(tmp_path) as bench:
        reflector = Reflector(model, bench)
        for _ in range(2):
            with pytest.raises(SearchEndedError, match="no whole instruction"):
                reflector.ask("?")
    assert len(model.calls) == 1


def test_a_model_named_by_a_string_is_asked_at_a_temperature(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Named(ScriptedChat):
        temperature: float = 0.0

    monkeypatch.setattr("optim.tuning.evaluator.resolve", lambda *_: Named())
    with bench_in(tmp_path) as bench:
        reflector = Reflector("test:m", bench)
    assert (reflector.model.temperature, reflector.name) == (1.0, "test:m")  # type: ignore[attr-defined]
