"""Chat templates: a conversation to the text, and to the token ids, that the model was trained on.

Templates come with models, so they run in jinja2's immutable sandbox, with the additions that ``transformers`` makes.
``encode_chat`` keeps the promise that what a message says never becomes a control token: wherever a message names one,
or could complete one together with the template's text, a character of the name is replaced by a private-use stand-in
before rendering, and put back in the pieces of text between the control tokens that the template itself wrote.
"""

import json
import re
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from datetime import datetime
from difflib import get_close_matches
from typing import Any, cast

import jinja2
import jinja2.ext
import jinja2.nodes
import jinja2.parser
import jinja2.sandbox

from snell.errors import SnellError
from snell.llm.tokenizer import Tokenizer

__all__ = ["ChatTemplate", "ChatTemplateError", "Message", "encode_chat", "known_roles", "wrong_role"]

# Messages are JSON objects of the caller: role, content, tool calls.
Message = Mapping[str, Any]

# Supplementary private use area A: no text carries meaning there.
_FIRST_STAND_IN = 0xF0000
_ROLES = frozenset({"system", "developer", "user", "assistant", "tool", "function"})
# What templates compare a role with: `role == "x"`, `message['role'] in ["x", "y"]`.
_COMPARED = re.compile(r"""role(?:['"]\])?\s*(?:==|!=|(?:not\s+)?in)\s*(\[[^\]]*\]|\([^)]*\)|'[^']*'|"[^"]*")""")
_WORD = re.compile(r"[a-z][a-z_]*")


class ChatTemplateError(SnellError, ValueError):
    """A chat template is ill-formed, or refuses the conversation."""


class ChatTemplate:
    """A compiled template; ``now`` is asked for the date by templates that print it."""

    def __init__(
        self, source: str, bos_token: str = "", eos_token: str = "", now: Callable[[], datetime] = datetime.now
    ) -> None:
        self.source = source
        self.bos_token = bos_token
        self.eos_token = eos_token
        environment = jinja2.sandbox.ImmutableSandboxedEnvironment(
            trim_blocks=True, lstrip_blocks=True, extensions=[jinja2.ext.loopcontrols, _GenerationBlock]
        )
        environment.filters["tojson"] = _to_json

        def strftime_now(form: str) -> str:
            return now().strftime(form)

        functions: dict[str, Any] = {"raise_exception": _refuse, "strftime_now": strftime_now}
        environment.globals.update(functions)
        try:
            self._template = environment.from_string(source)
        except jinja2.TemplateError as error:
            raise ChatTemplateError(f"the model's chat template is ill-formed: {error}") from error

    def render(
        self,
        messages: Sequence[Message],
        tools: Sequence[Mapping[str, Any]] | None = None,
        add_generation_prompt: bool = True,
        **variables: Any,
    ) -> str:
        """The conversation's text; with ``add_generation_prompt`` it ends where the assistant's answer begins."""
        try:
            return self._template.render(
                messages=messages,
                tools=tools,
                add_generation_prompt=add_generation_prompt,
                bos_token=self.bos_token,
                eos_token=self.eos_token,
                **variables,
            )
        except ChatTemplateError:
            raise
        except Exception as error:  # a template is foreign code and may fail in any way
            raise ChatTemplateError(f"the model's chat template failed on this conversation: {error}") from error


def known_roles(template: str) -> frozenset[str]:
    """The roles of OpenAI's interface, and those that a template's text compares a role with."""
    return _ROLES | {word for match in _COMPARED.finditer(template) for word in _WORD.findall(match[1])}


def encode_chat(
    tokenizer: Tokenizer,
    template: ChatTemplate,
    messages: Sequence[Message],
    tools: Sequence[Mapping[str, Any]] | None = None,
    add_generation_prompt: bool = True,
    **variables: Any,
) -> list[int]:
    """Token ids of the conversation, with exactly one BOS where the model wants one."""
    roles = known_roles(template.source)
    for message in messages:
        if str(message.get("role")) not in roles:
            raise ChatTemplateError(wrong_role(message.get("role"), roles))
        if "content" not in message and "tool_calls" not in message:
            raise ChatTemplateError(f"a message needs content, received only {', '.join(map(str, message))}")
    stand_ins = _StandIns(tokenizer.control_tokens)
    veiled_messages = cast("Sequence[Message]", stand_ins.veil(messages))
    veiled_tools = cast("Sequence[Mapping[str, Any]] | None", stand_ins.veil(tools))
    veiled_variables = cast("Mapping[str, Any]", stand_ins.veil(variables))
    text = template.render(veiled_messages, veiled_tools, add_generation_prompt, **veiled_variables)
    pieces = tokenizer.split_control(text)
    return tokenizer.encode_pieces(piece if isinstance(piece, int) else stand_ins.unveil(piece) for piece in pieces)


def wrong_role(received: object, known: Collection[str]) -> str:
    """What is wrong with a role that is none."""
    near = get_close_matches(str(received), known, 1)
    instead = f"did you mean {near[0]!r}?" if near else "write {'role': 'user', 'content': '…'}"
    return (
        f"a message needs a role such as 'user', received {received!r}; {instead} (known: {', '.join(sorted(known))})"
    )


class _StandIns:
    """Replaces single characters so that no control token's name is left in, or can be completed by, a text."""

    def __init__(self, names: Iterable[str]) -> None:
        # Of a name, the first character is replaced; longest first, so that no name is left over inside of another.
        self._names = sorted((name for name in names if name), key=len, reverse=True)
        self._inside = re.compile("|".join(map(re.escape, self._names))) if self._names else None
        self._beginnings = {name[:n] for name in self._names for n in range(1, len(name))}
        self._endings = {name[n:] for name in self._names for n in range(1, len(name))}
        self._longest = max(map(len, self._names), default=0)
        self._stand_ins: dict[str, str] = {}

    def veil(self, value: object) -> object:
        """The same JSON value with every string in it made harmless."""
        if isinstance(value, str):
            return self._veil_text(value)
        if isinstance(value, Mapping):
            items = cast("Mapping[object, object]", value).items()
            return {self.veil(key): self.veil(item) for key, item in items}
        if isinstance(value, list | tuple):
            return [self.veil(item) for item in cast("Sequence[object]", value)]
        return value

    def unveil(self, text: str) -> str:
        """The text as the message had it."""
        return text.translate({ord(stand_in): character for character, stand_in in self._stand_ins.items()})

    def _veil_text(self, text: str) -> str:
        if self._inside is None:
            return text
        while self._inside.search(text):
            text = self._inside.sub(lambda match: self._stand_in(match[0][0]) + match[0][1:], text)
        return self._veil_end(self._veil_start(text))

    def _veil_start(self, text: str) -> str:
        """The template's text and the start of the message must not spell a name (templates may strip first)."""
        start = len(text) - len(text.lstrip())
        for begin in {0, start}:
            for n in range(1, min(self._longest, len(text) - begin + 1)):
                if text[begin : begin + n] in self._endings:
                    at = begin + n - 1
                    text = text[:at] + self._stand_in(text[at]) + text[at + 1 :]
        return text

    def _veil_end(self, text: str) -> str:
        """Nor must the end of the message and the template's text."""
        for end in {len(text), len(text.rstrip())}:
            for n in range(1, min(self._longest, end + 1)):
                if text[end - n : end] in self._beginnings:
                    at = end - n
                    text = text[:at] + self._stand_in(text[at]) + text[at + 1 :]
        return text

    def _stand_in(self, character: str) -> str:
        return self._stand_ins.setdefault(character, chr(_FIRST_STAND_IN + len(self._stand_ins)))


class _GenerationBlock(jinja2.ext.Extension):
    """``{% generation %}…{% endgeneration %}`` marks what an assistant said for training; here it is its content."""

    tags = {"generation"}  # noqa: RUF012  # the attribute that jinja2 declares

    def parse(self, parser: jinja2.parser.Parser) -> list[jinja2.nodes.Node]:
        """The nodes of the body."""
        next(parser.stream)
        return parser.parse_statements(("name:endgeneration",), drop_needle=True)


def _to_json(
    value: object,
    ensure_ascii: bool = False,
    indent: int | None = None,
    separators: Any = None,
    sort_keys: bool = False,
) -> str:
    """As in ``transformers``: without jinja2's HTML escapes."""
    return json.dumps(value, ensure_ascii=ensure_ascii, indent=indent, separators=separators, sort_keys=sort_keys)


def _refuse(message: str) -> None:
    raise ChatTemplateError(f"the model's chat template refuses this conversation: {message}")
