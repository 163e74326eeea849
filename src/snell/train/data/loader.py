"""DataLoader: batches of rows, epoch by epoch, shuffled by a key and made ahead in the background.

The batches of an epoch are a function of (source, key, epoch), so a position (epoch and batch) is all that a checkpoint
keeps: `loader.seek(position)` goes on with the very batch that would have come.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from contextlib import closing
from typing import Any, TypedDict

import numpy as np

from snell.errors import ConfigError
from snell.train.data.keys import Key, as_key, folded, permutation
from snell.train.data.prefetch import prefetched
from snell.train.data.source import RowSource, StreamSource, as_source, stacked

__all__ = ["DataLoader", "Position"]


class Position(TypedDict):
    """Where a loader stands: the epoch, the batches of it that were taken, and the words of its key."""

    epoch: int
    batch: int
    key: list[int] | None


class DataLoader:
    """Iterating gives the rest of the present epoch; iterating again, the next one.

    `data` is a tree of arrays with one leading extent (memory-mapped ones stay on disk), an iterable of rows, or a source
    such as `Files` or `TextWindows`.  `key` (from `sn.random.key`, or a seed) shuffles, anew in each epoch; without one,
    rows come in order.  `transform` is applied to each batch, in the background.  At most `prefetch` batches are made
    before they are asked for (0: none, and no thread).  An error of the source or the transform is raised in the loop
    that asks for the batch, with the trace of where it happened.

    Raises ConfigError for sizes below 1, for data that is none of these, and for a key where nothing can be shuffled.
    """

    def __init__(
        self,
        data: Any,
        batch_size: int,
        *,
        key: Any = None,
        drop_last: bool = False,
        transform: Callable[[Any], Any] | None = None,
        prefetch: int = 2,
    ) -> None:
        if batch_size < 1 or prefetch < 0:
            raise ConfigError(
                f"expected batch_size of at least 1 and prefetch of at least 0, received {batch_size} and {prefetch}"
            )
        self.source = as_source(data)
        self.batch_size = batch_size
        self.drop_last = drop_last
        self.transform = transform
        self.prefetch = prefetch
        self._key = None if key is None else as_key(key)
        self._epoch = 0
        self._batch = 0
        if isinstance(self.source, StreamSource):
            self.source.rows(self._key)  # says now whether the key can shuffle it

    def __len__(self) -> int:
        """Batches in an epoch; TypeError where the source does not know its number of rows."""
        if not isinstance(self.source, RowSource):
            # Python asks for a length where it can do without one, and takes this error alone for an answer.
            raise TypeError("the number of rows of an iterable or of files is not known before they were read")
        whole, rest = divmod(self.source.count, self.batch_size)
        return whole if self.drop_last or not rest else whole + 1

    @property
    def position(self) -> Position:
        """What `seek` needs to go on from here: batches that were made ahead but not taken do not count."""
        return {"epoch": self._epoch, "batch": self._batch, "key": None if self._key is None else list(self._key)}

    def seek(self, position: Position) -> None:
        """Go to a position of this loader or one like it; iterators begun before are not moved.

        Raises ConfigError where the position was taken under another key.
        """
        key = position["key"]
        if (None if key is None else tuple(key)) != self._key:
            raise ConfigError(
                f"the position belongs to the key {key}, this loader has {self._key}; make the loader with that key"
            )
        self._epoch, self._batch = position["epoch"], position["batch"]

    def __iter__(self) -> Iterator[Any]:
        """The batches of the present epoch that were not taken yet."""
        epoch, first = self._epoch, self._batch
        last = len(self) if isinstance(self.source, RowSource) else None
        with closing(prefetched(lambda: self._made(epoch, first), self.prefetch)) as batches:
            for number, batch in enumerate(batches, start=first + 1):
                # The position moves before the batch is given: who saves it while working on a batch has that one done.
                self._epoch, self._batch = (epoch + 1, 0) if number == last else (epoch, number)
                yield batch
        self._epoch, self._batch = epoch + 1, 0

    def _made(self, epoch: int, first: int) -> Iterator[Any]:
        key = None if self._key is None else folded(self._key, epoch)
        match self.source:
            case RowSource() as source:
                batches = self._gathered(source, key, first)
            case StreamSource() as source:
                batches = itertools.islice(self._streamed(source, key), first, None)
        return batches if self.transform is None else map(self.transform, batches)

    def _gathered(self, source: RowSource, key: Key | None, first: int) -> Iterator[Any]:
        count = source.count
        order = np.arange(count) if key is None else permutation(key, count)
        for number in range(first, len(self)):
            yield source.gather(order[number * self.batch_size : (number + 1) * self.batch_size])

    def _streamed(self, source: StreamSource, key: Key | None) -> Iterator[Any]:
        rows = source.rows(key)
        while chunk := list(itertools.islice(rows, self.batch_size)):
            if len(chunk) < self.batch_size and self.drop_last:
                return
            yield stacked(chunk)
