"""How long a full simulation takes: run `python tests/benchmarks/simulation_speed.py`.

Prints the seconds for a million queries of five steps under every rule, by the clock and of
processor time (the two differ on a busy machine), and the most memory that the process has held.
"""

import resource
import sys
from time import perf_counter, process_time

from optim.bam.simulate import RULES, World, simulate

QUERIES = 1_000_000
_KILO = 1 if sys.platform != "darwin" else 1024  # Linux counts kilobytes, macOS bytes


def main() -> None:
    for budgets in ([400], [50, 100, 200, 400, 800]):
        start, began = perf_counter(), process_time()
        simulate(World(), budgets, queries=QUERIES)
        taken, busy = perf_counter() - start, process_time() - began
        what = f"{QUERIES:,} queries x {len(RULES)} rules, {len(budgets)} budgets"
        print(f"{what}: {taken:.1f} s ({busy:.1f} s of processor time)")
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / _KILO / 1024
    print(f"peak memory: {peak:.0f} MiB")


if __name__ == "__main__":
    main()
