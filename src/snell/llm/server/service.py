"""Service: the model behind the server, with the runner that generates for everyone."""

import asyncio
from dataclasses import replace

from snell.errors import UnsupportedError
from snell.llm.embed import EmbeddingModel
from snell.llm.generated_text import GeneratedText
from snell.llm.model import LanguageModel
from snell.llm.options import GenerateOptions
from snell.llm.prompt import Prompt
from snell.llm.server.metrics import Metrics
from snell.llm.server.settings import Settings
from snell.llm.serving import Limits, Runner

__all__ = ["Service"]


class Service:
    """``cache_bytes`` None: room for as many whole contexts as there are places.  Compiles what it will need."""

    def __init__(
        self,
        model: LanguageModel | EmbeddingModel,
        settings: Settings,
        limits: Limits,
        cache_bytes: int | None = None,
    ) -> None:
        self.model, self.settings = model, settings
        self.runner: Runner | None = None
        model.prepare()
        if isinstance(model, LanguageModel):
            programs = model.batch_programs(limits.places)
            chunks = replace(
                limits, chunk=min(limits.chunk, programs.chunk), busy_chunk=min(limits.busy_chunk, programs.chunk)
            )
            whole = programs.pages.bytes_of(model.context)
            self.runner = Runner(programs, chunks, limits.places * whole if cache_bytes is None else cache_bytes)
        self.metrics = Metrics(None if self.runner is None else self.runner.load)
        # Embedding runs beside the runner, one request at a time.
        self.embedding = asyncio.Lock()

    def generator(self) -> tuple[LanguageModel, Runner]:
        """What generates; UnsupportedError where the model does not."""
        if not isinstance(self.model, LanguageModel) or self.runner is None:
            raise UnsupportedError("model: this one embeds texts and generates none; use /v1/embeddings")
        return self.model, self.runner

    def planned(self, prompt: Prompt, options: GenerateOptions) -> GeneratedText:
        """A text to generate; with no limit given, at most the server's own, and no more than fits the context."""
        model, _ = self.generator()
        return model.planned(prompt, options, most=self.settings.default_tokens)
