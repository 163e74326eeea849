"""A conversation on the command line: its messages, and the commands that begin with a slash."""

import json
from collections.abc import Callable, Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any

from snell.errors import ConfigError

__all__ = ["Conversation"]

_HELP = """\
/help           these lines
/system [TEXT]  begin anew with a system message; without TEXT, with none
/undo           take back the last question and its answer
/reset          begin anew, with the same system message
/save FILE      write the conversation as JSON
/quit           leave, as an empty line does"""


class Conversation:
    """``messages`` is what the model is given; the first is the system message, where there is one."""

    def __init__(self, system: str | None = None) -> None:
        self.messages: list[dict[str, Any]] = []
        self.over = False
        self._system(system or "")

    def ask(self, question: str) -> None:
        """Add what the user says."""
        self.messages.append({"role": "user", "content": question})

    def answer(self, text: str) -> None:
        """Add what the model said."""
        self.messages.append({"role": "assistant", "content": text})

    def take_back(self) -> None:
        """Drop the question that is not answered."""
        self.messages.pop()

    def command(self, line: str) -> str:
        """Carry out a line such as "/save talk.json"; what to tell the user. Unknown ones are a ConfigError."""
        name, _, rest = line.removeprefix("/").partition(" ")
        if name not in _COMMANDS:
            raise ConfigError(f"/{name}: expected one of {', '.join('/' + known for known in _COMMANDS)}")
        return _COMMANDS[name](self, rest.strip())

    def _help(self, _: str) -> str:
        return _HELP

    def _system(self, text: str) -> str:
        self.messages = [{"role": "system", "content": text}] if text else []
        return "a new conversation" + (" with this system message" if text else "")

    def _undo(self, _: str) -> str:
        last = max((at for at, message in enumerate(self.messages) if message["role"] == "user"), default=None)
        if last is None:
            return "nothing was asked yet"
        del self.messages[last:]
        return "the last question is taken back"

    def _reset(self, _: str) -> str:
        self.messages = [message for message in self.messages if message["role"] == "system"]
        return "a new conversation"

    def _save(self, name: str) -> str:
        if not name:
            raise ConfigError("/save: expected the name of a file")
        path = Path(name).expanduser()
        path.write_text(json.dumps(self.messages, indent=2, ensure_ascii=False) + "\n", encoding="utf-8")
        return f"{len(self.messages)} messages were written to {path}"

    def _quit(self, _: str) -> str:
        self.over = True
        return ""


_COMMANDS: Mapping[str, Callable[[Conversation, str], str]] = MappingProxyType(
    {
        "help": Conversation._help,
        "system": Conversation._system,
        "undo": Conversation._undo,
        "reset": Conversation._reset,
        "save": Conversation._save,
        "quit": Conversation._quit,
    }
)
