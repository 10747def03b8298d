"""The budget torture test: one budget over trees of agents whose models fail.

    python tests/benchmarks/agent_tree.py                  # our own budgets, 1,000 runs a unit
    python tests/benchmarks/agent_tree.py --guard shekel   # another library, in its environment
    python tests/benchmarks/agent_tree.py --envs FOLDER --runs 24   # all of them, as a table

A run is a tree: a lead agent has eight sub-agents at once, which have one each; every tenth model
call is refused, or lost after it was paid. The failures are single runs of two levels, one for each
way in which budgets fail. What was paid is in the books of `scripted_provider`; libraries are
entered in `guards`. For ours it exits with 1 if a run spent a unit too much, was lost, or has an
account that is not the provider's bill, to the unit.
"""

import argparse
import asyncio
import json
import subprocess
import sys
import time
import warnings
from dataclasses import asdict, dataclass
from importlib.metadata import version
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[2]))
from guards import GUARDS, Guard
from hosts import PLAIN, Ask, Leaf
from scripted_provider import ANSWER, Provider, script

WIDE = 8
FAULTS = 0.1  # of the calls are refused, or lost after they were paid
BUDGET = 3000  # completion tokens
# A total that is about as scarce as so many completion tokens; prompts of deepagents are long.
PER_TOKEN = {"completion": 1, "total": 1.5, "usd": 1.7e-6}
LONG_PROMPTS = {"completion": 1, "total": 11, "usd": 3}
PER_UNIT = {"completion": 1, "total": 1, "usd": 10**12}
IN_TURN = script(*[("delegate", 1, {})] * 10)


@dataclass
class Tally:
    """What came of the runs; over and used in percent of the budget."""

    runs: int = 0
    calls: int = 0
    worst: float = 0
    over: float = 0
    used: float = 0
    lost: int = 0
    unanswered: int = 0
    refused: int = 0
    unequal: int = 0


@dataclass(frozen=True)
class Failure:
    """A way in which budgets fail: a run of two levels under a budget of so many tokens."""

    prompt: str = IN_TURN
    provider: tuple[tuple[str, Any], ...] = ()
    leaf: Leaf = PLAIN
    tokens: int = 1500


FAILURES = {
    "nothing left": Failure(tokens=1),
    "siblings at once": Failure(script(("delegate", 20, {}))),
    "cached input": Failure(provider=(("cached", 0.95),), leaf=Leaf(padding=8000)),
    "cancelled calls": Failure(provider=(("seconds", 0.1),), leaf=Leaf(cancel_after=0.05)),
    "retries in the SDK": Failure(provider=(("paid_failures", 2),)),
    "streams without usage": Failure(provider=(("has_usage", False),), leaf=Leaf(stream=True)),
    "resumed": Failure(script(*[("ask_human", 1, {}), ("delegate", 1, {})] * 6)),
    "forked": Failure(script(("ask_human", 1, {}), *[("delegate", 1, {})] * 6)),
    "server keeps history": Failure(leaf=Leaf(conversation="resp_1")),
}


async def add_run(tally: Tally, guard: Guard, provider: Provider, ask: Ask, total: float) -> None:
    """Run once, and add what it cost to the tally."""
    provider.reset()
    text = ""
    try:
        text = await ask()
    except guard.stops:
        pass
    except Exception as error:  # noqa: BLE001 -- that is what is counted
        tally.lost += 1
        print(f"{guard.package}: {type(error).__name__}: {error}"[:300], file=sys.stderr)
    known, lost = (
        sum(bill.units(guard.unit) for bill in bills) for bills in (provider.known, provider.lost)
    )
    most = round(total * PER_UNIT[guard.unit])
    over = 100 * max(0, known + lost - most) / most
    tally.worst = max(tally.worst, over)
    tally.over += over
    tally.used += 100 * (known + lost) / most
    tally.runs += 1
    tally.calls += provider.calls
    tally.unanswered += ANSWER not in text
    tally.refused += guard.refused
    tally.unequal += guard.is_unequal(known, lost)


def run_trees(kind: type[Guard], host: str, unit: str, runs: int) -> Tally:
    """Run trees in one host, each under a budget of its own."""
    provider, tally = Provider(share=FAULTS), Tally()
    total = BUDGET * PER_TOKEN[unit] * (LONG_PROMPTS[unit] if host == "deepagents" else 1)
    for _ in range(runs // len(kind.hosts)):
        guard = kind(unit, total)
        asyncio.run(add_run(tally, guard, provider, guard.tree(host, provider, WIDE), total))
    return tally


def run_failure(kind: type[Guard], failure: Failure, unit: str) -> str:
    """Return what came of one failure, as a cell of the table."""
    total, tally = failure.tokens * PER_TOKEN[unit], Tally()
    guard, provider = kind(unit, total), Provider(**dict(failure.provider))
    try:
        ask = guard.failing(provider, failure.prompt, failure.leaf)
    except NotImplementedError:
        return "-"
    asyncio.run(add_run(tally, guard, provider, ask, total))
    if tally.lost:
        return "lost"
    over = f"+{tally.worst:.0f} %" if tally.worst else "0"
    return f"{over}, no answer" if tally.unanswered else over


def measure_overhead(kind: type[Guard], unit: str, times: int = 15) -> float:
    """Return the milliseconds of processor time that the guard adds to a call: a median."""

    async def ask(guard: Guard, provider: Provider) -> float:
        run = guard.failing(provider, script(*[("delegate", 1, {})] * 4), PLAIN)
        began = time.process_time()
        await run()
        return (time.process_time() - began) * 1000 / provider.calls

    provider, bare, guarded = Provider(), list[float](), list[float]()
    for _ in range(times):  # turn by turn, so that both meet the same load
        for some, one in ((bare, kind.bare()), (guarded, kind(unit, 10**6 * PER_TOKEN[unit]))):
            provider.reset()
            some.append(asyncio.run(ask(one, provider)))
    return sorted(guarded)[times // 2] - sorted(bare)[times // 2]


def enter(name: str, chosen: argparse.Namespace) -> dict[str, Any]:
    """Run one library through everything, and return the figures."""
    kind = GUARDS[name]
    figures: dict[str, Any] = {"name": name, "trees": {}, "failures": {}}
    figures["version"] = f"{kind.package} {version(kind.package)}"
    for unit in [one for one in kind.units if chosen.unit in (None, one)]:
        for host in kind.hosts:
            tally = run_trees(kind, host, unit, chosen.runs)
            print(f"{name}, {host}, {unit}: {tally}", file=sys.stderr)
            figures["trees"][f"{host}, {unit}"] = asdict(tally)
    best = kind.units[-1]
    figures["failures"] = {name: run_failure(kind, one, best) for name, one in FAILURES.items()}
    figures["overhead"] = measure_overhead(kind, best)
    return figures


def print_tables(entrants: list[dict[str, Any]]) -> None:
    """Print the figures of all entrants as Markdown."""
    heads = "entrant | host, unit | runs | calls | over, worst | mean | lost | no answer | refused"
    print(f"| {heads} | used | ledger wrong |\n|{'---|' * 11}")
    for one in entrants:
        for where, tree in one["trees"].items():
            runs = tree["runs"]
            cells = [one["version"], where, runs, tree["calls"], f"{tree['worst']:.1f} %"]
            cells += [f"{tree['over'] / runs:.1f} %", tree["lost"], tree["unanswered"]]
            cells += [tree["refused"], f"{tree['used'] / runs:.0f} %", tree["unequal"]]
            print(f"| {' | '.join(map(str, cells))} |")
    print(f"\n| | {' | '.join(one['name'] for one in entrants)} |\n|{'---|' * (len(entrants) + 1)}")
    for case in FAILURES:
        print(f"| {case} | {' | '.join(one['failures'].get(case, '-') for one in entrants)} |")
    overheads = [f"{one.get('overhead', 0):.1f}" for one in entrants]
    print(f"| overhead a call, ms | {' | '.join(overheads)} |")


def main() -> int:
    """Run one entrant, or all of them in their environments."""
    warnings.filterwarnings("ignore")  # the supervisor package builds on what has moved
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--guard", choices=GUARDS, default="ours")
    options.add_argument("--envs", type=Path, help="a folder with an environment for each entrant")
    options.add_argument("--runs", type=int, default=1000)
    options.add_argument("--unit", choices=PER_TOKEN)
    options.add_argument("--json", action="store_true")
    chosen = options.parse_args()
    if not chosen.envs:
        figures = enter(chosen.guard, chosen)
        print(json.dumps(figures)) if chosen.json else print_tables([figures])
        bad = [tree[key] for tree in figures["trees"].values() for key in _MUST_BE_0]
        return int(chosen.guard == "ours" and any(bad))
    passed = [one for one in sys.argv[1:] if one not in ("--envs", str(chosen.envs))]
    found = []
    for name, kind in GUARDS.items():
        own = chosen.envs / kind.environment / "bin/python"
        python = own if kind.environment else sys.executable
        command = [str(python), __file__, *passed, "--json", "--guard", name]
        done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=False)  # noqa: S603
        found += [json.loads(done.stdout.splitlines()[-1])] if done.stdout else []
    print_tables(found)
    return 0


_MUST_BE_0 = ("worst", "lost", "unequal")

if __name__ == "__main__":
    sys.exit(main())
