"""The budget torture test: one budget over trees of agents whose models fail.

    python tests/benchmarks/agent_tree.py                  # our own budgets, 1,000 runs a unit
    python tests/benchmarks/agent_tree.py --guard shekel   # another library, in its environment
    python tests/benchmarks/agent_tree.py --envs /root/envs --runs 40   # all, as a table

A run is a tree: a lead agent has eight sub-agents at once, which have one each; every tenth model
call is refused, or lost after it was paid. The failures are single runs of two levels, one for each
way in which budgets fail. What was paid is in the books of `scripted_provider`. Libraries are
entered in `guards`. A run of ours ends with status 1 if it spent a unit too much, was lost, ended
without an answer, or if its account is not the provider's bill, to the unit.
"""

import argparse
import asyncio
import json
import subprocess
import sys
import time
import warnings
from collections.abc import Callable
from dataclasses import asdict, dataclass
from importlib.metadata import version
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[2]))
from guards import GUARDS, PLAIN, Guard, Settings
from scripted_provider import ANSWER, Bill, Provider, script

WIDE, UNITS = 8, ("completion", "total", "usd")
# Totals that are about as scarce as 4,000 completion tokens, and prompts of deepagents.
PER_TOKEN = {"completion": 1, "total": 1.5, "usd": 1.7e-6}
LONG_PROMPTS = {"completion": 1, "total": 11, "usd": 3}
PER_UNIT = {"completion": 1, "total": 1, "usd": 10**12}
IN_TURN = script(*[("delegate", 1, {})] * 10)


@dataclass
class Tally:
    """What came of the runs in one host; figures in percent of the budget."""

    runs: int = 0
    calls: int = 0
    worst: float = 0
    mean: float = 0
    used: float = 0
    lost: int = 0
    unanswered: int = 0
    refused: int = 0
    unequal: int = 0


@dataclass(frozen=True)
class Failure:
    """A way in which budgets fail: a run of two levels under a budget of so many tokens."""

    tokens: int
    prompt: str = IN_TURN
    provider: dict[str, Any] | None = None
    leaf: Settings = PLAIN


FAILURES = {
    "nothing left": Failure(1),
    "siblings at once": Failure(1500, script(("delegate", 20, {}))),
    "cached input": Failure(1500, provider={"cached": 0.95}, leaf=Settings(padding=8000)),
    "cancelled calls": Failure(1500, provider={"seconds": 0.1}, leaf=Settings(cancel_after=0.05)),
    "retries in the SDK": Failure(1500, provider={"paid_failures": 2}),
    "streams without usage": Failure(1500, IN_TURN, {"has_usage": False}, Settings(stream=True)),
    "resumed": Failure(1500, script(*[("ask_human", 1, {}), ("delegate", 1, {})] * 6)),
    "forked": Failure(1500, script(("ask_human", 1, {}), *[("delegate", 1, {})] * 6)),
    "server keeps history": Failure(1500, leaf=Settings(conversation="resp_1")),
}


async def run_once(
    guard: Guard, provider: Provider, ask: Callable[[], Any], tally: Tally, total: int
) -> None:
    """Run a tree once under its guard, and add what it cost to the tally."""
    provider.reset()
    text = ""
    try:
        text = str(await ask())
    except guard.stops:
        pass
    except Exception as error:  # noqa: BLE001 -- that is what is counted
        tally.lost += 1
        print(f"{type(guard).__name__}: {type(error).__name__}: {error}"[:300], file=sys.stderr)
    known, lost = (_units(bills, guard.unit) for bills in (provider.known, provider.lost))
    over = 100 * max(0, known + lost - total) / total
    tally.mean = (tally.mean * tally.runs + over) / (tally.runs + 1)
    tally.used = (tally.used * tally.runs + 100 * (known + lost) / total) / (tally.runs + 1)
    tally.worst = max(tally.worst, over)
    tally.runs += 1
    tally.calls += provider.calls
    tally.unanswered += ANSWER not in text
    tally.refused += guard.refused
    tally.unequal += guard.is_unequal(known, lost)


def _units(bills: list[Bill], unit: str) -> int:
    return sum(bill.units(unit) for bill in bills)


def _total(unit: str, tokens: int, host: str) -> float:
    long = LONG_PROMPTS[unit] if host == "deepagents" else 1
    return tokens * PER_TOKEN[unit] * long


def run_trees(kind: type[Guard], host: str, unit: str, chosen: argparse.Namespace) -> Tally:
    """Run trees in one host, each under a budget of its own."""
    provider, tally = Provider(seed=chosen.seed, share=chosen.faults), Tally()
    for _ in range(chosen.runs // len(kind.hosts)):
        total = _total(unit, chosen.budget, host)
        guard = kind(unit, total)
        ask = guard.tree(host, provider, WIDE)
        asyncio.run(run_once(guard, provider, ask, tally, round(total * PER_UNIT[unit])))
    return tally


def run_failure(kind: type[Guard], failure: Failure, unit: str) -> tuple[str, Tally]:
    """Return what came of one failure, as a cell of the table."""
    total, tally = _total(unit, failure.tokens, ""), Tally()
    guard = kind(unit, total)
    provider = Provider(**failure.provider or {})
    try:
        ask = guard.failing(provider, failure.prompt, failure.leaf)
    except NotImplementedError:
        return "-", tally
    asyncio.run(run_once(guard, provider, ask, tally, round(total * PER_UNIT[unit])))
    cell = "lost" if tally.lost else f"+{tally.worst:.0f} %" if tally.worst else "0"
    return cell + (" (no answer)" if tally.unanswered and not tally.lost else ""), tally


def measure_overhead(kind: type[Guard], unit: str, times: int = 15) -> float:
    """Return the milliseconds of processor time that the guard adds to a call: a median."""

    async def ask(guard: Guard, provider: Provider) -> float:
        run = guard.failing(provider, script(*[("delegate", 1, {})] * 4), PLAIN)
        began = time.process_time()
        await run()
        return (time.process_time() - began) * 1000 / provider.calls

    provider, bare, guarded = Provider(), [], []
    for _ in range(times):  # turn by turn, so that both meet the same load
        for some, one in ((bare, kind.bare()), (guarded, kind(unit, _total(unit, 10**6, "")))):
            provider.reset()
            some.append(asyncio.run(ask(one, provider)))
    return sorted(guarded)[times // 2] - sorted(bare)[times // 2]


def enter(name: str, chosen: argparse.Namespace) -> dict[str, Any]:
    """Run one library through everything, and return the figures."""
    kind = GUARDS[name]
    versions = f"{kind.package} {version(kind.package)}"
    figures: dict[str, Any] = {"name": name, "version": versions, "trees": {}, "failures": {}}
    for unit in [one for one in kind.units if chosen.unit in (None, one)]:
        for host in kind.hosts:
            began = time.process_time()
            tally = run_trees(kind, host, unit, chosen)
            seconds = (time.process_time() - began) / max(1, tally.runs)
            print(f"{name}, {host}, {unit}: {tally}, {seconds:.2f} s a run", file=sys.stderr)
            figures["trees"][f"{host}, {unit}"] = asdict(tally)
    if not chosen.trees_only:
        for case, failure in FAILURES.items():
            figures["failures"][case], _ = run_failure(kind, failure, kind.units[-1])
        figures["overhead"] = measure_overhead(kind, kind.units[-1])
    return figures


def print_tables(all_figures: list[dict[str, Any]]) -> None:
    """Print the figures of all entrants as Markdown."""
    heads = ("entrant", "host, unit", "over, worst", "mean", "lost", "no answer", "refused")
    print(f"| {' | '.join((*heads, 'used', 'ledger differs'))} |\n|{'---|' * 9}")
    for one in all_figures:
        for where, tree in one["trees"].items():
            cells = [one["version"], where, f"{tree['worst']:.1f} %", f"{tree['mean']:.1f} %"]
            cells += [f"{tree[key]} of {tree['runs']}" for key in ("lost", "unanswered")]
            cells += [str(tree["refused"]), f"{tree['used']:.0f} %", str(tree["unequal"])]
            print(f"| {' | '.join(cells)} |")
    print(f"\n| | {' | '.join(one['name'] for one in all_figures)} |")
    print(f"|---|{'---|' * len(all_figures)}")
    for case in FAILURES:
        print(f"| {case} | {' | '.join(one['failures'].get(case, '-') for one in all_figures)} |")
    overheads = [f"{one.get('overhead', 0):.1f}" for one in all_figures]
    print(f"| overhead a call, ms | {' | '.join(overheads)} |")


def main() -> int:
    """Run one entrant, or all of them in their environments."""
    warnings.filterwarnings("ignore")  # the supervisor package builds on what has moved
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--guard", choices=GUARDS, default="ours")
    options.add_argument("--envs", type=Path, help="a folder with an environment for each entrant")
    options.add_argument("--runs", type=int, default=1000)
    options.add_argument("--budget", type=int, default=3000, help="in completion tokens")
    options.add_argument("--unit", choices=UNITS)
    options.add_argument("--faults", type=float, default=0.1)
    options.add_argument("--seed", type=int, default=1)
    options.add_argument("--trees-only", action="store_true")
    options.add_argument("--json", action="store_true")
    chosen = options.parse_args()
    if chosen.envs:
        passed = [*sys.argv[1:], "--json"]
        found = []
        for name, kind in GUARDS.items():
            python = chosen.envs / kind.environment / "bin/python" if kind.environment else ""
            if not python or python.exists():
                command = [str(python or sys.executable), __file__, *passed, "--guard", name]
                command = [one for one in command if one not in ("--envs", str(chosen.envs))]
                done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=False)  # noqa: S603
                found += [json.loads(done.stdout.splitlines()[-1])] if done.stdout else []
        print_tables(found)
        return 0
    figures = enter(chosen.guard, chosen)
    print(json.dumps(figures)) if chosen.json else print_tables([figures])
    bad = [tree[key] for tree in figures["trees"].values() for key in ("worst", "lost", "unequal")]
    return int(chosen.guard == "ours" and any(bad))


if __name__ == "__main__":
    sys.exit(main())
