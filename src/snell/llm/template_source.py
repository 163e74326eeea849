"""A model's chat template as text: compiling it takes jinja2, which a text to continue does not need."""

from dataclasses import dataclass

__all__ = ["TemplateSource"]


@dataclass(frozen=True, slots=True)
class TemplateSource:
    """The template's text, and the texts of BOS and EOS that it may print."""

    text: str
    bos_token: str
    eos_token: str
