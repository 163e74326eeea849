"""Data for training: sources of rows, a loader of batches, and readers of common data sets."""

from snell.train.data.array_pickle import load_array_pickle
from snell.train.data.cifar import load_cifar10, load_cifar100
from snell.train.data.idx import load_idx, save_idx
from snell.train.data.loader import DataLoader, Position
from snell.train.data.mnist import LabelledImages, load_mnist
from snell.train.data.source import Arrays, Files, Rows, RowSource, StreamSource
from snell.train.data.text import ByteVocabulary, CharacterVocabulary, TextWindows

__all__ = [
    "Arrays",
    "ByteVocabulary",
    "CharacterVocabulary",
    "DataLoader",
    "Files",
    "LabelledImages",
    "Position",
    "RowSource",
    "Rows",
    "StreamSource",
    "TextWindows",
    "load_array_pickle",
    "load_cifar10",
    "load_cifar100",
    "load_idx",
    "load_mnist",
    "save_idx",
]
