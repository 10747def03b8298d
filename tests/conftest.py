"""What every test can rely on: no network, no keys, no time limits, no other test beside it."""

import gc
import os
import signal
import sys
from collections.abc import Iterator
from pathlib import Path

import absl.logging
import pytest
import pytest_socket
from hypothesis import settings
from xdist.remote import Producer
from xdist.scheduler import LoadScopeScheduling

settings.register_profile("plan-and-budget", deadline=None, print_blob=True)
settings.load_profile("plan-and-budget")

# A shell's background jobs are started deaf to Ctrl-C, and hand that on to what they start: not to
# the commands that tests start to interrupt them.
signal.signal(signal.SIGINT, signal.default_int_handler)

# absl, which rouge_score brings, keeps the stream that it finds and closes it when logging is set
# up anew, as uvicorn does: it would be pytest's own, and no test after that could begin.
absl.logging.get_absl_handler().python_handler.stream = sys.__stderr__

# Where compiled code is not kept, as in many containers, each command that a test starts would
# compile our packages anew.
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
sys.dont_write_bytecode = False

_FOREIGN = ("PB_MODEL", "OPENAI_", "ANTHROPIC_", "LANGSMITH_", "LANGCHAIN_", "LANGGRAPH_")

_TOGETHER = {
    # Load the same model into memory, and would compete for the cores.
    "local_model": ("test_local_model.py", "test_end_to_end.py"),
    # Fork what they start off the same server, which takes seconds to load.
    "forked": (
        *("test_budget_resumed.py", "test_cli.py", "test_durability.py", "test_eval_killed.py"),
        *("test_full_disk.py", "test_machines.py", "test_pause_killed.py", "test_tune_killed.py"),
    ),
}
_GROUPS = {file: group for group, files in _TOGETHER.items() for file in files}


# What the tests import is there to the end: a million objects that no collection need go through,
# neither while they are made nor each time that a test leaves something behind.
gc.disable()


def pytest_collection_finish() -> None:
    """From here on there is something to collect."""
    gc.freeze()
    gc.enable()


class ByFile(LoadScopeScheduling):
    """With pytest-xdist, one process runs a file: what its tests share is made once.

    Its own groups go by marks that it adds to the tests' names, which pytest 9.2 does not let it.
    """

    def _split_scope(self, nodeid: str) -> str:
        file = nodeid.partition("::")[0]
        return _GROUPS.get(Path(file).name, file)


def pytest_xdist_make_scheduler(config: pytest.Config, log: Producer) -> ByFile:
    """Instead of what ``--dist`` says."""
    return ByFile(config, log)


@pytest.fixture(autouse=True)
def no_network(request: pytest.FixtureRequest) -> Iterator[None]:
    """Only loopback, and only for tests that say so; event loops need their socket pair."""
    if request.node.get_closest_marker("integration"):
        pytest_socket.socket_allow_hosts(["127.0.0.1", "::1", "localhost"], allow_unix_socket=True)
    else:
        pytest_socket.disable_socket(allow_unix_socket=True)
    yield
    pytest_socket._remove_restrictions()


@pytest.fixture(autouse=True)
def no_foreign_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    """Keys, models and tracing of whoever runs the tests stay out of them."""
    for name in list(os.environ):
        if name.startswith(_FOREIGN):
            monkeypatch.delenv(name)
