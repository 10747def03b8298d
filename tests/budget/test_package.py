"""What importing the package costs and offers."""

import subprocess
import sys

from pb_graph import budget


def test_every_public_name_is_there() -> None:
    assert all(hasattr(budget, name) for name in budget.__all__)


def test_allocating_loads_neither_numpy_nor_a_language_model_library() -> None:
    heavy = "{'numpy', 'langgraph', 'langchain', 'langchain_core', 'dspy'}"
    script = (
        "import sys; from pb_graph.budget import allocate; allocate([1, 2], 10);"
        f"print(sorted({heavy} & sys.modules.keys()))"
    )
    done = subprocess.run(  # noqa: S603 - our own interpreter and script
        [sys.executable, "-c", script], capture_output=True, text=True, check=True
    )
    assert done.stdout.split() == ["[]"]
