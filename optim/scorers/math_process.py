"""The child process that compares mathematical answers with Math-Verify.

Run by `optim.scorers.child_process` as a program of its own, because Math-Verify times out by
SIGALRM (main thread only) and hangs all the same; it imports nothing of this package.
"""

from __future__ import annotations

import json
import logging
import os
import signal
import sys
from contextlib import suppress
from typing import Any

_MEMORY_LIMIT = 4 * 2**30  # bytes of address space: 10^(10^10) must not take the machine down


def compare(golds: list[str], prediction: str) -> dict[str, Any]:
    """Compare a prediction with each reference: `verify(gold, prediction)`, in that order."""
    # Imported late: slow, and only a running child needs it.
    from math_verify import parse, verify  # type: ignore[import-untyped]  # noqa: PLC0415

    # Without Math-Verify's own clock, which would answer "wrong" for "too slow".
    read = parse(prediction, parsing_timeout=None)
    references = [parse(f"${gold}$", parsing_timeout=None) for gold in golds]
    correct = any(verify(gold, read, timeout_seconds=None) for gold in references)
    text = next((part for part in reversed(read) if isinstance(part, str)), None)
    return {"correct": correct, "answer": text}


def answer(line: str) -> dict[str, Any]:
    """Answer one request line; what cannot be compared is said, not raised."""
    try:
        return compare(**json.loads(line))
    except Exception as error:  # noqa: BLE001 - sympy raises anything at all on odd input
        kind = "memory" if isinstance(error, MemoryError) else "error"
        return {"correct": False, "answer": None, kind: f"{type(error).__name__}: {error}"[:500]}


def _allow(seconds: float) -> None:
    """End this process by SIGPROF after so many seconds of computing; waiting does not count."""
    if hasattr(signal, "setitimer"):  # absent on Windows
        signal.setitimer(signal.ITIMER_PROF, seconds)


def main(limit: float) -> None:
    """Serve requests from stdin until it closes."""
    # Stray prints of a library must not end up between the replies.
    replies = os.fdopen(os.dup(1), "w", encoding="ascii")
    os.dup2(2, 1)
    logging.disable(logging.CRITICAL)
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for the parent to handle
    if hasattr(signal, "SIGPROF"):
        signal.signal(signal.SIGPROF, signal.SIG_DFL)
    with suppress(ImportError, ValueError, OSError):  # POSIX only, and not everywhere there
        import resource  # noqa: PLC0415 - absent on Windows

        resource.setrlimit(resource.RLIMIT_AS, (_MEMORY_LIMIT, _MEMORY_LIMIT))
    try:
        import math_verify  # noqa: F401, PLC0415 - loaded before the clock of a request runs
    except ImportError as error:
        hello: dict[str, Any] = {"failed": f"{error}. Try: pip install 'plan-and-budget[eval]'"}
    else:
        hello = {"ready": True}
    print(json.dumps(hello), file=replies, flush=True)
    for line in sys.stdin:
        _allow(limit)
        reply = answer(line)
        _allow(0)
        print(json.dumps(reply), file=replies, flush=True)


if __name__ == "__main__":
    main(float(sys.argv[1]))
