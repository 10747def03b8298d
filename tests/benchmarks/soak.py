"""Many questions to a server that keeps failing: `python tests/benchmarks/soak.py`.

By default 2,000 questions, 100 at a time, and every tenth request goes wrong in one of 20 ways.
Each question has to end in an answer or in an error of ours, within a time that follows from the
settings, and nothing must grow: the peak of the second half, of memory and threads, is at most 1.1
times that of the first; and when all is quiet again, no more descriptors of any kind are open than
after a first question. (In between they come and go with the calls under way.) Exits with 1 when
one of these does not hold. With few descriptors: `(ulimit -n 256; python tests/benchmarks/soak.py
--queries 10000)`.
"""

import argparse
import asyncio
import gc
import math
import os
import sys
import threading
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
KEPT = 6.0
"""Seconds after which a connection that nobody uses is closed with the next call; httpx's are 5."""
TCP_STATES = {"01": "established", "06": "time wait", "08": "close wait", "0A": "listening"}


@dataclass
class Tally:
    """What came of the questions so far, and the memory they took."""

    ends: Counter[str] = field(default_factory=Counter)
    faults: Counter[str] = field(default_factory=Counter)
    over_ceiling: int = 0
    calls: int = 0
    done: int = 0
    peaks: list[dict[str, int]] = field(default_factory=lambda: [{}, {}])
    rests: list[Counter[str]] = field(default_factory=list)

    def account(self, report: dict[str, Any]) -> None:
        """Add the account of one question."""
        self.calls += report["usage"]["calls"]
        self.over_ceiling += report["usage"]["output_tokens"] > report["ceiling"]
        self.faults["with a warning"] += bool(report["warnings"])
        self.faults["with a failed step"] += any(s["finish"] == "error" for s in report["steps"])
        self.faults["with tokens unseen"] += not report["usage"]["measured"]


def held() -> dict[str, int]:
    """MiB of memory, open descriptors and threads of this process now (Linux)."""
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return {
        "MiB": pages * os.sysconf("SC_PAGE_SIZE") // MIB,
        "descriptors": len([*Path("/proc/self/fd").iterdir()]),
        "threads": threading.active_count(),
    }


def descriptors() -> Counter[str]:
    """Open descriptors of this process by kind; of connections also the state (Linux)."""
    found: Counter[str] = Counter()
    states = dict(connections())
    for descriptor in Path("/proc/self/fd").iterdir():
        try:
            target = str(descriptor.readlink())
        except FileNotFoundError:
            continue  # the one that lists them
        kind, _, inode = target.partition(":")
        tcp = states.get(inode.strip("[]")) if kind == "socket" else None
        found["file" if target.startswith("/") else f"{kind} {tcp}" if tcp else kind] += 1
    return found


def connections() -> Iterator[tuple[str, str]]:
    """Inode and state of each TCP connection."""
    for table in ("tcp", "tcp6"):
        for line in Path(f"/proc/self/net/{table}").read_text().splitlines()[1:]:
            columns = line.split()
            yield columns[9], TCP_STATES.get(columns[3], columns[3])


async def at_rest(graph: Any) -> Counter[str]:  # noqa: ANN401
    """The descriptors that stay open when nothing is under way."""
    await asyncio.sleep(KEPT)
    await one(graph, 0, Tally())  # closes what nobody has used since
    gc.collect()  # what waits for that is not lost
    return descriptors()


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


async def watch(tally: Tally, began: float, seconds: float, queries: int) -> None:
    """Keep the peak of each half."""
    while True:
        late = time.perf_counter() - began >= seconds / 2
        half = int(late or tally.done >= queries / 2)
        peak = tally.peaks[half]
        peak |= {name: max(now, peak.get(name, 0)) for name, now in held().items()}
        await asyncio.sleep(0.1)


async def soak(graph: Any, queries: int, concurrency: int, seconds: float) -> Tally:  # noqa: ANN401
    """Ask them all, so many at a time, or those for which there is time."""
    tally = Tally(rests=[await at_rest(graph)])
    numbers, began = iter(range(queries)), time.perf_counter()

    async def asker(numbers: Iterator[int]) -> None:
        for number in numbers:
            await one(graph, number, tally)
            if time.perf_counter() - began > seconds:
                return

    watcher = asyncio.create_task(watch(tally, began, seconds, queries))
    await asyncio.gather(*(asker(numbers) for _ in range(concurrency)))
    watcher.cancel()
    tally.rests.append(await at_rest(graph))
    return tally


def main() -> int:
    """Print the figures; 1 when something is not as it should be."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--queries", type=int, default=2000)
    parser.add_argument("--concurrency", type=int, default=100)
    parser.add_argument("--rate", type=float, default=0.1, help="share of requests that go wrong")
    parser.add_argument("--seconds", type=float, default=math.inf, help="ask no more after that")
    given = parser.parse_args()
    options = ("--rate", str(given.rate), "--latency", str(LATENCY), "--stall", str(STALL))
    with serving(*options) as url:
        os.environ |= {"OPENAI_BASE_URL": url, "OPENAI_API_KEY": "sk-none"}
        settings = Settings(timeout=TIMEOUT, max_retries=RETRIES, execution="stepwise", plan_from=1)
        graph = build_graph("openai:m", settings=settings)
        begin = time.perf_counter()
        tally = asyncio.run(soak(graph, given.queries, given.concurrency, given.seconds))
        seconds = time.perf_counter() - begin
    first, second = tally.peaks
    print(f"{tally.done} questions, {given.concurrency} at a time, in {seconds:.0f} s")
    print(f"ended: {dict(tally.ends)}; of these {dict(tally.faults)}")
    print(f"calls in the ledgers: {tally.calls}; above its ceiling: {tally.over_ceiling}")
    print(f"peaks of the first half {first}, of the second {second} (at most 1.1 times as much)")
    before, after = tally.rests
    print(f"descriptors at rest before {dict(before)}, after {dict(after)} (no more than before)")
    grown = any(second[name] > 1.1 * first[name] + 1 for name in ("MiB", "threads"))
    grown |= any(after[kind] > max(before[kind], 1) for kind in after)
    ended = tally.ends["answered"] + tally.ends["typed error"] == tally.done
    ended &= tally.done == given.queries or seconds > given.seconds
    return int(not ended or tally.over_ceiling > 0 or grown)


if __name__ == "__main__":
    raise SystemExit(main())
