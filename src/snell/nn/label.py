"""A layer in one line, as it would be written: what is as by default, and the layers inside, are left out."""

from __future__ import annotations

from dataclasses import MISSING, Field, fields, is_dataclass
from typing import TYPE_CHECKING, Any, cast

if TYPE_CHECKING:
    from snell.nn.layer import Layer

__all__ = ["label", "shown"]


def label(layer: Layer) -> str:
    """`Linear(784, 128, activation=relu)`."""
    inside = set(map(id, layer.children().values()))
    written = [
        _argument(field, value)
        for field in (fields(layer) if is_dataclass(layer) else ())
        if field.repr and not _is_default(field, value := getattr(layer, field.name)) and id(value) not in inside
    ]
    return f"{type(layer).__name__}({', '.join(written)})"


def shown(value: Any) -> str:
    """A value of a field: functions by their name, tuples by their items."""
    if isinstance(value, tuple):
        items = cast("tuple[Any, ...]", value)
        return f"({', '.join(map(shown, items))}{',' * (len(items) == 1)})"
    name = getattr(value, "__name__", None)
    return name if isinstance(name, str) else repr(value)


def _argument(field: Field[Any], value: Any) -> str:
    """Positional where the field has no default."""
    needed = field.default is MISSING and field.default_factory is MISSING
    return shown(value) if needed else f"{field.name}={shown(value)}"


def _is_default(field: Field[Any], value: Any) -> bool:
    return (field.default is not MISSING and value is field.default) or value == field.default
