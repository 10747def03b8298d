"""How long the package keeps a program from starting: run `python tests/benchmarks/startup.py`.

Every figure is the median over fresh interpreters, which take turns so that a busy machine slows
all alike. Prints two ratios: `import pb_graph` to `import langgraph.graph` (at most 1/4), and
importing and building a graph with a fake model to `import langgraph.graph, dspy` (at most 1.5).
"""

import subprocess
import sys
from statistics import median

REPETITIONS = 5
BUILD = """
from langchain_core.language_models import FakeListChatModel
from pb_graph import build_graph
build_graph(FakeListChatModel(responses=["42"]))
"""
STARTS = {
    "import pb_graph": "import pb_graph",
    "import langgraph.graph": "import langgraph.graph",
    "build a graph": BUILD,
    "import langgraph.graph, dspy": "import langgraph.graph, dspy",
}


def seconds(code: str) -> float:
    """Return how long `code` takes in a fresh interpreter, without the interpreter's own start."""
    timed = f"from time import perf_counter\nbegin = perf_counter()\n{code}\n"
    timed += "print(perf_counter() - begin)"
    command = [sys.executable, "-c", timed]
    return float(subprocess.run(command, capture_output=True, text=True, check=True).stdout)  # noqa: S603


def main() -> None:
    """Print the medians and the two ratios."""
    runs = [{name: seconds(code) for name, code in STARTS.items()} for _ in range(REPETITIONS + 1)]
    # The first one fills the file cache.
    typical = {name: median(run[name] for run in runs[1:]) for name in STARTS}
    for name, taken in typical.items():
        print(f"{name:30} {taken * 1000:7.0f} ms")
    package = typical["import pb_graph"] / typical["import langgraph.graph"]
    build = typical["build a graph"] / typical["import langgraph.graph, dspy"]
    print(f"import pb_graph / import langgraph.graph:        {package:.3f} (at most 0.25)")
    print(f"build a graph / import langgraph.graph, dspy:    {build:.3f} (at most 1.5)")


if __name__ == "__main__":
    main()
