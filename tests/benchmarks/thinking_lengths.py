"""The default and the paper's ten methods on a scripted model that thinks as long as in the paper.

    python tests/benchmarks/thinking_lengths.py

The lengths are drawn with a seed: the mean of a method is that of DeepSeek-R1-Distill-Qwen-32B on
MATH-500 in the paper's table, for the default that of the method ``weighted``. The paper does not
say how lengths are spread. Here they are log-normal (sigma 0.4), with means that rise with the
level by `BY_LEVEL`. The questions have the levels of MATH-500. Whether the model would be right is
not asked: an answer is lost if a question ends without one. The server continues an unfinished
message, as vLLM does; "cannot continue" is a server that does not, and that cannot stop thinking.
"""
# ruff: noqa: S311 -- no secrets

import random
import sys
from pathlib import Path
from statistics import fmean
from typing import Any

from langchain_deepseek import ChatDeepSeek
from langchain_openai import ChatOpenAI

sys.path.insert(0, str(Path(__file__).parents[2]))
from optim.methods import methods
from pb_graph import NoAnswerError, Settings, build_graph
from tests.benchmarks.thinking_world import FORMS, ThinkingWorld

LEVELS = {1: 43, 2: 90, 3: 105, 4: 128, 5: 134}  # questions of MATH-500
BY_LEVEL = {1: 0.45, 2: 0.65, 3: 0.9, 4: 1.15, 5: 1.5}
SIGMA, COUNT, SEED = 0.4, 200, 1
TOKENS = {
    "vanilla": 2105.12,
    "global_budget": 1526.15,
    "planned_vanilla": 1883.73,
    "planned_global_budget": 1552.62,
    "uniform": 1440.70,
    "weighted": 1485.99,
    "linear": 1336.27,
    "polynomial": 1371.59,
    "exponential": 1389.75,
    "cosine": 1365.51,
}
PLAN = ("What is 7 times 10? | multiply", "What is 7 times 2? | multiply", "What is the sum? | add")
PLANNER = 600  # mean tokens that the model thinks before a plan


def length(name: str, number: int, level: int, mean: float) -> int:
    """Return the tokens of a thought; the same for every run."""
    weight = sum(LEVELS[n] * BY_LEVEL[n] for n in LEVELS) / sum(LEVELS.values())
    chance = random.Random(f"{SEED} {name} {number}")
    spread = chance.lognormvariate(-(SIGMA**2) / 2, SIGMA)
    return max(1, round(mean * BY_LEVEL[level] / weight * spread))


def row(name: str, settings: Settings, *, apart: bool, continues: bool = True) -> str:
    """Answer all questions by one method, and return a line of the table."""
    tokens, lost, over, unlike, plans, forced = [], 0, 0, 0, 0, 0
    levels = random.Random(SEED).choices([*LEVELS], [*LEVELS.values()], k=COUNT)
    for number, level in enumerate(levels):
        mean = TOKENS.get(name, TOKENS["weighted"])
        needs = {
            True: length("plan", number, level, PLANNER),
            False: length(name, number, level, mean),
        }
        form = FORMS[number % len(FORMS)]
        world = ThinkingWorld(form=form, plan=PLAN, level=level, continues=continues)

        def think(body: dict[str, Any], needs: dict[bool, int] = needs) -> int:
            return needs["JSON only" in str(body["messages"][0]["content"])]

        world.think = think
        planner = ThinkingWorld(think=0, plan=PLAN, level=level)
        # LangChain's client for OpenAI drops a thought that stands in a field of its own.
        model = world.model(kind=ChatOpenAI if "reason" not in form else ChatDeepSeek)
        graph = build_graph(
            model,
            planner=planner.model("llama-3.1-8b-instruct") if apart else None,
            settings=settings,
            cap_policy="vllm" if continues else "openai_compatible",
        )
        known = {} if name == "default" else {"level": level}
        try:
            report = graph.invoke({"question": f"What is {number} * 7?", **known})["report"]
        except NoAnswerError as error:
            report, lost = error.report, lost + 1
        billed = world.billed + planner.billed
        tokens.append(billed)
        over += billed > report["limit"]
        unlike += billed != report["usage"]["output_tokens"]
        plans += len(report["steps"]) > 1
        forced += report["finish"] == "forced"
    cells = [COUNT - lost, f"{fmean(tokens):,.0f}", f"{max(tokens):,}", plans, forced, over, unlike]
    how = ", planner apart" if apart else ", its own planner"
    how += "" if continues else ", cannot continue"
    return f"| {name}{how} | {' | '.join(map(str, cells))} |"


def main() -> None:
    """Print the table."""
    print(
        "| method | answers of 200 | mean tokens | most | planned | forced | over | not as billed |"
    )
    print("| --- | --- | --- | --- | --- | --- | --- | --- |")
    for continues in (True, False):
        for apart in (True, False):
            print(row("default", Settings(), apart=apart, continues=continues), flush=True)
    for each in methods("paper"):
        print(row(each.name, each.settings, apart=True), flush=True)


if __name__ == "__main__":
    main()
