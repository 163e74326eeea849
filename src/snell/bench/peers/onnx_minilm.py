"""MiniLM as an ONNX file, exported once by PyTorch and kept in the cache folder."""

from pathlib import Path

import torch
import transformers

from snell.bench.models import model_path
from snell.config import Config, process_environment

__all__ = ["onnx_minilm"]


class _LastHidden(torch.nn.Module):
    """The exporter wants tensors in and out; the model returns a record."""

    def __init__(self, model: torch.nn.Module) -> None:
        super().__init__()
        self.model = model

    def forward(self, ids: torch.Tensor) -> torch.Tensor:
        return self.model(ids).last_hidden_state


def onnx_minilm() -> Path:
    """A float32 model with the input ``ids`` (batch, sequence), int64, and the output ``hidden``."""
    path = Config.from_environment(process_environment()).cache_dir / "bench" / "minilm.onnx"
    if path.exists():
        return path
    path.parent.mkdir(parents=True, exist_ok=True)
    model = transformers.BertModel.from_pretrained(
        model_path("minilm"), add_pooling_layer=False, attn_implementation="eager"
    )
    partial = path.with_suffix(".partial")
    # The tracing exporter: the newer one needs a further package.
    torch.onnx.export(
        _LastHidden(model.eval()),
        (torch.zeros(1, 16, dtype=torch.int64),),
        str(partial),
        input_names=["ids"],
        output_names=["hidden"],
        dynamic_axes={"ids": {0: "batch", 1: "sequence"}, "hidden": {0: "batch", 1: "sequence"}},
        opset_version=17,
        dynamo=False,
    )
    partial.replace(path)
    return path
