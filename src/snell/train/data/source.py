"""Sources: where the rows of a data loader come from.

A source with random access says how many rows it has and gathers any of them as one batch (a tree of arrays whose first
axis is the batch).  An iterable gives rows one after another, and a set of files its rows file by file.
"""

from __future__ import annotations

import abc
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, final

import numpy as np

from snell import trees
from snell.errors import ConfigError, ShapeError
from snell.train.data.keys import Key, folded, permutation

__all__ = ["Arrays", "Files", "RowSource", "Rows", "StreamSource", "as_source", "row_count", "stacked"]

Indices = np.ndarray[Any, np.dtype[np.int64]]


class RowSource(abc.ABC):
    """Rows that are reached by number, so their order may change from epoch to epoch."""

    @property
    @abc.abstractmethod
    def count(self) -> int:
        """Number of rows."""

    @abc.abstractmethod
    def gather(self, indices: Indices) -> Any:
        """These rows as one batch: a tree of arrays with a first axis of `len(indices)`."""


class StreamSource(abc.ABC):
    """Rows that come one after another: `rows(key)` begins an epoch, in the order of the key where there is one."""

    @abc.abstractmethod
    def rows(self, key: Key | None) -> Iterator[Any]:
        """The rows of one epoch; ConfigError where the source cannot be shuffled."""


@final
@dataclass(frozen=True, slots=True, eq=False)
class Arrays(RowSource):
    """A tree of arrays with one leading extent; memory-mapped arrays stay on disk but for what is gathered."""

    tree: Any

    def __post_init__(self) -> None:
        row_count(self.tree)

    @property
    def count(self) -> int:
        return row_count(self.tree)

    def gather(self, indices: Indices) -> Any:
        return trees.map(lambda array: np.asarray(array)[indices], self.tree)


@final
@dataclass(frozen=True, slots=True, eq=False)
class Rows(StreamSource):
    """An iterable of rows, each a tree of arrays or numbers, that can be begun again (not an iterator)."""

    iterable: Iterable[Any]

    def __post_init__(self) -> None:
        if isinstance(self.iterable, Iterator):
            raise ConfigError(
                "a data loader walks over its rows once an epoch, so it expected an iterable that can be begun again "
                f"(a list, or an object whose __iter__ opens its source); received {type(self.iterable).__name__}, "
                "which can be walked over once"
            )

    def rows(self, key: Key | None) -> Iterator[Any]:
        if key is not None:
            raise ConfigError(
                "an iterable has no rows by number, so a key cannot shuffle it; leave key out, or pass arrays or files"
            )
        return iter(self.iterable)


@final
@dataclass(frozen=True, slots=True, eq=False)
class Files(StreamSource):
    """Files that `read(path)` turns into trees of arrays with one leading extent.

    A key shuffles the files, and the rows within each.  One file's rows are in memory at a time.
    """

    paths: Sequence[Path]
    read: Callable[[Path], Any]

    def __post_init__(self) -> None:
        if not self.paths:
            raise ConfigError("expected at least one file, received none; check the pattern that lists them")

    def rows(self, key: Key | None) -> Iterator[Any]:
        order = range(len(self.paths)) if key is None else permutation(key, len(self.paths))
        for number in order:
            tree = self.read(self.paths[number])
            leaves, structure = trees.flatten(tree)
            count = row_count(tree)
            # Numbers above those of epochs' own keys would do as well; a file's key only has to differ from the others'.
            inner = range(count) if key is None else permutation(folded(key, int(number)), count)
            for row in inner:
                yield trees.unflatten(structure, [np.asarray(leaf)[row] for leaf in leaves])


def as_source(data: Any) -> RowSource | StreamSource:
    """A source itself; a tree of arrays as `Arrays`; any other iterable as `Rows`.

    A tuple or dict of arrays is a tree; a list is a list of rows, since trees of arrays are rarely lists.
    """
    if isinstance(data, RowSource | StreamSource):
        return data
    if isinstance(data, tuple | dict) or _is_array(data) or trees.is_registered(type(data)):
        return Arrays(data)
    if isinstance(data, Iterable):
        return Rows(data)
    raise ConfigError(
        f"expected a tree of arrays, an iterable of rows or a source, received {type(data).__name__}; "
        "pass for instance (images, labels)"
    )


def _is_array(value: Any) -> bool:
    return not isinstance(value, list) and isinstance(getattr(value, "shape", None), tuple)


def row_count(tree: Any) -> int:
    """The leading extent that all arrays of the tree share.

    Raises ShapeError, naming the leaves, where they differ or a leaf has no axis.
    """
    sizes: dict[str, int] = {}
    for path, leaf in zip(trees.paths(tree), trees.leaves(tree), strict=True):
        shape = np.shape(leaf)
        if not shape:
            raise ShapeError(f"data leaf {'.'.join(path) or 'itself'}: expected arrays of rows, received a scalar")
        sizes[".".join(path)] = shape[0]
    if len(set(sizes.values())) != 1:
        shown = ", ".join(f"{name or 'data'}: {size}" for name, size in sizes.items()) or "no arrays"
        raise ShapeError(f"expected arrays with one number of rows, received {shown}")
    return next(iter(sizes.values()))


def stacked(rows: Sequence[Any]) -> Any:
    """Rows of one structure as one batch.  ShapeError, naming the leaf, where shapes differ."""
    first, structure = trees.flatten(rows[0])
    columns: list[list[Any]] = [[] for _ in first]
    for row in rows:
        leaves, found = trees.flatten(row)
        if found != structure:
            raise ShapeError(f"expected rows of one structure, received {structure} and {found}")
        for column, leaf in zip(columns, leaves, strict=True):
            column.append(leaf)
    paths = trees.paths(rows[0])
    return trees.unflatten(structure, [_column(values, path) for values, path in zip(columns, paths, strict=True)])


def _column(values: list[Any], path: trees.Path) -> np.ndarray[Any, Any]:
    arrays = [_row_value(value) for value in values]
    shapes = {array.shape for array in arrays}
    if len(shapes) > 1:
        shown = ", ".join(map(str, sorted(shapes)))
        raise ShapeError(
            f"data leaf {'.'.join(path) or 'itself'}: rows of a batch need one shape, received {shown}; "
            "pad or crop them where they are made"
        )
    return np.stack(arrays)


def _row_value(value: Any) -> np.ndarray[Any, Any]:
    # A Python float is f32 here as everywhere in snell.
    return np.asarray(value, np.float32) if isinstance(value, float) else np.asarray(value)
