"""What every test can rely on: no network, no keys, no time limits, no other test beside it."""

import gc
import os
import signal
import sys
import warnings
from collections import OrderedDict
from collections.abc import Iterator
from pathlib import Path

import absl.logging
import pytest
import pytest_socket
from hypothesis import settings
from xdist.remote import Producer
from xdist.scheduler import LoadScopeScheduling

# The same worlds each time; `pytest --hypothesis-profile nightly` draws others.
settings.register_profile("ci", deadline=None, print_blob=True, derandomize=True)
settings.register_profile("nightly", deadline=None, print_blob=True, max_examples=1000)
settings.load_profile("ci")

# A shell's background jobs are started deaf to Ctrl-C, and hand that on to what they start: not to
# the commands that tests start to interrupt them.
signal.signal(signal.SIGINT, signal.default_int_handler)

# absl, which rouge_score brings, closes the stream that it finds when logging is set up anew, as
# uvicorn does: it would be pytest's own.
absl.logging.get_absl_handler().python_handler.stream = sys.__stderr__

# Else each command that a test starts would compile our packages anew.
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
sys.dont_write_bytecode = False

_FOREIGN = ("PB_MODEL", "OPENAI_", "ANTHROPIC_", "LANGSMITH_", "LANGCHAIN_", "LANGGRAPH_")

# Files that run in one process of pytest-xdist, as their processes are forked off the same server.
_FORKED = {"test_cli.py", "test_restarted.py", "test_resumed.py"}

# No collection need go through the million objects that the tests import.
gc.disable()


def pytest_collection_finish() -> None:
    """Collect garbage from here on."""
    gc.freeze()
    gc.enable()


def pytest_unconfigure() -> None:
    """Say nothing of the connections that clients of models keep until the process ends."""
    warnings.simplefilter("ignore", ResourceWarning)


class ByFile(LoadScopeScheduling):
    """Runs a file in one process of pytest-xdist, so that what its tests share is made once.

    xdist's own groups rename the tests, which pytest 9.2 does not allow.
    """

    def _split_scope(self, nodeid: str) -> str:
        file = nodeid.partition("::")[0]
        return "forked" if Path(file).name in _FORKED else file


def pytest_xdist_make_scheduler(config: pytest.Config, log: Producer) -> ByFile:
    """Return our scheduler, whatever ``--dist`` says."""
    return ByFile(config, log)


@pytest.fixture(autouse=True, scope="session")
def _no_waits() -> Iterator[None]:
    """Let no test wait before a retry; how long a wait is has tests of its own."""
    with pytest.MonkeyPatch.context() as patch:
        if client := sys.modules.get("pb_graph.models.client"):
            patch.setattr(client.RetryPolicy.__init__, "__defaults__", (3, 0.0, 0.0))
        yield


@pytest.fixture(autouse=True)
def _nothing_is_learned(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let no test know the size of the prompts of another."""
    if sizes := sys.modules.get("pb_graph.models.input_bound"):
        monkeypatch.setattr(sizes, "_sizes", OrderedDict())
        monkeypatch.setattr(sizes, "_ratios", {})


@pytest.fixture(autouse=True)
def no_network(request: pytest.FixtureRequest) -> Iterator[None]:
    """Allow loopback for integration tests; event loops need their socket pair."""
    if request.node.get_closest_marker("integration"):
        pytest_socket.socket_allow_hosts(["127.0.0.1", "::1", "localhost"], allow_unix_socket=True)
    else:
        pytest_socket.disable_socket(allow_unix_socket=True)
    yield
    pytest_socket._remove_restrictions()


@pytest.fixture(autouse=True)
def no_foreign_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    """Hide the developer's own keys, models and tracing."""
    for name in list(os.environ):
        if name.startswith(_FOREIGN):
            monkeypatch.delenv(name)
