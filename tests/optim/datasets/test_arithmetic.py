import hashlib
import json
import re
from collections import Counter
from collections.abc import Callable
from dataclasses import asdict
from fractions import Fraction

import pytest

from optim.datasets import level_examples, load
from optim.datasets.arithmetic import STEPS, generate, parse

QUESTIONS = generate(400, seed=5)
PARTS = {"half": 2, "third": 3, "quarter": 4, "fifth": 5}

# --- A reader of the text alone: it knows English, not how the questions are made.

Change = Callable[[Fraction, list[str]], Fraction]
CHANGES: list[tuple[str, Change]] = [
    (r"(\d+) more \w+ arrive", lambda now, n: now + int(n[0])),
    (r"brings (\d+) more \w+", lambda now, n: now + int(n[0])),
    (r"(\d+) (?:of the )?\w+ are (?:sold|given away)", lambda now, n: now - int(n[0])),
    (r"delivery then (doubles|triples)", lambda now, n: now * {"d": 2, "t": 3}[n[0][0]]),
    (r"(\d+) crates with (\d+) \w+ in each", lambda now, n: now + int(n[0]) * int(n[1])),
    (r"(\d+) customers take (\d+) \w+ each", lambda now, n: now - int(n[0]) * int(n[1])),
    (r"one (half|third|quarter|fifth) of the", lambda now, n: now * (1 - Fraction(1, PARTS[n[0]]))),
    (r"then (\d+) percent of all", lambda now, n: now * (100 - int(n[0])) / 100),
    (r"shared equally among (\d+) branches", lambda now, n: now / int(n[0])),
    (r"buys (\d+) \w+ at (\d+) dollars apiece", lambda now, n: now + int(n[0]) * int(n[1])),
    (r"adds (\d+) dollars", lambda now, n: now + int(n[0])),
    (r"voucher takes (\d+) dollars off", lambda now, n: now - int(n[0])),
    (r"split equally among (\d+) friends", lambda now, n: now / int(n[0])),
    (r"hands over (\d+) dollars", lambda now, n: int(n[0]) - now),
    (r"makes (\d+) \w+ an hour and runs for (\d+)", lambda now, n: now + int(n[0]) * int(n[1])),
    (r"finds (\d+) faulty", lambda now, n: now - int(n[0])),
    (r"day before has left (\d+)", lambda now, n: now + int(n[0])),
    (r"^A [\w ]+ has (\d+) \w+ in the morning", lambda _, n: Fraction(int(n[0]))),
]
ASIDES = r"trees|degrees|years old|next bus|poster|radio"
OWNED = (
    r"^(\w+) has (?:(\d+) (?!more|fewer|times)\w+$|(\d+) (more|fewer) \w+ than (\w+)|"
    r"(\d+) times as many \w+ as (\w+)|half as many \w+ as (\w+)|"
    r"as many \w+ as (\w+) and (\w+) together)"
)


def sentences(text: str) -> list[str]:
    return [s for s in re.split(r"(?<=[.?])\s+", text) if not re.search(ASIDES, s)]


def read_answer(text: str) -> Fraction:
    *told, asked = sentences(text)
    if re.match(r"^\w+ has [\w ]+\.$", told[0]):
        return read_people(told, asked)
    now = Fraction(0)
    for sentence in told:
        if size := re.search(r"boxes that hold (\d+) each", sentence):
            full, left = divmod(now, int(size[1]))
            return Fraction(full if "completely full" in asked else left)
        (change,) = [(c, m) for p, c in CHANGES if (m := re.search(p, sentence, re.IGNORECASE))]
        now = change[0](now, list(change[1].groups()))
    return now


def read_people(told: list[str], asked: str) -> Fraction:
    known: dict[str, Fraction] = {}
    waiting = [re.match(OWNED, sentence.rstrip(".")) for sentence in told]
    while waiting:
        fact = next(f for f in waiting if f and all(o in known for o in others(f)))
        name, count, by, kind, _, times, *_ = fact.groups()
        bases = [known[other] for other in others(fact)]
        if count:
            known[name] = Fraction(int(count))
        elif kind:
            known[name] = bases[0] + int(by) * (1 if kind == "more" else -1)
        elif times:
            known[name] = bases[0] * int(times)
        else:
            known[name] = sum(bases, Fraction(0)) / (2 if len(bases) == 1 else 1)
        waiting.remove(fact)
    one, two = (known[name] for name in re.findall(r"\b[A-Z]\w+\b", asked)[1:])
    return one + two if "together" in asked else abs(one - two)


def others(fact: re.Match[str]) -> list[str]:
    return [fact[i] for i in (5, 7, 8, 9, 10) if fact[i]]


# --- What is promised


def test_the_answer_follows_from_the_text_alone() -> None:
    for question in QUESTIONS:
        assert question.targets == (str(read_answer(question.question)),), question.id


def test_the_steps_lead_to_the_answer_exactly() -> None:
    for question in QUESTIONS:
        results: list[Fraction] = []
        for step in question.metadata["steps"]:
            left, right = (
                results[int(side[1:])] if isinstance(side, str) else Fraction(side)
                for side in (step["left"], step["right"])
            )
            calculated = {
                "+": left + right,
                "-": left - right,
                "*": left * right,
                "/": left / right if right else None,
                "//": left // right if right else None,
                "%": left % right if right else None,
            }[step["operation"]]
            assert calculated == step["value"]
            results.append(Fraction(step["value"]))
        assert question.targets == (str(results[-1]),)


def test_every_result_is_used() -> None:
    for question in QUESTIONS:
        steps = question.metadata["steps"]
        used = {side for step in steps for side in (step["left"], step["right"])}
        unused = [i for i in range(len(steps) - 1) if f"#{i}" not in used]
        assert not unused, question.question


def test_a_higher_level_has_more_steps_and_things_beside_the_point() -> None:
    for question in QUESTIONS:
        assert len(question.metadata["steps"]) == STEPS[question.level]
        asides = len(re.findall(ASIDES, question.question))
        assert asides == {4: 1, 5: 2}.get(question.level, 0)


def test_quantities_stay_sensible() -> None:
    values = [step["value"] for q in QUESTIONS for step in q.metadata["steps"]]
    assert min(values) >= 0
    assert max(int(q.targets[0]) for q in QUESTIONS) < 10_000


def test_questions_vary() -> None:
    assert len({q.question for q in QUESTIONS}) == len({q.id for q in QUESTIONS}) == 400
    assert len({q.metadata["family"] for q in QUESTIONS}) == 4
    assert Counter(q.targets for q in QUESTIONS).most_common(1)[0][1] < 20


def test_the_same_everywhere() -> None:
    made = [asdict(question) for seed in (0, 1) for question in generate(150, seed=seed)]
    digest = hashlib.sha256(json.dumps(made, sort_keys=True).encode()).hexdigest()
    assert digest == "ff061eec892e972c3d3fcc41fdbb42c19be0c936b42220296ff5a07628801594"


def test_levels_are_even_and_samples_nested() -> None:
    thirty, sixty = load("arithmetic", limit=30), load("arithmetic", limit=60)
    assert Counter(q.level for q in thirty) == dict.fromkeys(range(1, 6), 6)
    assert sixty[:30] == thirty
    assert {q.level for q in load("arithmetic", limit=9, levels=[2, 4])} == {2, 4}


def test_seeds_and_splits_have_questions_of_their_own() -> None:
    texts = [
        {q.question for q in load("arithmetic", seed=seed, split=split)}
        for seed, split in [(0, "test"), (1, "test"), (0, "train")]
    ]
    assert len(set.union(*texts)) == 150
    examples = level_examples(load("arithmetic", split="train"), QUESTIONS, 0)
    assert len(examples.splitlines()) == 5


def test_a_question_can_be_written_and_read_again() -> None:
    question = QUESTIONS[0]
    row = {"id": question.id, "question": question.question, "level": question.level}
    again = parse({**row, "answer": question.targets[0]})
    assert (again.id, again.targets, again.level) == (question.id, question.targets, question.level)


@pytest.mark.parametrize(("count", "levels"), [(0, [1]), (5, []), (5, [6])])
def test_nothing_else_can_be_made(count: int, levels: list[int]) -> None:
    with pytest.raises(ValueError, match="levels 1 to 5"):
        generate(count, levels=levels)


def test_no_file_is_read() -> None:
    with pytest.raises(ValueError, match="--dataset jsonl"):
        load("arithmetic", path="x.jsonl")
