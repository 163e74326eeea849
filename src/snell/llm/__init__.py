"""Language models: families, tokenizer, chat templates, sampling and generation."""

from snell.llm.compiler_protocol import CompiledProgram, Compiler, Program
from snell.llm.embed import EmbeddingModel
from snell.llm.generation import Chunk, Generation, Timings, TokenLogprob, ToolCall, ToolCallDelta, Usage
from snell.llm.generation_stream import GenerationStream
from snell.llm.load import load
from snell.llm.model import LanguageModel
from snell.llm.tokenizer import Tokenizer

__all__ = [
    "Chunk",
    "CompiledProgram",
    "Compiler",
    "EmbeddingModel",
    "Generation",
    "GenerationStream",
    "LanguageModel",
    "Program",
    "Timings",
    "TokenLogprob",
    "Tokenizer",
    "ToolCall",
    "ToolCallDelta",
    "Usage",
    "load",
]
