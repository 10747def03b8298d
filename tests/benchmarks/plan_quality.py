"""Measure how good the plans of a model are: 40 tasks of five fields, judged by four questions.

``python -m tests.benchmarks.plan_quality plan PLANS.jsonl MODEL`` writes the plans, with the text
of each; ``… judge PLANS.jsonl VERDICTS.csv`` asks a person about each plan; ``… table FILE.csv …``
prints the verdicts. A plan that was not found is a plan without any good.
"""

from __future__ import annotations

import csv
import json
import sys
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

DATA = json.loads(Path(__file__).with_name("plan_tasks.json").read_text("utf-8"))
RUBRIC: dict[str, str] = DATA["rubric"]
"""The four questions, by a short name; each is answered with yes for a good plan."""
FIELDS: dict[str, list[str]] = DATA["tasks"]
"""Eight tasks of each field. Those of the last field are asked about one text."""


def write_plans(path: Path, name: str) -> None:
    """Write the plan of every task as a line of JSON.

    Args:
        path: The file to write.
        name: The model, as ``openai:NAME``; ``OPENAI_BASE_URL`` says where it is.
    """
    from langchain.chat_models import init_chat_model  # noqa: PLC0415 -- slow

    from pb_graph import build_graph  # noqa: PLC0415

    model = init_chat_model(name, temperature=0, use_responses_api=False, timeout=900)
    graphs = {
        field: build_graph(
            model,
            cap_policy="llama_cpp",
            settings={"timeout": 900.0, "plan_from": 4}
            | ({"domain": "arithmetic"} if field == "word problems" else {}),
        )
        for field in FIELDS
    }

    def planned(about: tuple[str, int, str]) -> dict[str, Any]:
        field, number, task = about
        text = f"{DATA['story']}\n\n" if field == "questions on a text" else ""
        plan: dict[str, Any] = {**graphs[field].plan(text + task, level=4)}
        return {"field": field, "number": number, "task": task, **plan}

    tasks = [(field, n, task) for n in range(8) for field in FIELDS for task in [FIELDS[field][n]]]
    with path.open("w", encoding="utf-8") as file, ThreadPoolExecutor(4) as pool:
        for row in pool.map(planned, tasks):
            print(json.dumps(row, ensure_ascii=False), file=file, flush=True)


def judge(plans: Path, verdicts: Path) -> None:
    """Ask a person the questions of the rubric about each plan, and write the answers."""
    with verdicts.open("w", encoding="utf-8", newline="") as file:
        rows = csv.DictWriter(file, ["field", "number", *RUBRIC, "plan"])
        rows.writeheader()
        for line in plans.read_text("utf-8").splitlines():
            plan = json.loads(line)
            print(text_of(plan))
            is_plan = len(plan["steps"]) > 1
            parts = [f"{step['question']} ({step['hint']})" for step in plan["steps"] * is_plan]
            said = [input(f"{ask} [y/n] ") == "y" if is_plan else False for ask in RUBRIC.values()]
            about = {"field": plan["field"], "number": plan["number"], "plan": " · ".join(parts)}
            rows.writerow(about | dict(zip(RUBRIC, map(int, said), strict=True)))


def text_of(plan: dict[str, Any]) -> str:
    """Return a plan as a person reads it."""
    lines = [f"\n## {plan['field']} {plan['number']}: {plan['task'][-200:]}"]
    for step in plan["steps"]:
        hint = f" ({step['hint']})" if step["hint"] else ""
        lines.append(f"{step['index'] + 1}. {step['question'][:300]}{hint} [{step['credit']}]")
    lines.append(f"synthesis: {plan['synthesis']}")
    return "\n".join([*lines, *(warning["code"] for warning in plan["warnings"])])


def print_table(files: Iterable[Path]) -> None:
    """Print the plans that hold for each question and each field, and those good in all four."""
    for file in files:
        rows = list(csv.DictReader(file.open(encoding="utf-8")))
        print(f"{file.stem}: {len(rows)} tasks")
        for group in (*FIELDS, None):
            some = [row for row in rows if group in {row["field"], None}]
            counts = [sum(row[name] == "1" for row in some) for name in RUBRIC]
            good = sum(all(row[name] == "1" for name in RUBRIC) for row in some)
            held = ", ".join(f"{name} {count}" for name, count in zip(RUBRIC, counts, strict=True))
            print(f"  {group or 'all'}: good {good} of {len(some)}; {held}")


if __name__ == "__main__":
    command, *arguments = sys.argv[1:]
    if command == "plan":
        write_plans(Path(arguments[0]), arguments[1])
    elif command == "judge":
        judge(*map(Path, arguments))
    else:
        print_table(map(Path, arguments))
