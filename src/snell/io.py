"""Files in and out: `load_safetensors`, `save_safetensors`, `load_gguf`."""

from snell.importers.gguf import read_gguf as load_gguf
from snell.importers.safetensors import load_safetensors, save_safetensors

__all__ = ["load_gguf", "load_safetensors", "save_safetensors"]
