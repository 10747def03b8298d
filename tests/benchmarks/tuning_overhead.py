"""What tuning costs beside the graph: run `python tests/benchmarks/tuning_overhead.py`.

Answers with a model that replies at once, 8 at a time. First with the graph alone; then with GEPA
in the loop, whose answers each cost a new run of the graph because every proposal is a new one.
Prints milliseconds of processor time per answer, which other work on the machine does not
change, and what the loop adds in units of the graph's: that has to be at most 1.
"""

import asyncio
import itertools
import json
import tempfile
from pathlib import Path
from statistics import median
from time import process_time
from typing import Any

from optim.scorers import Score
from optim.tuning.evaluator import Evaluator
from optim.tuning.options import OPTIMIZERS, TuneOptions
from optim.tuning.program import Candidate, GraphProgram
from optim.tuning.reflection import Reflector
from optim.tuning.search import Search, split_of
from pb_graph import Settings, build_graph
from tests.benchmarks.graph_overhead import InstantChat
from tests.support.questions import generate

gepa = OPTIMIZERS["gepa"]

CALLS, AT_ONCE, REPETITIONS = 300, 8, 3
DEV, TRAIN, HELD_OUT = (generate(40, split=name) for name in ("dev", "train", "held-out"))
SETTINGS = Settings()  # stepwise, plan, estimate and four sub-questions


class Improving:
    """Every second answer is right; no instruction makes a difference."""

    def score(self, output: str, question: Any) -> Score:  # noqa: ANN401, ARG002
        return Score(float(int(question.targets[0]) % 2), None, "")


class Rambling(InstantChat):
    """Writes another instruction each time."""

    number: Any = itertools.count()

    def _generate(self, *args: Any, **options: Any) -> Any:  # noqa: ANN401
        found = super()._generate(*args, **options)
        found.generations[0].message.content = f"Plan number {next(self.number)}."
        return found


async def alone() -> float:
    """Seconds per answer of the graph."""
    graph = build_graph(InstantChat(), settings=SETTINGS)
    slots = asyncio.Semaphore(AT_ONCE)

    async def answer(question: Any) -> None:  # noqa: ANN401
        async with slots:
            await graph.ainvoke({"question": question.question, "level": question.level})

    questions = list(itertools.islice(itertools.cycle(DEV), CALLS))
    await answer(questions[0])
    started = process_time()
    await asyncio.gather(*map(answer, questions))
    return (process_time() - started) / CALLS


def tuned(folder: Path) -> tuple[float, float]:
    """Seconds per answer of the whole loop, and how many answers there were."""
    options = TuneOptions(run_dir=folder, budget=CALLS, concurrency=AT_ONCE)
    with Evaluator(GraphProgram(InstantChat()), Improving(), options) as bench:
        reflector = Reflector(Rambling(), bench)
        start = Candidate(settings=SETTINGS)
        bench.one(start, DEV[0])
        before, started = bench.spent, process_time()
        split = split_of(TRAIN, DEV, HELD_OUT[:2], seed=0)
        Search(bench, split, [(gepa, "decompose")], reflector).run(start)
        seconds = process_time() - started
        return seconds / (bench.spent.answers - before.answers), bench.spent.answers


def main() -> None:
    """Print the figures."""
    graph, loop, calls = [], [], 0.0
    for _ in range(REPETITIONS):
        graph.append(asyncio.run(alone()))
        with tempfile.TemporaryDirectory() as folder:
            seconds, calls = tuned(Path(folder))
            loop.append(seconds)
    alone_ms, loop_ms = 1000 * median(graph), 1000 * median(loop)
    figures = {
        "graph_ms": round(alone_ms, 2),
        "loop_ms": round(loop_ms, 2),
        "added_per_graph": round((loop_ms - alone_ms) / alone_ms, 2),
        "answers": calls,
    }
    print(json.dumps(figures))


if __name__ == "__main__":
    main()
