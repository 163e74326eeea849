"""Models with a short name: a catalogue, and the folder of the user that they are installed in."""

from snell.store.catalogue import CATALOGUE, ModelEntry, ModelFile
from snell.store.progress import Progress, ProgressCallback, Stage, silent
from snell.store.store import InstalledModel, ModelStore

__all__ = [
    "CATALOGUE",
    "InstalledModel",
    "ModelEntry",
    "ModelFile",
    "ModelStore",
    "Progress",
    "ProgressCallback",
    "Stage",
    "silent",
]
