"""A run's folder is never shared by two different runs."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from pb_graph.errors import InputError

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

__all__ = ["claim"]

RUN = "run.json"


def claim(folder: Path, conditions: Mapping[str, Any]) -> None:
    """Write down what run the folder belongs to, or check that it is this one.

    Args:
        folder: Held by this process.
        conditions: Plain JSON of everything that bears on the run's way: data, models, settings,
            metric, optimizer, seed.

    Raises:
        InputError: The folder belongs to a run under other conditions; the error names them.
    """
    path, ours = folder / RUN, json.loads(json.dumps(dict(conditions)))
    if not path.exists():
        beside = path.with_suffix(".part")
        beside.write_text(json.dumps(ours, indent=2, ensure_ascii=False), encoding="utf-8")
        beside.replace(path)
        return
    theirs = _read(path)
    names = sorted(theirs.keys() | ours.keys())
    other = [name for name in names if theirs.get(name) != ours.get(name)]
    if other:
        msg = (
            f"{folder} holds another run: its {', '.join(other)} differ from this command's. "
            "Repeat that run's command to go on with it, or use another --run-dir."
        )
        raise InputError(msg)


def _read(path: Path) -> dict[str, Any]:
    try:
        found = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        msg = f"cannot read {path}: {error}. Use another --run-dir."
        raise InputError(msg) from error
    if not isinstance(found, dict):
        msg = f"{path} is no run's description. Use another --run-dir."
        raise InputError(msg)
    return found
