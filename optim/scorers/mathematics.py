r"""Mathematical answers: Math-Verify, in a worker process with a hard time-out."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING, Any

from optim.scorers.reading import boxed_answer, without_thinking
from optim.scorers.score import Score, ScorerError
from optim.scorers.worker import TimeLimitError, Worker

if TYPE_CHECKING:
    from optim.scorers.score import Question

_WORKER = Path(__file__).with_name("math_worker.py")
_TIME_LIMIT = 10.0  # seconds; a sound comparison takes milliseconds
_LONGEST = 20_000  # characters kept from the end, where the answer stands
_GSM8K_MARK = re.compile(r"####\s*(?=[-+$.\d])")


class MathScorer:
    r"""1 for an answer equal to a reference, 0 for any other; thinking does not count.

    The last `\boxed{}` is the answer (boxes side by side are read together). Without one the text,
    from GSM8K's "####" on where there is one, goes to Math-Verify, which looks for "the answer
    is …", then for the last expression or number. References are compared as
    `verify($gold$, prediction)`.

    Safe to call from several threads, one comparison at a time. It blocks: call it through
    `asyncio.to_thread` from an event loop. The worker starts with the first comparison and ends
    with the scorer, with `close`, or at exit.

    Args:
        time_limit: Seconds for one comparison; what takes longer is killed and scores 0, with
            `{"timed_out": true}` in the metadata.
        worker: The program to compare with; for tests.
    """

    def __init__(self, *, time_limit: float = _TIME_LIMIT, worker: Path = _WORKER) -> None:
        self._worker = Worker(worker, time_limit)

    def close(self) -> None:
        """End the worker process; a later comparison starts a new one."""
        self._worker.close()

    def score(self, output: str, question: Question) -> Score:
        """Score an output against the question's targets.

        Raises:
            ScorerError: The question has no target, or the worker cannot run.
        """
        if not question.targets:
            msg = "a question without a target cannot be scored by the math scorer"
            raise ScorerError(msg)
        text = without_thinking(output)[-_LONGEST:]
        if not text:
            return Score(0.0, None, "the output holds no answer outside its thinking")
        boxed = boxed_answer(text)
        request = {"golds": list(question.targets), "prediction": _prediction(text, boxed)}
        try:
            reply = self._worker.ask(request)
        except TimeLimitError as error:
            return Score(0.0, boxed, f"comparing it took too long: {error}", {"timed_out": True})
        return _judge(reply, boxed, question.targets)


def _prediction(text: str, boxed: str | None) -> str:
    """What Math-Verify is to read: the box, what follows GSM8K's "####", or everything."""
    if boxed is not None:
        return rf"\boxed{{{boxed}}}"
    marks = list(_GSM8K_MARK.finditer(text))
    return text[marks[-1].end() :] if marks else text


def _judge(reply: dict[str, Any], boxed: str | None, targets: tuple[str, ...]) -> Score:
    read = boxed if boxed is not None else reply["answer"]
    metadata: dict[str, Any] = {"boxed": boxed is not None, "timed_out": False}
    if error := reply.get("error"):
        return Score(0.0, read, f"could not be compared: {error}", {**metadata, "error": error})
    # A reference that Math-Verify cannot read is still equal to itself.
    same = read is not None and _squeezed(read) in map(_squeezed, targets)
    correct = reply["correct"] or same
    expected = " or ".join(targets)
    if read is None:
        return Score(0.0, None, f"no mathematical answer found; expected {expected}", metadata)
    verdict = "equals" if correct else "differs from"
    return Score(float(correct), read, f"{read} {verdict} {expected}", metadata)


def _squeezed(text: str) -> str:
    return "".join(text.split())
