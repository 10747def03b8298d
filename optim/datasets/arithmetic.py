r"""Our own word problems at levels 1 to 5: made on the spot, with answers that are proven.

More steps make a higher level; from level 4 on, some sentences have nothing to do with the
question, and facts may come out of order. Needs no download, and has never been in anyone's
training data.
"""

from __future__ import annotations

from dataclasses import asdict, replace
from itertools import count as count_up
from typing import TYPE_CHECKING

from optim.datasets.dataset import LEVELS, Question, Row, answers, dataset, level, text
from optim.datasets.word_problems import FAMILIES, DeterministicRandom
from pb_graph.errors import InputError

if TYPE_CHECKING:
    from collections.abc import Iterable

    from optim.datasets.word_problems import Story

STEPS = {1: 2, 2: 3, 3: 5, 4: 7, 5: 9}
_DISTRACTORS = {4: 1, 5: 2}
_BESIDE_THE_POINT = (
    "A sign outside says that the street has {} trees.",
    "It is {} degrees Celsius outside.",
    "The clock on the wall is {} years old.",
    "The next bus leaves in {} minutes.",
    "A poster nearby announces a concert on page {} of the paper.",
    "The radio plays song number {} of its chart.",
)


def generate(
    count: int, *, seed: int = 0, levels: Iterable[int] = LEVELS, split: str = "test"
) -> list[Question]:
    """Make questions, as evenly over the levels as possible.

    The same on every machine and Python. Nested: the first 30 of 60 are what 30 gives. Splits
    have questions of their own, so that examples can come from another one than is evaluated.

    Raises:
        InputError: A count below 1, no level, or one outside 1 to 5.
    """
    turns = tuple(dict.fromkeys(levels))
    if count < 1 or not turns or not set(turns) <= set(LEVELS):
        msg = f"make at least 1 question of levels 1 to 5, not {count} of {turns}"
        raise InputError(msg)
    questions: dict[str, Question] = {}
    for index in range(count):
        chosen, place = turns[index % len(turns)], index // len(turns)
        question = _new(chosen, f"{split}/{seed}/{chosen}/{place}", questions)
        questions[question.question] = question
    return list(questions.values())


@dataset(
    "arithmetic",
    domain="arithmetic",
    instruction="Solve this word problem. Its answer is a whole number.",
    answer_format=(
        r"Close with the number alone inside the braces of one \boxed command, without a unit."
    ),
    scorer="math",
    columns=("id", "question", "answer", "level"),
    generate=generate,
)
def parse(row: Row) -> Question:
    """Read a question that was made earlier: id, question, answer and level."""
    return Question(text(row, "id"), text(row, "question"), level(row), answers(row, ("answer",)))


def _new(chosen: int, key: str, taken: Iterable[str]) -> Question:
    """Make the question of that key, again where chance repeats an earlier text."""
    for attempt in count_up():
        chance = DeterministicRandom(f"{key}/{attempt}")
        family = chance.pick(FAMILIES)
        story = family(chance, STEPS[chosen])
        question = _text(story, chance, chosen)
        if question not in taken:
            break
    answer = story.steps[-1].value
    name = f"arithmetic-{key.replace('/', '-')}"
    made = parse({"id": name, "question": question, "answer": answer, "level": chosen})
    steps = [asdict(step) for step in story.steps]
    return replace(made, metadata={"family": family.__name__, "steps": steps})


def _text(story: Story, chance: DeterministicRandom, chosen: int) -> str:
    sentences = list(story.sentences)
    asides = chance.shuffled(_BESIDE_THE_POINT)[: _DISTRACTORS.get(chosen, 0)]
    for aside in asides:
        place = chance.between(1, len(sentences) - 1)
        sentences.insert(place, aside.format(chance.between(3, 60)))
    return " ".join([*sentences, story.question])
