"""The command in a process of its own, against a loopback server with OpenAI's protocol."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, ClassVar

import pytest

from tests.support.fork_server import PATIENCE, Forked, forked
from tests.support.graphs import checked

pytestmark = pytest.mark.integration

COMMAND = "from pb_graph.cli import main; main()"
SOLVE = ("solve", "What is 6 * 7?", "--model", "openai:fake", "--set", "execution=stepwise")
GRADES = '{"level": 2, "levels": [1, 3], "credits": [40, 60]}'
PLAN = '{"steps": ["What is [red]given[/red]? | look", "What follows?"]}'


class Handler(BaseHTTPRequestHandler):
    """Plans and grades when a schema asks for it, and answers everything else."""

    solving: ClassVar[threading.Event]
    answers: ClassVar[threading.Event]
    bodies: ClassVar[list[dict[str, Any]]]
    constrains: ClassVar[bool]

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        self.bodies.append(body)
        wanted = body.get("response_format")
        if wanted and not self.constrains:
            self._send(400, {"error": {"message": "response_format is not supported"}})
            return
        if wanted:
            text = PLAN if "steps" in wanted["json_schema"]["schema"]["properties"] else GRADES
        elif self.constrains:
            self.solving.set()
            self.answers.wait(PATIENCE)
            text = "Final answer: 42"
        else:
            text = "1. What is given?\n2. What follows?\nFinal answer: 42"
        self._send(200, completion(text))

    def _send(self, status: int, document: dict[str, Any]) -> None:
        content = json.dumps(document).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        try:
            self.wfile.write(content)
        except OSError:
            self.close_connection = True  # the client has gone, as a test may want it to

    def log_message(self, *_: object) -> None:
        """Stay silent."""


def completion(text: str) -> dict[str, Any]:
    message = {"role": "assistant", "content": text}
    words = len(text.split())
    return {
        "id": "1",
        "object": "chat.completion",
        "created": 0,
        "model": "fake",
        "choices": [{"index": 0, "message": message, "finish_reason": "stop"}],
        "usage": {"prompt_tokens": 50, "completion_tokens": words, "total_tokens": 50 + words},
    }


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[type[Handler]]:
    """A server that ``openai:fake`` is found at, by the variable that OpenAI's SDK reads."""

    class Fresh(Handler):
        solving = threading.Event()
        answers = threading.Event()
        bodies: ClassVar[list[dict[str, Any]]] = []
        constrains = True

    Fresh.answers.set()
    serving = ThreadingHTTPServer(("127.0.0.1", 0), Fresh)
    serving.daemon_threads = True
    thread = threading.Thread(target=serving.serve_forever, args=(0.05,))
    thread.start()
    monkeypatch.setenv("OPENAI_BASE_URL", f"http://127.0.0.1:{serving.server_port}/v1")
    monkeypatch.setenv("OPENAI_API_KEY", "sk-loopback")
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    yield Fresh
    Fresh.answers.set()
    serving.shutdown()
    thread.join()
    serving.server_close()


def started(*options: str) -> Forked:
    return forked(COMMAND, *SOLVE, *options, strict=True)


def solve(*options: str) -> subprocess.CompletedProcess[str]:
    process = started(*options)
    out, errors = process.communicate()
    assert process.returncode is not None
    return subprocess.CompletedProcess(SOLVE, process.returncode, out, errors)


def loaded_and_solved(*options: str) -> subprocess.CompletedProcess[str]:
    """In an interpreter of its own, so that what is loaded warns of nothing either."""
    return subprocess.run(  # noqa: S603 -- our own code
        [sys.executable, "-W", "error", "-c", COMMAND, *SOLVE, *options],
        capture_output=True,
        text=True,
        timeout=PATIENCE,
        check=False,
    )


def test_json_is_one_document_that_accounts_for_every_call_and_caps_reach_the_server(
    server: type[Handler],
) -> None:
    done = loaded_and_solved("--json", "--budget", "200")
    assert (done.returncode, done.stderr) == (0, "")
    report = checked(json.loads(done.stdout))
    assert [step["question"] for step in report["steps"]] == [
        "What is [red]given[/red]?",
        "What follows?",
    ]
    assert report["usage"]["calls"] == len(server.bodies) == 4
    assert report["usage"]["measured"]
    assert report["usage"]["output_tokens"] == sum(
        len(text.split()) for text in (PLAN, GRADES, "Final answer: 42", "Final answer: 42")
    )
    # The caps came under the name that the server knows.
    assert all("max_completion_tokens" not in body for body in server.bodies)
    solving = [body["max_tokens"] for body in server.bodies if "response_format" not in body]
    assert len(solving) == 2
    assert all(cap <= step["cap"] for cap, step in zip(solving, report["steps"], strict=True))


def test_a_server_that_cannot_constrain_is_asked_in_words(server: type[Handler]) -> None:
    server.constrains = False
    done = solve("--json", "--method", "planned_vanilla")
    assert done.returncode == 0
    report = checked(json.loads(done.stdout))
    assert report["warnings"] == []
    assert len(report["steps"]) == 2
    assert [("response_format" in body) for body in server.bodies] == [True, False, False]


def test_people_see_plan_and_answer_literally(server: type[Handler]) -> None:
    done = solve()
    assert (done.returncode, done.stderr) == (0, "")
    assert "What is [red]given[/red]?" in done.stdout
    assert "Final answer: 42" in done.stdout
    assert len(server.bodies) == 4


@pytest.mark.parametrize("options", [(), ("--json",)], ids=["shown", "json"])
def test_ctrl_c_leaves_one_readable_line_with_what_was_spent(
    server: type[Handler], options: tuple[str, ...]
) -> None:
    server.answers.clear()
    process = started(*options)
    try:
        assert server.solving.wait(PATIENCE)
        process.send_signal(signal.SIGINT)
        stdout, stderr = process.communicate()
    finally:
        process.kill()
    assert process.returncode == 130
    spent = len(PLAN.split()) + len(GRADES.split())
    assert stderr == (f"pb-graph: interrupted. {spent} completion tokens were spent in 2 calls.\n")
    assert ("What follows?" in stdout) == (not options)


def test_a_server_that_is_gone_is_a_failure_in_one_line(
    monkeypatch: pytest.MonkeyPatch, server: type[Handler]
) -> None:
    monkeypatch.setenv("OPENAI_BASE_URL", "http://127.0.0.1:9/v1")
    done = solve("--set", "max_retries=0", "--method", "vanilla")
    assert (done.returncode, done.stdout.strip()) == (1, "")
    assert "running and reachable" in done.stderr
    assert "Traceback" not in done.stderr
    assert server.bodies == []
