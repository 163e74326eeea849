"""Fields: the parameters of a request's JSON body, each asked for by name; whatever was not asked for is refused."""

import json
from collections.abc import Collection, Mapping
from typing import Any, NoReturn, cast

from snell.llm.sampling import is_whole
from snell.llm.server.request_error import RequestError, unsupported

__all__ = ["Fields"]

_ABSENT = object()
# Templates and grammars walk through what they are given by recursion.
_DEEPEST = 100


class Fields:
    """null counts as absent."""

    def __init__(self, values: Mapping[str, Any], prefix: str = "") -> None:
        self._values = values
        self._prefix = prefix
        self._asked: set[str] = set()
        self._meant: dict[str, str] = {}

    @classmethod
    def of_body(cls, body: bytes) -> "Fields":
        """The fields of a JSON object."""
        try:
            values = json.loads(body, parse_constant=_no_json)
        except (ValueError, RecursionError) as error:
            raise RequestError(400, f"the body is not JSON: {error}") from error
        if not isinstance(values, dict):
            raise RequestError(400, f"the body: expected a JSON object, received {type(values).__name__}")
        _check_depth(cast("dict[str, Any]", values))
        return cls(cast("dict[str, Any]", values))

    @property
    def names(self) -> dict[str, str]:
        """Every name that was given, and the names under which options were made of them."""
        return {name: name for name in self._values} | self._meant

    def means(self, name: str, option: str) -> None:
        """What is wrong with the option is wrong with the parameter of that name."""
        self._meant[option] = name

    def value(self, name: str, default: Any = None) -> Any:
        """As it came."""
        self._asked.add(name)
        found = self._values.get(name)
        return default if found is None else found

    def needed(self, name: str) -> Any:
        """A parameter without which there is no request."""
        found = self.value(name, _ABSENT)
        if found is _ABSENT:
            raise RequestError(
                400, f"{self._prefix}{name}: is missing", self._prefix + name, "missing_required_parameter"
            )
        return found

    def text(self, name: str, default: str, among: Collection[str] | None = None) -> str:
        """A string, one of a few where they are given."""
        found = self.value(name, default)
        if not isinstance(found, str) or (among is not None and found not in among):
            raise self._wrong(name, "a string" if among is None else f"one of {', '.join(sorted(among))}", found)
        return found

    def flag(self, name: str, default: bool = False) -> bool:
        """True or false."""
        found = self.value(name, default)
        if not isinstance(found, bool):
            raise self._wrong(name, "true or false", found)
        return found

    def whole(self, name: str, default: int, least: int, most: int) -> int:
        """A whole number within bounds."""
        found = self.value(name, default)
        if not is_whole(found) or not least <= found <= most:
            raise self._wrong(name, f"a whole number from {least} to {most}", found)
        return int(found)

    def number(self, name: str, least: float, most: float) -> float | None:
        """A number within bounds, or None where it is absent."""
        found = self.value(name)
        if found is None:
            return None
        if not (is_whole(found) or isinstance(found, float)) or not least <= found <= most:
            raise self._wrong(name, f"a number from {least:g} to {most:g}", found)
        return float(found)

    def group(self, name: str) -> "Fields":
        """The fields of an object; none where it is absent."""
        found = self.value(name, {})
        if not isinstance(found, dict):
            raise self._wrong(name, "an object", found)
        return Fields(cast("dict[str, Any]", found), f"{self._prefix}{name}.")

    def ignored(self, *names: str) -> None:
        """Parameters that change nothing about the answer."""
        self._asked.update(names)

    def neutral(self, name: str, *values: Any, instead: str = "leave it out") -> None:
        """A parameter that is not supported, except where its value asks for nothing."""
        found = self.value(name)
        if found is not None and not any(type(found) is type(one) and found == one for one in values):
            raise unsupported(self._prefix + name, instead)

    def end(self) -> None:
        """Refuse what was not asked for."""
        for name in self._values:
            if name not in self._asked:
                raise unsupported(self._prefix + name, "leave it out")

    def _wrong(self, name: str, expected: str, received: object) -> RequestError:
        shown = repr(received)
        shown = shown if len(shown) < 80 else shown[:79] + "…"
        return RequestError(400, f"{self._prefix}{name}: expected {expected}, received {shown}", self._prefix + name)


def _no_json(constant: str) -> NoReturn:
    raise ValueError(f"{constant} is no number of JSON")


def _check_depth(value: dict[str, Any]) -> None:
    level: list[Any] = [value]
    for _ in range(_DEEPEST):
        level = [
            item
            for one in level
            for item in (cast("dict[str, Any]", one).values() if isinstance(one, dict) else one)
            if isinstance(item, dict | list)
        ]
        if not level:
            return
    raise RequestError(400, f"the body: expected at most {_DEEPEST} levels of lists and objects inside of each other")
