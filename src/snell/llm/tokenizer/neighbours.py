"""What the JSON files beside a tokenizer say of its special tokens."""

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, cast

from snell.errors import FileFormatError

__all__ = ["Json", "generation_ends", "read_object", "token_name"]

# JSON objects of the outside world.
Json = Mapping[str, Any]


def read_object(file: Path) -> Json:
    """The JSON object in a file; empty where there is no file."""
    if not file.is_file():
        return {}
    try:
        value = json.loads(file.read_text(encoding="utf-8"))
    except (UnicodeDecodeError, json.JSONDecodeError) as error:
        raise FileFormatError(f"{file}: expected JSON: {error}") from error
    if not isinstance(value, dict):
        raise FileFormatError(f"{file}: expected a JSON object, received {type(value).__name__}")
    return cast("Json", value)


def token_name(config: Json, key: str) -> str:
    """A token's text, which is written as a string or as an object with ``content``."""
    value = config.get(key)
    if isinstance(value, dict):
        value = cast("Json", value).get("content")
    return value if isinstance(value, str) else ""


def generation_ends(folder: Path) -> Iterator[int]:
    """Ids at which the folder's model ends a text."""
    for name in ("generation_config.json", "config.json"):
        value = read_object(folder / name).get("eos_token_id")
        ids: list[object] = cast("list[object]", value) if isinstance(value, list) else [value]
        yield from (id_ for id_ in ids if isinstance(id_, int))
