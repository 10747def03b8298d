"""Local models: llama.cpp inside this process, reached over loopback like any other server."""

from __future__ import annotations

import atexit
import ctypes
import os
import secrets
import sys
import threading
from dataclasses import dataclass, field
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from pb_graph.errors import ModelSetupError
from pb_graph.local import weights

if TYPE_CHECKING:
    from langchain_openai import ChatOpenAI


DEFAULT_MODEL: Final = "qwen2.5-coder-1.5b"
INSTALL_HINT: Final = 'pip install "plan-and-budget[local]"'

SLOTS: Final = 4  # requests decoded together, unless PB_SLOTS says; more of them wait their turn
CONTEXT: Final = 10240  # tokens of each slot: an answer of 8192 tokens fits, and its prompt
PROMPT_CACHE_MIB: Final = 256  # prompts pushed out of a slot; llama.cpp would take 8 GiB
TIMEOUT: Final = 3600.0  # seconds: a full answer beside three others, on a slow laptop
SILENT: Final = -1  # llama.cpp logs to stderr from verbosity 0 on
MAGIC: Final = b"GGUF"
CGROUP_CPU: Final = Path("/sys/fs/cgroup/cpu.max")
SPINS: Final = "1000"  # of a waiting thread before it sleeps


@dataclass(slots=True)
class LocalServer:
    """One model, served on loopback by a thread of this process.

    Attributes:
        name: What the model is called in requests and reports.
        path: The GGUF file.
        url: Base of the OpenAI-compatible API, with ``/v1``.
        key: The API key without which every call is refused.
    """

    name: str
    path: Path
    url: str
    key: str = field(repr=False)
    _native: Any = field(repr=False)

    def close(self) -> None:
        """Stop the server and give its memory back. Closing twice is harmless."""
        with _lock:
            if _servers.get(self.path) is self:
                del _servers[self.path]
            self._native = None  # the last reference: llama.cpp's destructor joins its threads


_lock = threading.RLock()
_servers: dict[Path, LocalServer] = {}
_forked = False  # llama.cpp was started in a parent of this process


def is_served(url: str) -> bool:
    """Tell whether a base URL is that of a model served by this process."""
    return any(server.url == url.rstrip("/") for server in list(_servers.values()))


def default_model() -> str | None:
    """Name the local model to use when none is given, or None without the ``[local]`` extra."""
    return DEFAULT_MODEL if find_spec("xllamacpp") else None


def serve(name_or_path: str | Path) -> LocalServer:
    """Serve a local model; a second call for the same file returns the running server.

    Args:
        name_or_path: A name of the catalog (fetched and verified when needed), or the path of a
            ``.gguf`` file, which is trusted as it is.

    Raises:
        ModelSetupError: Unknown name, no such file, not a GGUF file, missing extra, or llama.cpp
            cannot load it.
        WeightsError: The weights of a named model could not be fetched or verified.
    """
    if is_path(name_or_path):
        path = _checked(Path(name_or_path).expanduser())
    else:
        path = weights.fetch(str(name_or_path)).resolve()
    with _lock:
        if path not in _servers:
            _servers[path] = _start(public_name(name_or_path), path)
        return _servers[path]


def local_chat_model(
    name_or_path: str | Path,
    *,
    timeout: float = TIMEOUT,
    **options: Any,  # noqa: ANN401 -- whatever ChatOpenAI takes
) -> ChatOpenAI:
    """Serve a local model and return a chat model that talks to it.

    Unless told otherwise it picks the likeliest token each time, and tries nothing again: a local
    server has no rate limit.

    Args:
        name_or_path: As in `serve`.
        timeout: Seconds one call may take, waiting for a free slot included.
        **options: Further arguments of ``ChatOpenAI``.

    Raises:
        ModelSetupError: As in `serve`.
        WeightsError: As in `serve`.
    """
    import httpx  # noqa: PLC0415 -- this module is imported to list models, too
    from langchain_openai import ChatOpenAI  # noqa: PLC0415

    server = serve(name_or_path)
    # No proxy for loopback; no kept-alive connection, which llama.cpp may drop without a word.
    transport: dict[str, Any] = {
        "trust_env": False,
        "limits": httpx.Limits(max_keepalive_connections=0),
    }
    settings: dict[str, Any] = {
        "model": server.name,
        "base_url": server.url,
        "api_key": server.key,
        "temperature": 0.0,
        "timeout": timeout,
        "max_retries": 0,
        "stream_usage": True,
        "use_responses_api": False,
        "openai_proxy": None,  # the environment may hold one for the real OpenAI
        "http_client": httpx.Client(**transport),
        "http_async_client": httpx.AsyncClient(**transport),
    }
    return ChatOpenAI(**(settings | options))


def is_path(name_or_path: str | Path) -> bool:
    """Whether a local model is given by its file instead of a name."""
    text = str(name_or_path)
    return isinstance(name_or_path, Path) or text.endswith(".gguf") or "/" in text or os.sep in text


def public_name(name_or_path: str | Path) -> str:
    """Name a model in requests and reports without giving away where it lies."""
    return Path(name_or_path).stem if is_path(name_or_path) else str(name_or_path)


def _checked(path: Path) -> Path:
    """Refuse what llama.cpp would only refuse with an unspecific error."""
    try:
        with path.open("rb") as file:
            magic = file.read(len(MAGIC))
    except OSError as error:
        msg = f"Cannot read the model file {path}: {error.strerror}. Give the path of a .gguf file."
        raise ModelSetupError(msg) from error
    if magic != MAGIC:
        msg = f"{path} is not a GGUF file (it starts with {magic!r}). Give the path of a GGUF file."
        raise ModelSetupError(msg)
    return path.resolve()


def _start(name: str, path: Path) -> LocalServer:
    """Load the model; llama.cpp listens on a free port when this returns."""
    if _forked:
        msg = (
            "llama.cpp ran before this process was forked, and cannot start again in it. Serve "
            f"{name} before forking, or start processes with the 'spawn' method."
        )
        raise ModelSetupError(msg)
    xllamacpp = _llama_cpp()
    key = secrets.token_urlsafe(32)
    params = _params(xllamacpp.CommonParams(), name, path, key)
    try:
        native = xllamacpp.Server(params)
        native.handle_metrics()  # answered by its main loop: stopped before that, it hangs
    except RuntimeError as error:
        msg = (
            f"llama.cpp cannot load {path}: the file may be damaged, of a kind this version does "
            "not know, or too large for the free memory. Try another model, or upgrade xllamacpp."
        )
        raise ModelSetupError(msg) from error
    return LocalServer(name, path, f"{native.listening_address}/v1", key, native)


def _llama_cpp() -> Any:  # noqa: ANN401 -- untyped library
    """Import llama.cpp with threads that soon give up spinning while they wait for each other.

    By default GNU's OpenMP spins for milliseconds. On a machine that does anything else, the
    spinning threads take the cores from the one they wait for: on two cores beside one busy
    process, under one token a second instead of eleven. Read once, when the library is loaded.
    """
    if not {"GOMP_SPINCOUNT", "OMP_WAIT_POLICY"} & os.environ.keys():
        os.environ["GOMP_SPINCOUNT"] = SPINS
    try:
        import xllamacpp  # noqa: PLC0415 -- an extra, and heavy
    except ImportError as error:
        msg = f"Local models need llama.cpp: {INSTALL_HINT}"
        raise ModelSetupError(msg) from error
    return xllamacpp


def _params(params: Any, name: str, path: Path, key: str) -> Any:  # noqa: ANN401 -- untyped library
    """Fill in llama.cpp's parameters; what is not named keeps its default (prompt cache on)."""
    params.model.path = str(path)
    params.model_alias = {name}
    params.hostnames = ["127.0.0.1"]
    params.port = 0  # the system picks a free one
    params.api_keys = [key]
    params.ui = False
    params.endpoint_slots = False
    params.endpoint_metrics = True
    params.verbosity = SILENT
    params.warmup = False  # costs a second, and the first prompt warms as well
    params.n_parallel = slots = _positive("PB_SLOTS", SLOTS)
    params.n_ctx = CONTEXT * slots
    params.kv_unified = False  # a slot that overflows a shared memory fails all the others
    params.cache_ram_mib = PROMPT_CACHE_MIB
    params.cpuparams.n_threads = params.cpuparams_batch.n_threads = _threads()
    return params


def _threads() -> int:
    """Count the cores to compute on; -1 leaves the choice to llama.cpp, which takes them all.

    One thread too many costs far more than it brings, since all wait for the slowest. llama.cpp
    sees the machine, not a container's share of it.
    """
    if wanted := _positive("PB_THREADS", 0):
        return wanted
    cores = os.cpu_count() or 1
    limits = [len(os.sched_getaffinity(0))] if hasattr(os, "sched_getaffinity") else []
    if CGROUP_CPU.exists():
        quota, period = CGROUP_CPU.read_text().split()
        limits += [max(1, int(quota) // int(period))] if quota != "max" else []
    allowed = min([cores, *limits])
    return allowed if allowed < cores else -1


def _positive(variable: str, default: int) -> int:
    """Read a count from the environment."""
    text = os.environ.get(variable) or str(default)
    if text == str(default) or (text.isdecimal() and int(text) > 0):
        return int(text)
    msg = f"{variable} is {text!r}; give a whole number, 1 or more."
    raise ModelSetupError(msg)


@atexit.register
def _leave_to_the_system() -> None:
    """Let a process end although its servers are at work, as after Ctrl-C.

    llama.cpp's destructors wait until the answers under way are written, which nobody reads.
    """
    for server in list(_servers.values()):
        if _skip_destructors():
            _keep_for_ever(server)
        else:
            server.close()


def _leave_to_parent() -> None:
    """After a fork, call the parent's servers but never close them: their threads live there.

    llama.cpp's destructors wait for those threads for ever.
    """
    global _lock, _forked  # noqa: PLW0603 -- another thread of the parent may have held the lock
    _lock = threading.RLock()
    if "xllamacpp" not in sys.modules:
        return
    _forked = True
    for server in _servers.values():
        _keep_for_ever(server)
        server._native = None  # noqa: SLF001
    _skip_destructors()


def _keep_for_ever(server: LocalServer) -> None:
    ctypes.pythonapi.Py_IncRef(ctypes.py_object(server._native))  # noqa: SLF001


def _skip_destructors() -> bool:
    """Whether this process will skip those of C++ at exit; Python has cleaned up by then."""
    libc = ctypes.CDLL(None) if os.name == "posix" else None
    if not hasattr(libc, "on_exit"):  # glibc has it
        return False
    libc.on_exit(libc._exit, None)  # type: ignore[union-attr] # noqa: SLF001 -- a C function's name
    return True


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_leave_to_parent)
