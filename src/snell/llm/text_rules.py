"""TextRules: what the options of a generation demand of its text: a constraint, and readers of calls and of thinking."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from snell.llm.constraint import Constraint, GrammarTokens, schema_grammar
from snell.llm.options import GenerateOptions
from snell.llm.thinking import ThinkingReader, ThinkingTags, thinking_tags
from snell.llm.tokenizer import Tokenizer
from snell.llm.tool_call_forms import tool_call_form
from snell.llm.tool_call_reader import ToolCallReader
from snell.llm.tool_calls import CallRules, ToolCallForm, call_rules, tools_grammar

__all__ = ["TextRules", "text_rules"]

# Of a prompt's end as many tokens are looked at for the tag that begins a thinking.
_END = 16


@dataclass(frozen=True, slots=True, eq=False)
class TextRules:
    """``calls`` and ``form`` are None where the model may not call tools; ``tags`` where it does not think."""

    options: GenerateOptions
    calls: CallRules | None
    form: ToolCallForm | None
    tags: ThinkingTags | None

    def constraint(self, tokenizer: Tokenizer, tokens: Callable[[], GrammarTokens]) -> Constraint | None:
        """The grammar of the text; None where it may be anything."""
        if self.calls is not None and self.form is not None:
            return tokens().constraint(tools_grammar(self.form, self.calls, tokenizer), "tools")
        if self.options.json_schema is not None:
            return tokens().constraint(schema_grammar(self.options.json_schema), "json_schema")
        if self.options.grammar is not None:
            return tokens().constraint(self.options.grammar, "grammar")
        return None

    def call_reader(self) -> ToolCallReader | None:
        """What takes the calls out of the text."""
        return None if self.form is None else ToolCallReader(self.form)

    def thinking_reader(self, tokenizer: Tokenizer, prompt: Sequence[int]) -> ThinkingReader | None:
        """What takes the thinking out of the text that follows the prompt."""
        if self.tags is None:
            return None
        end = tokenizer.decode(prompt[-_END:], skip_special=False).rstrip()
        return ThinkingReader(self.tags, begun=end.endswith(self.tags.open))

    def shown(self, tokenizer: Tokenizer) -> list[int]:
        """Control tokens that the readers are to see."""
        names = (*(self.form.names if self.form else ()), *((self.tags.open, self.tags.close) if self.tags else ()))
        return [tokenizer.control_tokens[name] for name in names if name in tokenizer.control_tokens]

    def think(self, tokenizer: Tokenizer) -> int | None:
        """The token that begins a thinking, where it is one."""
        if self.tags is None:
            return None
        ids = tokenizer.encode(self.tags.open, add_special=False, parse_special=True)
        return ids[0] if len(ids) == 1 else None


def text_rules(options: GenerateOptions, template: str | None, *, split_thinking: bool) -> TextRules:
    """The rules for a text that answers in the way that the chat template shows; errors name the option."""
    calls = None
    if options.tools is not None:
        parallel = options.parallel_tool_calls is not False
        calls = call_rules(options.tools, options.tool_choice, parallel=parallel, answer=options.json_schema)
    form = None if calls is None or template is None else tool_call_form(template)
    tags = thinking_tags(template) if split_thinking and template is not None else None
    return TextRules(options, calls, form, tags)
