"""Many questions to a server that keeps failing: `python tests/benchmarks/soak.py`.

By default 2,000 questions, 100 at a time, and every tenth request goes wrong in one of 20 ways.
Each question has to end in an answer or in an error of ours, within a time that follows from the
settings, and the memory must not grow: the peak of the second half is at most 1.1 times that of
the first. Exits with 1 when one of these does not hold.
"""

import argparse
import asyncio
import os
import sys
import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[2]))

from pb_graph import Settings, build_graph
from pb_graph.errors import NoAnswerError, PlanAndBudgetError
from tests.support.fault_server import serving

TIMEOUT, STALL, LATENCY = 5.0, 8.0, 0.02
CALLS, RETRIES, LONGEST_WAIT = 12, 3, 8.0
BOUND = CALLS * (RETRIES + 1) * (TIMEOUT + LONGEST_WAIT)
"""Seconds in which a question has to end: all its calls, each tried as often as can be."""
MIB = 2**20


@dataclass
class Tally:
    """What came of the questions so far, and the memory they took."""

    ends: Counter[str] = field(default_factory=Counter)
    faults: Counter[str] = field(default_factory=Counter)
    over_ceiling: int = 0
    calls: int = 0
    done: int = 0
    peaks: list[int] = field(default_factory=lambda: [0, 0])

    def account(self, report: dict[str, Any]) -> None:
        """Add the account of one question."""
        self.calls += report["usage"]["calls"]
        self.over_ceiling += report["usage"]["output_tokens"] > report["ceiling"]
        self.faults["with a warning"] += bool(report["warnings"])
        self.faults["with a failed step"] += any(s["finish"] == "error" for s in report["steps"])
        self.faults["with tokens unseen"] += not report["usage"]["measured"]


def resident() -> int:
    """Bytes of memory that this process holds now (Linux)."""
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE")


async def one(graph: Any, number: int, tally: Tally) -> None:  # noqa: ANN401
    """Ask one question and note how it ended."""
    try:
        async with asyncio.timeout(BOUND):
            out = await graph.ainvoke({"question": f"What is {number} times 3?"})
        tally.account(out["report"])
        tally.ends["answered" if out["answer"] else "lost"] += 1
    except NoAnswerError as error:
        tally.account(dict(error.report))
        tally.ends["typed error"] += 1
    except PlanAndBudgetError:
        tally.ends["typed error"] += 1
    except TimeoutError:
        tally.ends["hung"] += 1
    except Exception as error:  # noqa: BLE001 -- that is what is being looked for
        tally.ends[f"foreign error {type(error).__name__}"] += 1
    tally.done += 1


async def watch(tally: Tally, queries: int) -> None:
    """Keep the peak of each half."""
    while True:
        half = int(tally.done >= queries / 2)
        tally.peaks[half] = max(tally.peaks[half], resident())
        await asyncio.sleep(0.1)


async def soak(graph: Any, queries: int, concurrency: int) -> Tally:  # noqa: ANN401
    """Ask them all, so many at a time."""
    tally, numbers = Tally(), iter(range(queries))

    async def asker(numbers: Iterator[int]) -> None:
        for number in numbers:
            await one(graph, number, tally)

    watcher = asyncio.create_task(watch(tally, queries))
    await asyncio.gather(*(asker(numbers) for _ in range(concurrency)))
    watcher.cancel()
    return tally


def main() -> int:
    """Print the figures; 1 when something is not as it should be."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--queries", type=int, default=2000)
    parser.add_argument("--concurrency", type=int, default=100)
    parser.add_argument("--rate", type=float, default=0.1, help="share of requests that go wrong")
    given = parser.parse_args()
    options = ("--rate", str(given.rate), "--latency", str(LATENCY), "--stall", str(STALL))
    with serving(*options) as url:
        os.environ |= {"OPENAI_BASE_URL": url, "OPENAI_API_KEY": "sk-none"}
        settings = Settings(timeout=TIMEOUT, max_retries=RETRIES, execution="stepwise")
        graph = build_graph("openai:m", settings=settings)
        begin = time.perf_counter()
        tally = asyncio.run(soak(graph, given.queries, given.concurrency))
        seconds = time.perf_counter() - begin
    first, second = tally.peaks
    print(f"{tally.done} questions, {given.concurrency} at a time, in {seconds:.0f} s")
    print(f"ended: {dict(tally.ends)}; of these {dict(tally.faults)}")
    print(f"calls in the ledgers: {tally.calls}; above its ceiling: {tally.over_ceiling}")
    ratio = second / first
    print(f"peak memory: {first / MIB:.0f}, then {second / MIB:.0f} MiB: {ratio:.3f} (at most 1.1)")
    ended = tally.ends["answered"] + tally.ends["typed error"] == tally.done == given.queries
    return int(not ended or tally.over_ceiling > 0 or ratio > 1.1)


if __name__ == "__main__":
    raise SystemExit(main())
