"""Count the files that one question enters, and how often its calls change file.

    python tests/benchmarks/hops.py

For `optim` it counts the files of one `pb-optim eval`, and of the evaluation of one candidate
between an optimizer's proposal and its score. It exits with 1 where a path is longer than the
limits below.
"""

import sys
import threading
from collections.abc import Callable, Iterator
from functools import partial
from itertools import pairwise
from pathlib import Path
from tempfile import TemporaryDirectory
from types import FrameType
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[2]))
from langchain.agents import create_agent
from typer.testing import CliRunner

from optim import cli
from optim.bench import bench as models
from optim.tuning.optimizers import OptimizerTask
from optim.tuning.options import Optimizer
from optim.tuning.program import Candidate
from pb_graph import Budget, Settings, TokenBudgetMiddleware, build_graph
from tests.support.chat_model import ScriptedChat
from tests.support.tuning_world import THOROUGH, asked_in, run

ROOT = Path(__file__).parents[2]
LIMITS = {
    "vanilla": (15, 60),
    "default": (24, 180),
    "middleware": (8, None),
    "eval": (20, None),
    "candidate": (10, None),
}
"""The most files, and the most changes of file."""


class Recorder:
    """Records the file of each call into a package, in all threads that start in `run`."""

    def __init__(self, package: str) -> None:
        self.package, self.is_on, self.entered = str(ROOT / package), True, list[str]()

    def run(self, work: Callable[[], object]) -> list[str]:
        """Return the files that the work enters, in order."""
        threading.setprofile(self._note)
        sys.setprofile(self._note)
        try:
            work()
        finally:
            sys.setprofile(None)
            threading.setprofile(None)
        return self.entered

    def _note(self, frame: FrameType, event: str, _: object) -> None:
        if self.is_on and event == "call" and frame.f_code.co_filename.startswith(self.package):
            self.entered.append(frame.f_code.co_filename)


def main() -> int:
    model = ScriptedChat(max_retries=0)
    question = {"question": "Why is the sky blue?"}
    all_settings = {
        "vanilla": Settings(method="vanilla"),
        "default": Settings(),
        "stepwise": Settings(execution="stepwise", plan_from=1),
    }
    runs: dict[str, Callable[[], object]] = {}
    for name, settings in all_settings.items():
        graph = build_graph(model, settings=settings)
        runs[name] = partial(graph.invoke, question)
    agent: Any = create_agent(model, middleware=[TokenBudgetMiddleware(Budget(100_000))])
    runs["middleware"] = partial(agent.invoke, {"messages": [("user", "Hello")]})
    paths = {}
    for name, work in runs.items():
        work()  # imports everything
        paths[name] = Recorder("pb_graph").run(work)
    is_longer = False
    for name, entered in (paths | paths_in_optim()).items():
        files = len(set(entered))
        changes = sum(one != other for one, other in pairwise(entered))
        print(f"{name}: {len(entered)} calls, {files} files, {changes} changes of file")
        most_files, most_changes = LIMITS.get(name, (None, None))
        is_longer |= bool(most_files and files > most_files)
        is_longer |= bool(most_changes and changes > most_changes)
    return int(is_longer)


def paths_in_optim() -> dict[str, list[str]]:
    """Return the files of `optim` that an evaluation enters, and those that a candidate does."""
    model = ScriptedChat(solve=lambda call: rf"\boxed{{{asked_in(call).targets[0]}}}")
    models.resolve = lambda *_, **__: model
    with TemporaryDirectory() as folder:
        for log_dir in ("imports", "counted"):
            command = ["eval", "--dataset", "arithmetic", "--limit", "5", "--model", "openai:none"]
            command += ["--log-dir", f"{folder}/{log_dir}"]
            evaluation = Recorder("optim")
            evaluation.run(partial(CliRunner().invoke, cli.app, command, catch_exceptions=False))
        candidate = Recorder("optim")
        candidate.is_on = False

        def propose(task: OptimizerTask) -> Iterator[Candidate]:
            (proposed,) = task.candidates([THOROUGH])
            candidate.is_on = True
            yield proposed
            candidate.is_on = False

        optimizer = Optimizer("one", propose)
        candidate.run(lambda: run(Path(folder, "tuning"), optimizer, model, scorer="math"))
    return {"eval": evaluation.entered, "candidate": candidate.entered}


if __name__ == "__main__":
    sys.exit(main())
