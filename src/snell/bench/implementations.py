"""The implementations that can be measured: their names, the module that runs them, the packages they need.

``choose("all" | "none" | "a,b")`` gives snell and the peers asked for, split into those installed and those not, so
that a missing peer can be listed.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from importlib.util import find_spec

from snell.errors import UnsupportedError

__all__ = ["IMPLEMENTATIONS", "SEARCHED", "SNELL", "Chosen", "Implementation", "choose"]


@dataclass(frozen=True, slots=True)
class Implementation:
    """``module`` has ``prepare(case, threads) -> Program``; ``packages`` must be importable for it."""

    name: str
    module: str
    packages: tuple[str, ...]

    @property
    def missing(self) -> tuple[str, ...]:
        """The packages that are not installed."""
        return tuple(package for package in self.packages if find_spec(package) is None)


@dataclass(frozen=True, slots=True)
class Chosen:
    """The implementations to run, and those asked for that are not installed."""

    installed: tuple[Implementation, ...]
    not_installed: tuple[Implementation, ...]


def _peer(name: str, file: str, *packages: str) -> Implementation:
    return Implementation(name, f"snell.bench.peers.{file}", packages)


SNELL = _peer("snell", "snell_peer", "snell")
SEARCHED = _peer("snell+search", "snell_peer", "snell")
PEERS = (
    _peer("numpy", "numpy_peer", "numpy"),
    _peer("torch", "torch_peer", "torch", "transformers"),
    _peer("torch.compile", "torch_compile_peer", "torch", "transformers"),
    _peer("jax", "jax_peer", "jax"),
    _peer("onnxruntime", "onnxruntime_peer", "onnxruntime", "onnx", "torch", "transformers"),
    _peer("openvino", "openvino_peer", "openvino", "onnx", "torch", "transformers"),
    _peer("llama.cpp", "llama_cpp_peer", "llama_cpp"),
)
IMPLEMENTATIONS: dict[str, Implementation] = {each.name: each for each in (SNELL, SEARCHED, *PEERS)}


def choose(peers: str, *, search: bool = False) -> Chosen:
    """snell (also after a search, where asked) and ``all`` peers, ``none``, or those of a comma-separated list of names."""
    asked = (SNELL, *((SEARCHED,) if search else ()), *_peers(peers))
    return Chosen(
        installed=tuple(each for each in asked if not each.missing),
        not_installed=tuple(each for each in asked if each.missing),
    )


def _peers(peers: str) -> Sequence[Implementation]:
    if peers == "all":
        return PEERS
    if peers == "none":
        return ()
    names = [name.strip() for name in peers.split(",") if name.strip()]
    unknown = [name for name in names if name not in IMPLEMENTATIONS]
    if unknown:
        known = ", ".join(each.name for each in PEERS)
        raise UnsupportedError(f"peers {', '.join(unknown)}: expected all, none, or some of {known}")
    return tuple(IMPLEMENTATIONS[name] for name in names if name not in (SNELL.name, SEARCHED.name))
