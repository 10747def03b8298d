"""A disk that fills up under a run: a plain word, nothing paid again, and the run goes on."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.fork_server import forked
from tests.support.killed import paid_replies

resource = pytest.importorskip("resource", reason="limits are POSIX")
pytestmark = pytest.mark.integration

# What the process may write into one file; a file system of this size would refuse the same.
BEGIN = """
import json, resource, sys
from pathlib import Path
import typer
from optim.cli.options import plain_errors
from tests.support.chat_model import ScriptedChat, with_schema
{imports}

folder, limit = Path(sys.argv[1]), int(sys.argv[2])
{model}
if limit:
    resource.setrlimit(resource.RLIMIT_FSIZE, (limit, limit))
try:
    with plain_errors():
        {run}
except typer.Exit as end:
    sys.exit(end.exit_code)
finally:
    print(model.output_tokens)
"""
EVAL = BEGIN.format(
    imports="from tests.support.evaluations import evaluated, solves",
    model="model = ScriptedChat(solve=solves, plan=['One?', 'Two?'])",
    run="evaluated(model, folder, methods='vanilla,stepwise', epochs=3, concurrency=2)",
)
TUNE = BEGIN.format(
    imports="""from optim.tuning import GraphProgram, tune
from tests.support.tuning_world import DEV, HELD_OUT, MINIMAL, TRAIN, Exact, world""",
    model="""model = world()
program = GraphProgram(model, settings={'method': 'planned_vanilla'}, cap_policy=with_schema)""",
    run="""tune(program, TRAIN[:10], DEV[:15], held_out=HELD_OUT[:6], scorer=Exact(),
            optimizer="candidates", candidates=[MINIMAL], concurrency=2, run_dir=folder).save(
            folder / "program.json")""",
)


def ended(script: str, folder: Path, limit: int) -> tuple[int | None, str, str]:
    """How a run ended, and what it printed."""
    process = forked(script, str(folder), str(limit))
    out, errors = process.communicate()
    return process.returncode, out, errors


@pytest.mark.parametrize("script", [EVAL, TUNE], ids=["eval", "tune"])
def test_a_full_disk_is_said_plainly_and_the_same_command_goes_on(
    script: str, tmp_path: Path
) -> None:
    paid = 0
    for limit in (300, 40_000):
        code, out, errors = ended(script, tmp_path, limit)
        assert code == 1, (out, errors)
        # Inspect complains of its own files before and after.
        (said,) = (line for line in errors.splitlines() if line.startswith("pb-optim: "))
        assert said.lower().startswith("pb-optim: cannot write"), errors
        paid += int(out.splitlines()[-1])
    kept = paid_replies(tmp_path)
    code, out, errors = ended(script, tmp_path, 0)
    assert code == 0, errors
    paid += int(out.splitlines()[-1])
    after = paid_replies(tmp_path)
    assert after[: len(kept)] == kept
    answers = [tokens for _, tokens in after]
    # Each of the two times, at most the calls under way are paid for again.
    assert paid <= sum(answers) + 2 * 2 * max(answers)
