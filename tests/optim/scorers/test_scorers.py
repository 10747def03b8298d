"""Scorers by name, by file, of Inspect and of DSPy; those of short texts, and ROUGE."""

from __future__ import annotations

from pathlib import Path
from typing import Any
from unittest.mock import patch

import pytest
from hypothesis import given
from hypothesis import strategies as st
from inspect_ai.model import ModelOutput, ModelUsage, get_model
from inspect_ai.scorer import Score as TheirScore
from inspect_ai.scorer import Target, accuracy, match, model_graded_qa, pattern, scorer
from inspect_ai.solver import TaskState
from rouge_score.rouge_scorer import RougeScorer as OfficialScorer

from optim.datasets import Question
from optim.scorers import NAMES, Score, ScorerError, as_scorer, register, scorer_code, scorer_name
from optim.scorers.scorer import SCORERS
from optim.scorers.texts import RougeScorer
from pb_graph.errors import InputError
from tests.support.chat_model import ScriptedChat
from tests.support.evaluations import evaluated, leaks_collected, solves, tolerates_inspect

QUESTION = Question("q", "Where?", targets=("Paris", "Lyon"))


@pytest.mark.parametrize("name", NAMES)
def test_every_name_makes_a_scorer(name: str) -> None:
    assert callable(as_scorer(name).score)


@patch.dict(SCORERS)  # takes it away again at the end
def test_a_scorer_is_one_function_under_the_decorator() -> None:
    @register("exact")
    def exact(output: str, question: Question) -> bool:
        return output.strip() in question.targets

    assert "exact" in NAMES
    assert [as_scorer("exact").score(text, QUESTION).value for text in ("Paris ", "Rome")] == [1, 0]
    with pytest.raises(InputError, match=r"math, .*rouge.*exact; did you mean 'rouge'"):
        as_scorer("rogue")


def test_names_objects_classes_and_functions_are_scorers() -> None:
    made = RougeScorer()
    assert as_scorer(made) is made
    assert isinstance(as_scorer("rouge"), RougeScorer)
    assert isinstance(as_scorer(RougeScorer), RougeScorer)
    assert as_scorer(lambda output, _: len(output) / 10).score("12345", QUESTION).value == 0.5
    whole = Score(0.25, "x", "because", {"why": 1})
    assert as_scorer(lambda _, __: whole).score("", QUESTION) is whole


def test_a_scorer_of_ones_own_is_named_by_its_file(tmp_path: Path) -> None:
    file = tmp_path / "mine.py"
    file.write_text("from beside import GOLD\ndef exact(output, question): return output in GOLD\n")
    file.with_name("beside.py").write_text("GOLD = ['Paris']\n")
    name = f"{file}:exact"
    assert as_scorer(name).score("Paris", QUESTION).value == 1.0
    assert (scorer_name(name), len(scorer_code(name))) == ("exact", 32)
    assert scorer_code(name) == scorer_code(as_scorer(name))
    for wrong in (f"{file}:exakt", f"{tmp_path}/yours.py:exact", "no_module:exact"):
        with pytest.raises(InputError, match=r"cannot import .*Give module:NAME or FILE\.py:NAME"):
            as_scorer(wrong)


def test_the_digest_of_a_scorer_covers_all_that_decides_its_verdict(tmp_path: Path) -> None:
    with patch.object(Path, "read_text", autospec=True, side_effect=Path.read_text) as read:
        math = scorer_code("math")
    assert {"worker.py", "answers.py"} <= {call.args[0].name for call in read.call_args_list}
    assert len({math, scorer_code("rouge"), scorer_code("travelplanner")}) == 3
    mine = tmp_path / "judge.py"
    mine.write_text("from helper import of\ndef judge(output, question): return of(output)\n")
    mine.with_name("helper.py").write_text("def of(text): return 1.0\n")
    before = scorer_code(f"{mine}:judge")
    mine.with_name("helper.py").write_text("def of(text): return 0.0\n")
    assert scorer_code(f"{mine}:judge") != before


@pytest.mark.parametrize(
    "metric",
    [
        lambda gold, pred, trace=None: gold == pred,  # noqa: ARG005
        lambda example, pred, trace, pred_name, pred_trace: 1.0,  # noqa: ARG005
        lambda output: 1.0,  # noqa: ARG005
    ],
)
def test_a_metric_of_dspy_has_to_be_wrapped(metric: Any) -> None:  # noqa: ANN401
    with pytest.raises(InputError, match=r"takes \(output, question\), but .*from_dspy"):
        as_scorer(metric)


async def later(output: str, question: Question) -> float:
    return float(output in question.targets)


@pytest.mark.parametrize("value", [7, later])
def test_what_is_no_scorer_is_refused(value: object) -> None:
    with pytest.raises(ScorerError, match=r"is not a scorer: give one of .*rouge"):
        as_scorer(value)  # type: ignore[arg-type]


@pytest.mark.parametrize("result", [2, None, float("nan")])
def test_a_function_that_gives_no_score_is_an_error_not_a_0(result: object) -> None:
    with pytest.raises(ScorerError, match=r"the scorer .* failed"):
        as_scorer(lambda _, __: result).score("", QUESTION)  # type: ignore[arg-type,return-value]


__all__ = ["leaks_collected"]

pytestmark = tolerates_inspect

CHOICES = {"choices": ["Rome", "Paris", "Oslo"]}
LETTER = Question("c", "Where?", targets=("B",), metadata=CHOICES)


@scorer(metrics=[accuracy()])
def gives(value: Any) -> Any:  # noqa: ANN401 -- whatever a scorer may give
    async def score(state: TaskState, target: Target) -> TheirScore | None:
        del state, target
        return None if value is None else TheirScore(value=value, explanation="so")

    return score


@pytest.mark.parametrize(
    ("made", "output", "value"),
    [
        (match(), r"It is \boxed{Lyon}", 1),
        (match(), "Paris, or so", 0),
        (pattern(r"in (\w+)"), "He lives in Paris.", 1),
    ],
)
def test_stock_scorers_judge_the_answer_by_the_targets(made: Any, output: str, value: int) -> None:  # noqa: ANN401
    assert as_scorer(made).score(output, QUESTION).value == value


CHOICES = [
    (r"So \boxed{B}", 1), ("Final answer: B) Paris", 1), (r"\boxed{B) -3}", 1),
    ("**Answer:** B", 1), ("It is Paris, so the answer is (B). That is all.", 1),
    ("<think>The answer is A.</think>B", 1), (r"\boxed{\mathbf{B}}", 1), ("ANSWER: [B]", 1),
    ("ANSWER: <B>", 1), ('***"B"***', 1), ("There are $\\boxed{3}$.\n答案\N{FULLWIDTH COLON}B", 1),
    ("The correct option is B, since it is Paris.", 1),
    *[(said, 1) for said in ("<answer>B</answer>", '{"answer": "B"}', "B is correct.")],
    *[(said, 1) for said in ("Final answer: B - Paris", r"Answer: \(B\)", "故选B。")],
    *[(said, 0) for said in ("A - B", "不选B", "It is a B or C")],
    ("The answer is B because it is Paris.", 1), (r"\boxed{A}", 0), ("Answer: B, C", 0),
    ("B and C", 0), ("Best of all.", 0), (r"\boxed{A, B}", 0), ("B: Paris, C: Oslo", 0),
    (r"\boxed{B) C)}", 0), ("A big B in the text", 0),
]  # fmt: skip


@pytest.mark.parametrize(("output", "value"), CHOICES)
def test_choice_reads_the_letter_that_is_stated(output: str, value: int) -> None:
    assert as_scorer("choice").score(output, LETTER).value == value


@pytest.mark.parametrize(
    ("target", "output", "value"),
    [
        ("Paris", "It is **Paris**!", 1),
        ("72", r"\boxed{72}", 1),
        ("72", "It is `72`.", 1),
        ("北京", "首都是北京。", 1),
        ("2", "The total is 72", 0),
        ("9", "It is 3.9", 0),
        ("5", "It is -5", 0),
        ("1/2", "3 1/2", 0),
        ("5", "It is >= 5", 0),
        ("Paris", "It is not Paris.", 0),
        ("no", "A casino", 0),
        ("Paris", "Paris, or so", 0),
    ],
)
def test_match_takes_whole_words_and_numbers(target: str, output: str, value: int) -> None:
    assert as_scorer("match").score(output, Question("q", "?", targets=(target,))).value == value


@pytest.mark.parametrize(("value", "worth"), [("C", 1), ("P", 0.5), ("I", 0), (0.25, 0.25)])
def test_their_words_and_numbers_are_scores(value: str | float, worth: float) -> None:
    assert as_scorer(gives(value)).score("x", QUESTION).value == worth


@pytest.mark.parametrize("value", [None, "maybe", 7, [1, 0]])
def test_what_is_no_single_score_is_an_error_not_a_0(value: object) -> None:
    with pytest.raises(ScorerError, match=r"the scorer gives failed"):
        as_scorer(gives(value)).score("x", QUESTION)


def test_other_arguments_are_another_scorer_and_no_key_is_told() -> None:
    judge = get_model("mockllm/judge", api_key="sk-hidden", base_url="http://127.0.0.1:1")
    made = match(), match(location="any"), pattern("a"), model_graded_qa(model=judge)
    assert [scorer_name(one) for one in made] == ["match", "match", "pattern", "model_graded_qa"]
    codes = [scorer_code(one) for one in made]
    assert codes[0] == ""
    assert len(set(codes)) == 4


def test_a_judging_model_scores_and_its_tokens_are_not_the_methods(tmp_path: Path) -> None:
    replies = [ModelOutput.from_content("judge", f"GRADE: {grade}") for grade in "CICIC"]
    for reply in replies:  # else a tokenizer is fetched to count them
        reply.usage = ModelUsage(input_tokens=50, output_tokens=5, total_tokens=55)
    judge = get_model("mockllm/judge", custom_outputs=replies)
    plain = evaluated(ScriptedChat(solve=solves), tmp_path / "a")
    found = evaluated(
        ScriptedChat(solve=solves), tmp_path / "b", scorer=model_graded_qa(model=judge)
    )
    assert sorted(record.score or 0.0 for record in found.records) == [0, 0, 1, 1, 1]
    assert [one.tokens for one in found.records] == [one.tokens for one in plain.records]
    assert found.spent == plain.spent


PARAGRAPHS = "1. apples\n\n2. pears\n\n    def f(x):"
OFFICIAL = OfficialScorer(["rougeL"], use_stemmer=True)
WORDS = st.lists(
    st.sampled_from(["running", "runs", "The", "a2", "café", "it's", "Müller", "-", "3.5"])
)
PERFECT = [
    "Yes",
    "the cat and the man",
    "[['4', 'e'], ['2', '2']]",
    "6.0 sec",
    "!?",
    "привет",
    PARAGRAPHS,
]


@pytest.fixture(scope="module")
def rouge() -> RougeScorer:
    return RougeScorer()


@pytest.mark.parametrize(
    "template",
    [
        "%s",
        r"\boxed{%s}",
        r"**Final Answer:** Therefore, the final answer is: $\boxed{%s}$. I hope it is correct.",
        "Some steps.\n\nFinal answer: %s",
        "Some steps.\n### Final Answer\n%s",
        "<think>Is it no? Final answer: no</think>\nFinal answer: **%s**",
        r"\boxed{\text{%s}}",
    ],
)
def test_a_perfect_answer_scores_1(rouge: RougeScorer, template: str) -> None:
    for gold in PERFECT:
        found = rouge.score(template.replace("%s", gold), Question("q", "?", targets=(gold,)))
        assert found.value == 1, gold


def test_the_score_is_the_f_measure_of_the_longest_common_subsequence(rouge: RougeScorer) -> None:
    # "the cat sat": 3 of 4 words in order; precision 3/4, recall 3/5.
    score = rouge.score(
        "the cat sat down", Question("q", "?", targets=("a dog", "the cat has sat there"))
    )
    assert score.metadata["target"] == 1  # the best reference
    assert score.value == pytest.approx(2 * (3 / 4) * (3 / 5) / (3 / 4 + 3 / 5))


@pytest.mark.parametrize(
    ("output", "target"), [("", "yes"), ("<think>yes", "yes"), ("привет", "пока")]
)
def test_nothing_in_common_scores_0(rouge: RougeScorer, output: str, target: str) -> None:
    assert rouge.score(output, Question("q", "?", targets=(target,))).value == 0


@given(WORDS, WORDS)
def test_the_figures_of_latin_text_are_those_of_the_official_package(
    said: list[str], meant: list[str]
) -> None:
    answer, target = " ".join(said), " ".join(meant)
    value = 1.0 if said == meant else OFFICIAL.score(target, answer)["rougeL"].fmeasure
    assert RougeScorer().score(answer, Question("q", "?", targets=(target,))).value == value


@pytest.mark.parametrize(
    ("target", "output", "value"),
    [
        ("Привет, как дела?", "Привет как дела", 1),
        ("北京是中国的首都", "Final answer: 北京是中国的首都。", 1),
        ("东京是日本的首都", "北京是中国的首都", 5 / 8),
        ("สวัสดี", "สวัสดี!", 1),
        ("स्वागत है आपका", "स्वागत है", 4 / 5),
        ("running 北京", "runs 北京", 1),
    ],
)
def test_every_script_has_words(rouge: RougeScorer, target: str, output: str, value: float) -> None:
    assert rouge.score(output, Question("q", "?", targets=(target,))).value == pytest.approx(value)
