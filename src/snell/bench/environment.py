"""The environment of a worker process: the same number of threads for every implementation, and a fair BLAS."""

from collections.abc import Mapping
from pathlib import Path

__all__ = ["search_environment", "worker_environment"]

# These pin OpenBLAS to a processor type or a cache size that need not be this machine's, which slows NumPy down.
_UNFAIR = ("OPENBLAS_CORETYPE", "OPENBLAS_L2_SIZE")
_THREAD_COUNTS = (
    "OMP_NUM_THREADS",
    "MKL_NUM_THREADS",
    "OPENBLAS_NUM_THREADS",
    "NUMEXPR_NUM_THREADS",
    "VECLIB_MAXIMUM_THREADS",
    "SNELL_THREADS",
)


def worker_environment(environ: Mapping[str, str], threads: int) -> dict[str, str]:
    """``environ`` without what would favour or hinder one implementation, and with equal thread counts."""
    kept = {name: value for name, value in environ.items() if name not in _UNFAIR}
    return kept | dict.fromkeys(_THREAD_COUNTS, str(threads)) | {"JAX_PLATFORMS": "cpu"}


def search_environment(implementation: str, cache_dir: Path, seconds: float) -> dict[str, str]:
    """What tells snell from snell after a search: a cache folder each, so that one has no records, and the budget of a line."""
    match implementation:
        case "snell":
            return {"SNELL_CACHE_DIR": str(cache_dir / "bench" / "heuristics"), "SNELL_SEARCH": "off"}
        case "snell+search":
            return {"SNELL_CACHE_DIR": str(cache_dir / "bench" / "searched"), "SNELL_SEARCH": str(seconds)}
        case _:
            return {}
