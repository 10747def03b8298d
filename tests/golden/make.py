"""Made this folder once, with the code before the rebuild of November 2026; kept to show how.

What it left is what `tests/optim/test_golden.py` reads back: run again, it would only pin the code
of the day. Then: ``PYTHONPATH=. python tests/golden/make.py``.
"""

from __future__ import annotations

import json
import os
import re
import tempfile
from pathlib import Path
from typing import Any

from inspect_ai.log import EvalLog, read_eval_log, write_eval_log

from optim.records import read_records
from tests.support import golden
from tests.support.golden import pb_optim

_MACHINE = re.compile(r"(?:file://)?/[\w.@+-]+(?:/[\w.@+-]+)*/(?=[\w.-]+)")


def main() -> None:
    """Make everything anew in a temporary folder, and put it here."""
    with tempfile.TemporaryDirectory() as made:
        os.chdir(made)  # so that the commands are told no path of this machine
        with golden.served():
            _keep("eval.json", pb_optim(*golden.EVAL, "--log-dir", "logs"))
        _copied(Path("logs"), golden.LOGS)
    golden.make_program()
    _keep(
        "records.json", json.dumps([golden.essence(record) for record in read_records(golden.LOGS)])
    )
    _keep("arithmetic.sha256", golden.digest() + "\n")


def _keep(name: str, content: str) -> None:
    if name.endswith(".json"):
        content = json.dumps(json.loads(content), ensure_ascii=False, indent=1) + "\n"
    (golden.FOLDER / name).write_text(content, encoding="utf-8")


def _copied(source: Path, target: Path) -> None:
    """Keep the logs without Inspect's transcripts: most of them, and nothing that we read."""
    target.mkdir(exist_ok=True)
    for old in target.glob("*.eval"):
        old.unlink()
    for path in sorted(source.glob("*.eval")):
        log = read_eval_log(str(path), resolve_attachments=True)
        for sample in log.samples or []:
            sample.events, sample.messages, sample.attachments = [], [], {}
        log.eval.revision = None
        document: Any = json.loads(_MACHINE.sub("", log.model_dump_json(exclude={"location"})))
        name = re.sub(r"\W+", "_", (log.eval.metadata or {})["method"])
        write_eval_log(EvalLog.model_validate(document), str(target / f"{name}.eval"))


if __name__ == "__main__":
    main()
