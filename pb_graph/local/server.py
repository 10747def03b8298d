"""Run local models by llama.cpp in this process, and call them over loopback."""

from __future__ import annotations

import atexit
import os
import secrets
import threading
from contextlib import suppress
from pathlib import Path
from socket import AF_INET, SHUT_RDWR, SOCK_STREAM, fromfd
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import urlsplit

from pb_graph.errors import ModelSetupError
from pb_graph.local import weights

if TYPE_CHECKING:
    from langchain_openai import ChatOpenAI

DEFAULT_MODEL: Final = "qwen2.5-coder-1.5b"
SLOTS: Final = 4  # requests decoded together; others wait
CONTEXT: Final = 10240  # tokens of each slot: an answer of 8192 tokens fits, and its prompt
TIMEOUT: Final = 3600.0  # seconds: a full answer beside three others, on a slow laptop
_CGROUP_CPU: Final = Path("/sys/fs/cgroup/cpu.max")

_lock = threading.RLock()
_servers: dict[Path, LocalServer] = {}


class LocalServer:
    """One model, loaded from its file, and served on loopback by threads of this process."""

    def __init__(self, name: str, path: Path) -> None:
        weights.require_extra()
        import xllamacpp  # noqa: PLC0415 -- an extra, and heavy

        self.name, self.path = name, path  # the name is that in requests and reports
        self.key = secrets.token_urlsafe(32)  # without it, every call is refused
        params: Any = xllamacpp.CommonParams()
        params.model.path = str(path)
        params.model_alias = {name}
        params.hostnames, params.port = ["127.0.0.1"], 0  # the system picks a free port
        params.api_keys = [self.key]
        params.ui = params.endpoint_slots = False
        params.endpoint_metrics = True
        params.verbosity = -1  # llama.cpp logs to stderr from 0 on
        params.warmup = False  # costs a second; the first prompt warms up as well
        params.n_parallel, params.n_ctx = SLOTS, CONTEXT * SLOTS
        params.kv_unified = False  # a slot that overflows a shared memory fails all the others
        params.cache_ram_mib = 256  # llama.cpp would take 8 GiB
        params.cpuparams.n_threads = params.cpuparams_batch.n_threads = _threads()
        try:
            self._native: Any = xllamacpp.Server(params)
            self._native.handle_metrics()  # waits for the main loop; a server stopped earlier hangs
        except RuntimeError as error:
            msg = f"llama.cpp cannot load {path}: it is missing, damaged, of an unknown kind, or "
            msg += "too large for the free memory. Give the path of another .gguf file."
            raise ModelSetupError(msg) from error
        self.url = f"{self._native.listening_address}/v1"  # base of the OpenAI-compatible API

    def close(self) -> None:
        """Stop the server and free its memory. A call that still runs in a thread fails."""
        with _lock:
            _servers.pop(self.path, None)
            # llama.cpp's destructor waits until all clients have left, and holds the GIL meanwhile.
            address = (urlsplit(self.url).hostname, urlsplit(self.url).port)
            sockets = [file.name for file in Path("/dev/fd").glob("*") if file.is_socket()]
            for number in sorted(map(int, sockets)):  # the listening socket was opened first
                with suppress(OSError), fromfd(number, AF_INET, SOCK_STREAM) as connection:
                    if connection.getsockname() == address:
                        connection.shutdown(SHUT_RDWR)
            self._native = None  # the last reference: its destructor joins its threads


def serve(name_or_path: str | Path) -> LocalServer:
    """Serve a local model; a second call for the same file returns the running server.

    Args:
        name_or_path: A name of the catalog, or the path of a ``.gguf`` file, which is not verified.

    Raises:
        ModelSetupError: If the weights cannot be fetched or loaded, or the extra is missing.
    """
    is_file = is_path(name_or_path)
    given = Path(name_or_path).expanduser() if is_file else weights.fetch(str(name_or_path))
    path = given.resolve()
    with _lock:
        if path not in _servers:
            _servers[path] = LocalServer(given.stem, path)  # by the name of a link
            atexit.register(_servers[path].close)
        return _servers[path]


def local_chat_model(name_or_path: str | Path, **options: Any) -> ChatOpenAI:  # noqa: ANN401
    """Serve a local model, and return a chat model that talks to it at temperature 0.

    Args:
        name_or_path: As in `serve`, whose errors it may raise.
        **options: Arguments of ``ChatOpenAI``. A call may take an hour, the wait for a slot too.
    """
    import httpx  # noqa: PLC0415 -- this module is imported to list models, too
    from langchain_openai import ChatOpenAI  # noqa: PLC0415

    server = serve(name_or_path)
    # No proxy for loopback, and no keep-alive: llama.cpp may drop idle connections silently.
    once: Any = {"trust_env": False, "limits": httpx.Limits(max_keepalive_connections=0)}
    given: Any = {"model": server.name, "base_url": server.url, "api_key": server.key}
    given |= {"temperature": 0.0, "timeout": TIMEOUT, "max_retries": 0, "stream_usage": True}
    given |= {"http_client": httpx.Client(**once), "http_async_client": httpx.AsyncClient(**once)}
    # The environment may hold a proxy for the real OpenAI.
    given |= {"openai_proxy": None, "use_responses_api": False}
    return ChatOpenAI(**(given | options))


def is_served(url: str) -> bool:
    """Return whether a base URL is that of a model served by this process."""
    return url.rstrip("/") in [server.url for server in [*_servers.values()]]


def is_path(name_or_path: str | Path) -> bool:
    """Return whether a local model is given by its ``.gguf`` file instead of a name."""
    return str(name_or_path).endswith(".gguf")


def _threads() -> int:
    """Return ``PB_THREADS``, else the cores of the container, which llama.cpp cannot see."""
    if setting := os.environ.get("PB_THREADS"):
        return int(setting)
    has_affinity = hasattr(os, "sched_getaffinity")
    cores = len(os.sched_getaffinity(0)) if has_affinity else os.cpu_count() or 1
    quota, period = _CGROUP_CPU.read_text().split() if _CGROUP_CPU.exists() else ("max", "")
    return cores if quota == "max" else min(cores, max(1, int(quota) // int(period)))
