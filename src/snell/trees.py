"""Pytrees: nested dicts, lists, tuples, named tuples and registered dataclasses, with anything else as a leaf.

`flatten` gives the leaves in a deterministic order (dicts by sorted key) and a hashable `Structure`; `unflatten`
inverts it.  `None` is an empty tree.  A dataclass takes part once it is registered; its fields marked static belong
to the structure, so two trees with different static fields have different structures.

A leaf is named by its path: keys, indices and field names, as a tuple of texts, or as one text with dots between them.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Sequence
from dataclasses import dataclass, fields, is_dataclass
from fnmatch import fnmatchcase
from typing import Any, TypeVar, cast

from snell.errors import GraphError

__all__ = [
    "Path", "Structure", "at", "flatten", "has", "is_registered", "leaves", "map", "map_with_path", "matches", "paths",
    "register", "select", "unflatten", "updated", "without",
]  # fmt: skip

_Class = TypeVar("_Class")
Path = tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Structure:
    """The shape of a tree without its leaves: the node's class, its keys, what is static in it, and its children."""

    kind: type | None
    keys: tuple[Hashable, ...] = ()
    static: tuple[Hashable, ...] = ()
    children: tuple[Structure, ...] = ()

    @property
    def count(self) -> int:
        """Number of leaves."""
        return 1 if self.kind is None else sum(child.count for child in self.children)


@dataclass(frozen=True, slots=True)
class _Registration:
    """Names of a dataclass's fields that hold subtrees, and of those that belong to the structure."""

    children: tuple[str, ...]
    static: tuple[str, ...]


_LEAF = Structure(None)
_registered: dict[type, _Registration] = {}


def register(cls: type[_Class], static: Sequence[str] = ()) -> type[_Class]:
    """Make a dataclass a tree whose fields, except those named in `static`, are subtrees.  Returns the class.

    Raises GraphError for a class that is not a dataclass, or for a static name that is not a field.
    """
    if not is_dataclass(cls):
        raise GraphError(
            f"trees.register expected a dataclass, received {cls.__name__}; decorate it with @dataclass first"
        )
    names = [field.name for field in fields(cls) if field.init]
    unknown = [name for name in static if name not in names]
    if unknown:
        raise GraphError(f"{cls.__name__} has no fields {unknown}; its fields are {names}")
    _registered[cls] = _Registration(tuple(name for name in names if name not in static), tuple(static))
    return cls


def is_registered(cls: type) -> bool:
    """True for a dataclass that `register` has seen."""
    return cls in _registered


def flatten(tree: Any) -> tuple[list[Any], Structure]:
    """The leaves, left to right, and the structure that puts them back."""
    found: list[Any] = []
    structure = _flatten(tree, found)
    return found, structure


def unflatten(structure: Structure, values: Iterable[Any]) -> Any:
    """The tree of this structure with these leaves; GraphError where their number differs."""
    given = list(values)
    if len(given) != structure.count:
        raise GraphError(f"the structure has {structure.count} leaves, received {len(given)} values")
    return _unflatten(structure, iter(given))


def leaves(tree: Any) -> list[Any]:
    """The leaves, left to right."""
    return flatten(tree)[0]


def map(function: Callable[..., Any], tree: Any, *others: Any) -> Any:
    """`function` applied leaf by leaf to trees of one structure; GraphError where the structures differ."""
    first, structure = flatten(tree)
    columns = [first]
    for other in others:
        values, found = flatten(other)
        if found != structure:
            raise GraphError(f"trees.map expected trees of one structure, received {structure} and {found}")
        columns.append(values)
    return unflatten(structure, [function(*row) for row in zip(*columns, strict=True)])


def paths(tree: Any) -> list[Path]:
    """The path of each leaf (keys, indices and field names as text), in the order of `leaves`."""
    found: list[Path] = []
    _collect_paths(tree, (), found)
    return found


def map_with_path(function: Callable[..., Any], tree: Any, *others: Any) -> Any:
    """As `map`, with the leaf's path in front: `function(path, leaf, …)`."""
    every = iter(paths(tree))
    return map(lambda *row: function(next(every), *row), tree, *others)


def matches(path: Path, pattern: str) -> bool:
    """Whether the pattern matches the path, its parts joined by dots, or that of a subtree which it lies in.

    In a pattern * stands for any text, dots included, ? for one character and [01] for one of several.
    """
    return any(fnmatchcase(".".join(path[:length]), pattern) for length in range(1, len(path) + 1))


def select(tree: Any, *patterns: str) -> dict[str, Any]:
    """The leaves that a pattern matches, by path: `{"encoder.0.weight": …}`; GraphError for one that matches none."""
    found: dict[str, Any] = {}
    for pattern in patterns:
        chosen = {
            ".".join(path): leaf for path, leaf in zip(paths(tree), leaves(tree), strict=True) if matches(path, pattern)
        }
        if not chosen:
            raise GraphError(f"no path of the tree matches {pattern!r}; {_known_paths(tree)}")
        found.update(chosen)
    return found


def at(tree: Any, path: Path | str) -> Any:
    """The leaf or subtree at a path, ("encoder", "0") or "encoder.0"; GraphError where there is none."""
    found = tree
    for part in _path(path):
        child = _child(found, part)
        if child is None:
            raise GraphError(f"there is nothing at {'.'.join(_path(path))!r}; {_known_paths(tree)}")
        found = child[0]
    return found


def has(tree: Any, path: Path | str) -> bool:
    """Whether there is a leaf or subtree at a path."""
    for part in _path(path):
        child = _child(tree, part)
        if child is None:
            return False
        tree = child[0]
    return True


def updated(tree: Any, path: Path | str, value: Any) -> Any:
    """The tree with another leaf or subtree at a path.

    In a dict the path need not exist, and dicts are made on the way; GraphError where anything else has no such part.
    """
    parts = _path(path)
    if not parts:
        return value
    child = _child(tree, parts[0])
    if isinstance(tree, dict):
        mapping = cast("dict[Any, Any]", tree)
        key = next((key for key in mapping if str(key) == parts[0]), parts[0])
        return type(tree)({**mapping, key: updated({} if child is None else child[0], parts[1:], value)})
    if child is None:
        raise GraphError(f"there is nothing at {parts[0]!r} in a {type(tree).__name__}; {_known_paths(tree)}")
    keys, _, children = cast("Any", _parts(tree))
    changed = [
        updated(one, parts[1:], value) if str(key) == parts[0] else one for key, one in zip(keys, children, strict=True)
    ]
    return _with_children(tree, keys, changed)


def without(tree: dict[str, Any], path: Path | str) -> dict[str, Any]:
    """Nested dicts without what is at a path, nor the dicts that it leaves empty; GraphError where there is nothing."""
    parts = _path(path)
    inner = at(tree, parts[:1])
    rest = {key: value for key, value in tree.items() if str(key) != parts[0]}
    if len(parts) == 1:
        return rest
    left = without(inner, parts[1:])
    return {**rest, parts[0]: left} if left else rest


def _path(path: Path | str) -> Path:
    return tuple(path.split(".")) if isinstance(path, str) else path


def _child(tree: Any, part: str) -> tuple[Any] | None:
    """The child of that name, in a tuple as it may be None itself."""
    parts = _parts(tree)
    if parts is None:
        return None
    return next(((child,) for key, child in zip(parts[0], parts[2], strict=True) if str(key) == part), None)


def _with_children(tree: Any, keys: Sequence[Hashable], children: list[Any]) -> Any:
    """An inner node, no dict, of the same kind around other children."""
    cls = cast("Any", type(tree))
    if cls in _registered:
        named = dict(zip((str(key) for key in keys), children, strict=True))
        return cls(**named, **{name: getattr(tree, name) for name in _registered[cls].static})
    return cls(*children) if hasattr(cls, "_fields") else cls(children)


def _known_paths(tree: Any) -> str:
    return "its paths are " + (", ".join(".".join(path) for path in paths(tree)) or "none")


def _parts(tree: Any) -> tuple[tuple[Hashable, ...], tuple[Hashable, ...], list[Any]] | None:
    """Keys, static values and children of an inner node; None for a leaf."""
    cls = cast("type[Any]", type(tree))
    if tree is None:
        return (), (), []
    if cls in _registered:
        registration = _registered[cls]
        static = tuple(getattr(tree, name) for name in registration.static)
        return registration.children, static, [getattr(tree, name) for name in registration.children]
    if isinstance(tree, dict):
        mapping = cast("dict[Hashable, Any]", tree)
        keys = tuple(sorted(mapping, key=_key_order))
        return keys, (), [mapping[key] for key in keys]
    if isinstance(tree, list | tuple):
        items = cast("Sequence[Any]", tree)
        names: Sequence[Hashable] = getattr(cls, "_fields", range(len(items)))  # a namedtuple has _fields
        return tuple(names), (), list(items)
    return None


def _key_order(key: Any) -> tuple[str, Any]:
    """Keys of one type in their own order, types by name."""
    return type(key).__name__, key


def _flatten(tree: Any, found: list[Any]) -> Structure:
    parts = _parts(tree)
    if parts is None:
        found.append(tree)
        return _LEAF
    keys, static, children = parts
    return Structure(cast("type[Any]", type(tree)), keys, static, tuple(_flatten(child, found) for child in children))


def _unflatten(structure: Structure, values: Any) -> Any:
    cls: type[Any] | None = structure.kind
    if cls is None:
        return next(values)
    children = [_unflatten(child, values) for child in structure.children]
    if cls is type(None):
        return None
    if cls in _registered:
        named = dict(zip((str(key) for key in structure.keys), children, strict=True))
        return cls(**named, **dict(zip(_registered[cls].static, structure.static, strict=True)))
    if issubclass(cls, dict):
        return cast("Any", cls)(zip(structure.keys, children, strict=True))
    return cls(*children) if hasattr(cls, "_fields") else cls(children)


def _collect_paths(tree: Any, prefix: Path, found: list[Path]) -> None:
    parts = _parts(tree)
    if parts is None:
        found.append(prefix)
        return
    for key, child in zip(parts[0], parts[2], strict=True):
        _collect_paths(child, (*prefix, str(key)), found)
