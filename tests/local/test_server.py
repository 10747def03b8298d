"""What can be said about local models without loading one."""

from __future__ import annotations

import os
import sys
from types import SimpleNamespace
from typing import TYPE_CHECKING

import pytest

from pb_graph.errors import ModelSetupError
from pb_graph.local import server as local

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


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
