"""Models in other formats of quantised weights: written once by llama.cpp's own quantiser, from the file of a model.

``smollm2-q4_0`` is SmolLM2 with its matrices dequantised and quantised again as Q4_0, the larger ones as llama.cpp mixes
them.  The files are kept in the user's data folder.
"""

import os
from importlib.util import find_spec
from pathlib import Path

from snell.bench.peers.child import reading
from snell.config import process_environment
from snell.errors import SnellError, UnsupportedError

__all__ = ["FORMATS", "requantised", "split_format"]

FORMATS = ("q4_0", "q4_1", "q5_0", "q5_1", "q8_0", "q2_k", "q3_k_m", "q4_k_m", "q5_k_m", "q6_k")

_QUANTISE = """
import ctypes
import llama_cpp
parameters = llama_cpp.llama_model_quantize_default_params()
parameters.ftype = llama_cpp.LLAMA_FTYPE_MOSTLY_{format}
parameters.allow_requantize = True
report(llama_cpp.llama_model_quantize({source!r}, {target!r}, ctypes.byref(parameters)))
"""


def split_format(name: str) -> tuple[str, str | None]:
    """A model's name and the format behind it, None where it has none: the model's own."""
    model, _, quantisation = name.rpartition("-")
    return (model, quantisation) if model and quantisation in FORMATS else (name, None)


def requantised(source: Path, quantisation: str, target: Path) -> Path:
    """The source's model in another format; UnsupportedError where llama.cpp is not installed."""
    if target.exists():
        return target
    if find_spec("llama_cpp") is None:
        raise UnsupportedError(f"{target.stem} is written by llama.cpp; install llama-cpp-python")
    target.parent.mkdir(parents=True, exist_ok=True)
    partial = target.with_name(f".{target.name}.{os.getpid()}")
    code = _QUANTISE.format(format=quantisation.upper(), source=os.fsencode(source), target=os.fsencode(partial))
    try:
        status = reading(code, process_environment())
        if status:
            raise SnellError(f"llama.cpp failed to write {source} as {quantisation.upper()}: status {status:.0f}")
        partial.replace(target)
    finally:
        partial.unlink(missing_ok=True)
    return target
