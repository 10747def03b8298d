"""``pb-optim eval``: answer questions, score the answers, and compare."""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Iterator
from typing import TYPE_CHECKING, Annotated, Any

import typer

from optim.cli.options import (
    AsJson,
    PriceRatio,
    echo,
    exits,
    with_options,
)
from optim.evaluation.experiment import Experiment

if TYPE_CHECKING:
    import pandas as pd

    from optim.evaluation import Evaluation

_REASONS = 3  # of errors that are shown; the logs have all
_ASKS_ABOVE = 200  # answers


@with_options(Experiment)
def evaluate_methods(
    options: dict[str, Any],
    *,
    ray: Annotated[
        int | None,
        typer.Option(metavar="N", help="Run in N parts on Ray.", rich_help_panel="Limits"),
    ] = None,
    yes: Annotated[
        bool,
        typer.Option(
            "--yes", "-y", help="Do not ask before a large run.", rich_help_panel="Limits"
        ),
    ] = False,
    price_ratio: PriceRatio = 4.0,
    as_json: AsJson = False,
) -> None:
    """Answer questions with methods, score the answers, and print the table.

    The same command continues a run and pays for no answer twice.
    """
    experiment = Experiment(**options)
    from optim.evaluation.run import evaluate  # noqa: PLC0415 -- Inspect takes seconds
    from optim.reporting.tables import answers  # noqa: PLC0415 -- pandas takes a second

    def confirm(size: str, count: int) -> None:
        typer.echo(size, err=True)
        asks = count > _ASKS_ABOVE and not yes and is_interactive()
        if asks and not typer.confirm("Begin?", err=True):
            raise typer.Abort

    run = None
    if ray is not None:
        from optim.evaluation.ray_parts import on_ray  # noqa: PLC0415 -- of an extra

        run = on_ray(ray)
    evaluation = evaluate(experiment, confirm=confirm, run=run)
    table = answers(evaluation.records, prices=experiment.prices, price_ratio=price_ratio)
    _show(evaluation, table, as_json=as_json, by_budget=experiment.grid is not None)
    if all(record.score is None for record in evaluation.records):
        error = next((record.error for record in evaluation.records if record.error), None)
        if error or evaluation.not_started:
            exits.fail(f"nothing was answered: {error or 'the limit is reached'}")
        typer.echo("No question falls into this part: there is nothing to do.", err=True)


def is_interactive() -> bool:
    """Return whether a user can answer a prompt in a terminal."""
    return sys.stdin.isatty()


def _show(evaluation: Evaluation, answers: pd.DataFrame, *, as_json: bool, by_budget: bool) -> None:
    from optim.reporting import formatting, tables  # noqa: PLC0415

    figures = tables.figures(answers)
    grid = tables.budget_grid(answers) if by_budget else None
    if as_json:
        document = {
            "figures": tables.to_rows(figures),
            "spent": evaluation.spent,
            "not_started": evaluation.not_started,
            "log_dir": str(evaluation.log_dir),
        }
        if grid is not None:
            document["budget_grid"] = tables.to_rows(grid.reset_index())
        echo(document)
        return
    lines = [formatting.text_table(formatting.displayed(figures)), *formatting.remarks(figures)]
    if grid is not None:
        lines.append(f"\nE³ by B_init (down) and B_per_level (across)\n{grid.round(2)}")
    lines += [*_errors(evaluation), *_comparisons(answers)]
    spent = f"{evaluation.spent} completion tokens spent in {evaluation.log_dir}"
    lines.append(f"{spent}; shared plans count once.")
    if evaluation.not_started:
        lines.append(
            f"The limit is reached: {evaluation.not_started} answers were not begun. The same "
            "command with a higher limit continues."
        )
    for line in lines:
        typer.echo(line)


def _errors(evaluation: Evaluation) -> Iterator[str]:
    """Yield the number of answers without a score, and the most common reasons."""
    reasons = Counter(str(r.error) for r in evaluation.records if r.score is None)
    if not reasons:
        return
    failed, total = sum(reasons.values()), len(evaluation.records)
    yield (
        f"Warning: {failed} of {total} answers failed (model or scorer error) and are excluded, so "
        "methods with failures may look better than they are. The same command asks them again."
    )
    for reason, count in reasons.most_common(_REASONS):
        text = "".join(c for c in " ".join(reason.split()) if c.isprintable())
        yield f"  {count} times: {text[:200]}"
    yield f"  All of them: inspect view --log-dir {evaluation.log_dir}"


def _comparisons(answers: pd.DataFrame) -> Iterator[str]:
    """Yield a sentence for each method against the baseline."""
    from optim.e3 import describe  # noqa: PLC0415
    from optim.reporting import tables  # noqa: PLC0415

    if answers.empty:
        return
    baseline = tables.choose_baseline(answers)
    for method, result in tables.comparisons(answers, baseline).items():
        text = result if isinstance(result, str) else describe(result)
        yield f"{method} against {baseline}: {text}"
