"""Reading a data set from the Hugging Face hub, through the `datasets` library."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

from optim.datasets.rows import Entry
from pb_graph.errors import InputError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from optim.datasets.spec import HubSource

__all__ = ["hub_rows"]


def hub_rows(source: HubSource, split: str | None = None) -> Iterator[Entry]:
    """Read a split; `datasets` keeps a local copy, so that a second run needs no network.

    Raises:
        InputError: `datasets` is not installed, or the hub, the data set or the split is out of
            reach; the error names the way around, a local file.
    """
    chosen = split or source.split
    # Imported only here: it takes seconds, and a local file does without.
    try:
        library = import_module("datasets")
    except ImportError as error:
        msg = (
            f"reading {source.path} from the hub needs the datasets library: pip install "
            "'plan-and-budget[eval]', or give a local copy with --data PATH"
        )
        raise InputError(msg) from error
    try:
        rows = library.load_dataset(source.path, source.name, split=chosen)
    except Exception as error:
        msg = (
            f"could not read split {chosen!r} of {source.path} from the hub ({error}); download it "
            "elsewhere and give the file with --data PATH, or run offline with arithmetic"
        )
        raise InputError(msg) from error
    return (Entry(position, row) for position, row in enumerate(rows, start=1))
