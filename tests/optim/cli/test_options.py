"""Options come from the dataclasses they fill, and their names from the registries."""

from __future__ import annotations

import dataclasses
from typing import Any

import pytest
import typer
from typer.testing import CliRunner

from optim import cli
from optim.cli.options import with_options
from optim.datasets import DATASETS
from optim.scorers import NAMES as SCORERS
from optim.tuning.options import OPTIMIZERS


@pytest.mark.parametrize(
    ("command", "names"),
    [
        ("eval", [*DATASETS, *SCORERS, "vanilla,default", "paper", "rivals"]),
        ("tune", [*DATASETS, *OPTIMIZERS, *SCORERS, "decompose", "estimate", "settings"]),
    ],
)
def test_help_lists_every_name_that_an_option_takes(command: str, names: list[str]) -> None:
    shown = CliRunner().invoke(cli.app, [command, "--help"], terminal_width=200).stdout
    missing = [name for name in names if name not in shown]
    assert not missing


def test_the_help_of_eval_is_a_page() -> None:
    shown = CliRunner().invoke(cli.app, ["eval", "--help"], terminal_width=80).stdout
    assert len(shown.strip().splitlines()) <= 60
    for panel in ("Questions", "Methods", "Model", "Limits", "Output"):
        assert f"─ {panel} ─" in shown


@dataclasses.dataclass(frozen=True, kw_only=True)
class Few:
    dataset: str
    limit: int | None = 7
    levels: list[int] | None = None
    settings: dict[str, Any] = dataclasses.field(default_factory=dict)
    seed: int = 0
    cap_policy: object = None


def few(*words: str) -> tuple[dict[str, Any], str]:
    """What a command gets whose own ``seed`` is a text."""
    got: list[tuple[dict[str, Any], str]] = []

    @with_options(Few)
    def command(options: dict[str, Any], *, seed: str = "mine") -> None:
        """Do nothing."""
        got.append((options, seed))

    app = typer.Typer()
    app.command()(command)
    done = CliRunner().invoke(app, list(words))
    assert done.exit_code == 0, done.output
    return got[0]


def test_a_command_gets_the_fields_read_or_their_defaults_and_its_own_parameters() -> None:
    options, seed = few(
        "--dataset", "gsm8k", "--levels", "1,2", "--set", "cutoff=90", "--set", "domain=law",
        "--seed", "x",
    )  # fmt: skip
    assert Few(**options) == Few(
        dataset="gsm8k", levels=[1, 2], settings={"cutoff": 90, "domain": "law"}
    )
    assert seed == "x"
    options, seed = few("--dataset", "gsm8k")
    assert (Few(**options), seed) == (Few(dataset="gsm8k"), "mine")
