"""llama.cpp's own converter, run on small models: a program for a process of its own, with that converter's packages.

    python convert_folders.py FOLDER...          writes FOLDER/model.gguf for each, all weights f32

The converter knows published tokenizers by a hash, so the vocabulary is written here.
"""

import logging
import sys
from pathlib import Path
from typing import Any

import gguf
import torch
from conversion import ModelBase, get_model_class
from tokenizers.pre_tokenizers import ByteLevel


def set_vocabulary(self: Any) -> None:
    """The byte-level tokenizer of the tests' folders."""
    self.gguf_writer.add_tokenizer_model("gpt2")
    self.gguf_writer.add_tokenizer_pre("gpt-2")
    self.gguf_writer.add_token_list(
        [*sorted(ByteLevel.alphabet()), "<|bos|>", "<|endoftext|>", "<|turn_end|>", "<|start|>"]
    )
    self.gguf_writer.add_token_types([1] * 256 + [3] * 4)
    self.gguf_writer.add_token_merges(["h e"])
    self.gguf_writer.add_bos_token_id(256)
    self.gguf_writer.add_eos_token_id(257)


def convert(folder: Path) -> None:
    architecture = ModelBase.load_hparams(folder, False)["architectures"][0]
    base = get_model_class(architecture)
    judged = type("Judged", (base,), {"set_vocab": set_vocabulary, "model_arch": base.model_arch})
    with torch.inference_mode():
        judged(folder, gguf.LlamaFileType.ALL_F32, folder / "model.gguf").write()


if __name__ == "__main__":
    logging.disable(logging.INFO)
    for argument in sys.argv[1:]:
        convert(Path(argument))
