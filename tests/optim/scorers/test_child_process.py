from __future__ import annotations

import os
import subprocess
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING

import pytest

from optim.scorers import ScorerError
from optim.scorers.child_process import ChildProcess, TimeLimitError

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

# Answers {"echo": text, "pid": …}; sleeps, computes or dies on command.
PROGRAM = """
import json, os, signal, sys, time
print(json.dumps({"ready": True}), flush=True)
for line in sys.stdin:
    signal.setitimer(signal.ITIMER_PROF, float(sys.argv[1]))
    text = json.loads(line)["text"]
    if text == "sleep":
        time.sleep(60)
    while text == "compute" or (text == "compute once" and not os.path.exists(MARK)):
        open(MARK, "w").close() if text == "compute once" else None
        while True:
            pass
    if text == "wait":
        time.sleep(1)
    if text == "die" or (text == "die once" and not os.path.exists(MARK)):
        open(MARK, "w").close()
        os._exit(3)
    signal.setitimer(signal.ITIMER_PROF, 0)
    print(json.dumps({"echo": text, "pid": os.getpid()}), flush=True)
"""


@pytest.fixture
def program(tmp_path: Path) -> Path:
    path = tmp_path / "program.py"
    path.write_text(f"MARK = {str(tmp_path / 'mark')!r}\n{PROGRAM}")
    return path


@pytest.fixture
def process(program: Path) -> Iterator[ChildProcess]:
    made = ChildProcess(program, limit=30)
    yield made
    made.close()


def running(pid: int) -> bool:
    listed = subprocess.run(["ps", "-p", str(pid)], check=False, capture_output=True)  # noqa: S603, S607
    return listed.returncode == 0


def test_the_same_child_answers_again(process: ChildProcess) -> None:
    first, second = process.ask({"text": "a"}), process.ask({"text": "ü\ud800\n"})
    assert (first["echo"], second["echo"]) == ("a", "ü\ud800\n")
    assert first["pid"] == second["pid"]


def test_too_slow_a_child_is_replaced_asked_again_and_then_an_error(program: Path) -> None:
    process = ChildProcess(program, limit=0.3)
    before = process.ask({"text": "a"})["pid"]
    with pytest.raises(TimeLimitError, match=r"longer than 0.3 s of computing to judge, twice"):
        process.ask({"text": "compute"})
    assert not running(before)
    assert process.ask({"text": "b"})["echo"] == "b"
    assert process.ask({"text": "compute once"})["echo"] == "compute once"
    process.close()


def test_waiting_is_no_computing(program: Path) -> None:
    process = ChildProcess(program, limit=0.3)
    assert process.ask({"text": "wait"})["echo"] == "wait"
    process.close()


def test_a_stuck_child_is_given_up(program: Path) -> None:
    process = ChildProcess(program, limit=30, stuck_after=1)
    with pytest.raises(TimeLimitError):
        process.ask({"text": "sleep"})
    assert process.ask({"text": "b"})["echo"] == "b"
    process.close()


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs os.fork")
def test_a_forked_process_asks_a_child_of_its_own(process: ChildProcess) -> None:
    pid = process.ask({"text": "a"})["pid"]
    code = (
        "import os, sys; from pathlib import Path\n"
        "from optim.scorers.child_process import ChildProcess\n"
        f"w = ChildProcess(Path({str(process._program)!r}), 5)\n"
        "first = w.ask({'text': 'a'})['pid']\n"
        "forked = os.fork()\n"
        "if not forked:\n"
        "    sys.exit(w.ask({'text': 'b'})['pid'] == first)\n"
        "assert os.waitpid(forked, 0)[1] == 0\n"
        "assert w.ask({'text': 'c'})['pid'] == first\n"
    )
    done = subprocess.run([sys.executable, "-W", "error", "-c", code], check=False)  # noqa: S603
    assert done.returncode == 0
    assert process.ask({"text": "b"})["pid"] == pid


def test_a_child_that_dies_once_is_asked_again(process: ChildProcess) -> None:
    assert process.ask({"text": "die once"})["echo"] == "die once"


def test_a_child_that_dies_twice_is_an_error_not_an_answer(process: ChildProcess) -> None:
    with pytest.raises(ScorerError, match="died 2 times"):
        process.ask({"text": "die"})
    assert process.ask({"text": "still there"})["echo"] == "still there"


def test_a_child_killed_between_requests_is_replaced(process: ChildProcess) -> None:
    pid = process.ask({"text": "a"})["pid"]
    subprocess.run(["kill", "-9", str(pid)], check=True)  # noqa: S603, S607
    assert process.ask({"text": "b"})["echo"] == "b"


def test_a_child_that_cannot_start_says_why(tmp_path: Path) -> None:
    program = tmp_path / "broken.py"
    program.write_text("""print('{"failed": "no math_verify here"}')""")
    with pytest.raises(ScorerError, match="no math_verify here"):
        ChildProcess(program, limit=5).ask({})
    program.write_text("syntax error")
    with pytest.raises(ScorerError, match="ended at once"):
        ChildProcess(program, limit=5).ask({})


def test_threads_get_their_own_answers(process: ChildProcess) -> None:
    texts = [f"text {number}" for number in range(200)]
    with ThreadPoolExecutor(8) as pool:
        answers = list(pool.map(lambda text: process.ask({"text": text}), texts))
    assert [answer["echo"] for answer in answers] == texts


def test_an_interrupted_request_does_not_answer_the_next(
    process: ChildProcess, monkeypatch: pytest.MonkeyPatch
) -> None:
    process.ask({"text": "a"})
    child = process._child
    assert child is not None
    send = child._send_and_read

    def interrupted(line: str) -> str:
        send(line)
        raise KeyboardInterrupt

    monkeypatch.setattr(child, "_send_and_read", interrupted)
    with pytest.raises(KeyboardInterrupt):
        process.ask({"text": "b"})
    assert process.ask({"text": "c"})["echo"] == "c"


def test_closing_ends_the_child_and_is_repeatable(process: ChildProcess) -> None:
    pid = process.ask({"text": "a"})["pid"]
    process.close()
    process.close()
    assert not running(pid)
    assert process.ask({"text": "b"})["pid"] != pid


def test_a_forgotten_process_takes_its_child_along(program: Path) -> None:
    process = ChildProcess(program, limit=5)
    pid = process.ask({"text": "a"})["pid"]
    del process
    assert not running(pid)


def test_the_child_ends_with_the_process(program: Path) -> None:
    code = (
        "import sys; from pathlib import Path\n"
        "from optim.scorers.child_process import ChildProcess\n"
        f"w = ChildProcess(Path({str(program)!r}), 5); print(w.ask({{'text': 'a'}})['pid'])"
    )
    done = subprocess.run(  # noqa: S603
        [sys.executable, "-c", code], check=True, capture_output=True, text=True
    )
    assert not running(int(done.stdout))


def test_a_script_without_a_main_guard_does_not_run_twice(program: Path, tmp_path: Path) -> None:
    script = tmp_path / "script.py"
    script.write_text(
        f"import sys; sys.path[:0] = {sys.path!r}\n"
        "from pathlib import Path\nfrom optim.scorers.child_process import ChildProcess\n"
        "print('paid')\n"
        f"ChildProcess(Path({str(program)!r}), 5).ask({{'text': 'a'}})\n"
    )
    done = subprocess.run(  # noqa: S603
        [sys.executable, str(script)], check=True, capture_output=True, text=True
    )
    assert done.stdout.count("paid") == 1


def test_no_thread_is_left_behind(process: ChildProcess) -> None:
    before = threading.active_count()
    for _ in range(20):
        process.ask({"text": "a"})
    time.sleep(0.1)
    assert threading.active_count() <= before + 1
