"""Options that several commands share, so that they are spelled and explained once."""

from typing import Annotated

import typer

__all__ = [
    "Context",
    "FrequencyPenalty",
    "KVDtype",
    "MaxTokens",
    "MinP",
    "Model",
    "Offline",
    "PresencePenalty",
    "RepetitionPenalty",
    "Seed",
    "Temperature",
    "Threads",
    "TopK",
    "TopP",
    "TypicalP",
]

Model = Annotated[str, typer.Argument(help="A GGUF file, a Hugging Face folder, or a short name such as smollm2.")]
Offline = Annotated[bool, typer.Option(help="Never use the network.")]
Threads = Annotated[int | None, typer.Option(min=1, help="Threads to use; by default all that are allowed.")]
Context = Annotated[int | None, typer.Option(min=1, help="Context in tokens; by default the model's.")]
KVDtype = Annotated[str, typer.Option("--kv-dtype", help="What keys and values are kept as: f16, bf16, f32 or int8.")]
MaxTokens = Annotated[int, typer.Option(min=1, help="Tokens to generate at most.")]
Temperature = Annotated[
    float, typer.Option(min=0.0, help="0, the default, writes the likeliest text; 1 samples as the model was trained.")
]
TopK = Annotated[int | None, typer.Option(min=1, help="Choose among the k likeliest tokens.")]
TopP = Annotated[float | None, typer.Option(min=0.0, max=1.0, help="Choose among the likeliest tokens of this mass.")]
MinP = Annotated[
    float | None, typer.Option(min=0.0, max=1.0, help="Drop tokens less likely than this fraction of the likeliest.")
]
TypicalP = Annotated[
    float | None, typer.Option(min=0.0, max=1.0, help="Choose among the least surprising tokens of this mass.")
]
RepetitionPenalty = Annotated[
    float | None, typer.Option(min=0.0, help="Above 1, tokens of the prompt and the text become less likely.")
]
FrequencyPenalty = Annotated[
    float | None, typer.Option(help="Taken off a token's score for each time that the text has it.")
]
PresencePenalty = Annotated[float | None, typer.Option(help="Taken off a token's score once the text has it.")]
Seed = Annotated[int | None, typer.Option(min=0, help="Makes sampling repeatable.")]
