"""No event, log, reply, report, program, checkpoint, error or traceback has a key in it.

The server repeats in its refusals all that it was sent.
"""

from __future__ import annotations

import io
import logging
import traceback
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import openai
import pytest
from inspect_ai.log import list_eval_logs, read_eval_log
from langchain_openai import ChatOpenAI
from langgraph.checkpoint.sqlite import SqliteSaver
from pydantic import SecretStr
from rich.console import Console

from optim.datasets import load
from optim.evaluation import Experiment, evaluate
from optim.records import read_records
from optim.reporting import report
from optim.tuning import GraphProgram, tune
from optim.tuning.evaluator import OutageError
from pb_graph import NoAnswerError, Settings, build_graph
from tests.support.clients import chat_to, endpoint_of
from tests.support.evaluations import tolerates_inspect
from tests.support.fault_server import Fault, FaultServer, Request
from tests.support.graphs import QUESTION

pytestmark = [pytest.mark.integration, *tolerates_inspect]

# No form that keys are known by: nothing but knowing it can hide it.
KEY = "canary of a/key"


def model_of(place: str, url: str, monkeypatch: pytest.MonkeyPatch) -> ChatOpenAI | str:
    """Return a chat model that was given the key in one of the ways that there are."""
    if place == "environment":
        monkeypatch.setenv("OPENAI_API_KEY", KEY)
        monkeypatch.setenv("OPENAI_BASE_URL", url)
        return "openai:m"
    headers = {"Authorization": f"Bearer {KEY}"}
    return chat_to(url, api_key=SecretStr("some-other"), max_retries=0, default_headers=headers)


def sometimes(request: Request) -> Fault | None:
    """Refuse every third request, with all that was sent."""
    return "bad_key" if request.number % 3 == 2 else None


def evaluated(model: ChatOpenAI | str, folder: Path) -> Iterator[str]:
    chosen = Experiment(
        dataset="arithmetic",
        methods="vanilla,plan_and_budget,default",
        model=model,
        limit=4,
        log_dir=folder / "logs",
        concurrency=1,
    )
    evaluate(chosen, console=Console(file=(shown := io.StringIO())))
    yield shown.getvalue()
    for kind in ("html", "json", "csv"):
        report(read_records(folder / "logs"), folder / f"report.{kind}")


def streamed(model: ChatOpenAI | str, folder: Path) -> Iterator[str]:
    settings = Settings(method="plan_and_budget", execution="stepwise", max_retries=0)
    with SqliteSaver.from_conn_string(str(folder / "checkpoints.sqlite")) as saver:
        graph: Any = build_graph(model, settings=settings, checkpointer=saver)
        for thread in range(4):
            config: Any = {"configurable": {"thread_id": thread}}
            modes = ["custom", "values", "updates", "messages"]
            try:
                yield from map(str, graph.stream(QUESTION, config, stream_mode=modes))
            except NoAnswerError as error:
                yield from (repr(error), str(error.report), *traceback.format_exception(error))


def tuned(model: ChatOpenAI | str, folder: Path) -> Iterator[str]:
    program = GraphProgram(model, settings={"method": "planned_vanilla", "max_retries": 0})
    program.save(folder / "saved.json")
    options: Any = {"optimizer": "candidates", "budget": 20, "run_dir": folder / "run"}
    for _ in range(20):  # each start gets further
        try:
            found = tune(
                program, (), load("arithmetic", limit=6), scorer=lambda *_, **__: True, **options
            )
        except OutageError as error:
            yield from traceback.format_exception(error)
            continue
        found.program.save(folder / "tuned.json")
        break
    assert (folder / "tuned.json").exists()


def served(model: ChatOpenAI | str, _: Path) -> Iterator[str]:
    wish: Any = {"extra_body": {"report": True}, "model": "vanilla"}
    asked: Any = [{"role": "user", "content": "6 * 7?"}]
    with endpoint_of(model) as url, openai.OpenAI(base_url=url, api_key="none") as client:
        for stream in (False, True) * 3:
            try:
                chat = client.chat.completions.create(messages=asked, stream=stream, **wish)
                yield str(list(chat) if stream else chat)
            except openai.APIError as error:
                yield f"{error} {error.body}"


def texts_in(folder: Path) -> dict[str, str]:
    """Return all files, and what is packed into the logs of Inspect."""
    files = [path for path in folder.rglob("*") if path.is_file()]
    found = {str(path): path.read_bytes().decode(errors="replace") for path in files}
    logs = {log.name: read_eval_log(log).model_dump_json() for log in list_eval_logs(str(folder))}
    return found | logs


@pytest.mark.parametrize("place", ["environment", "header"])
def test_a_key_is_in_nothing_that_is_kept(
    place: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
    capfd: pytest.CaptureFixture[str],
) -> None:
    caplog.set_level(logging.DEBUG)
    with FaultServer(sometimes) as server:
        model = model_of(place, server.url, monkeypatch)
        parts = (evaluated, streamed, tuned, served)
        said = [text for part in parts for text in part(model, tmp_path)]
        sent = {value for each in server.requests for value in each.headers.values()}
    assert any(KEY in value for value in sent)
    texts = texts_in(tmp_path)
    assert any("[hidden]" in text for text in texts.values())
    texts |= {str(number): text for number, text in enumerate(said)}
    ours = (each for each in caplog.records if each.name.split(".")[0] in {"pb_graph", "optim"})
    texts |= {"log": "\n".join(each.getMessage() for each in ours)}
    texts |= {"terminal": "".join(capfd.readouterr())}
    assert [name for name, text in texts.items() if KEY in text] == []
