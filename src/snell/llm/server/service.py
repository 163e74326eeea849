"""Service: the model behind the server, with the runner that generates for everyone."""

import asyncio
from collections.abc import Sequence
from dataclasses import replace

from snell.errors import UnsupportedError
from snell.llm.embed import EmbeddingModel
from snell.llm.generated_text import GeneratedText
from snell.llm.model import LanguageModel
from snell.llm.options import GenerateOptions
from snell.llm.prompt import Prompt
from snell.llm.server.metrics import Metrics
from snell.llm.server.request_error import RequestError
from snell.llm.server.settings import Settings
from snell.llm.serving import Limits, Runner

__all__ = ["Service", "close_texts"]


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
        self._most_texts = limits.waiting
        # Embedding and scoring run beside the runner, one request at a time.
        self.beside = asyncio.Lock()

    def generator(self) -> tuple[LanguageModel, Runner]:
        """What generates; UnsupportedError where the model does not."""
        if not isinstance(self.model, LanguageModel) or self.runner is None:
            raise UnsupportedError("model: this one embeds texts and generates none; use /v1/embeddings")
        return self.model, self.runner

    def check_texts(self, count: int, name: str) -> None:
        """Refuse a request of more texts than may ever wait; the parameter of that name asks for them."""
        if count > self._most_texts:
            raise RequestError(
                400,
                f"{name}: expected at most {self._most_texts} texts a request, received {count}; send several",
                name,
            )

    def planned(
        self, prompt: Prompt, choices: Sequence[GenerateOptions], *, split_thinking: bool = False
    ) -> list[GeneratedText]:
        """Texts that follow a prompt; with no limit given, at most the server's own, and no more than fits the context.

        The choices differ in their seeds.
        """
        model, _ = self.generator()
        most = self.settings.default_tokens
        texts = [model.planned(prompt, choices[0], most, split_thinking=split_thinking)]
        for options in choices[1:]:
            try:
                texts.append(model.another(texts[0], options, split_thinking=split_thinking))
            except Exception:
                close_texts(texts)
                raise
        return texts


def close_texts(texts: Sequence[GeneratedText]) -> None:
    """Let go of texts that are not going to be written."""
    for text in texts:
        text.close()
