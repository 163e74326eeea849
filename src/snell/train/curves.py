"""Curves: the series of a history as a picture."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from snell.deferred import deferred
from snell.errors import ConfigError
from snell.train.history import History

if TYPE_CHECKING:
    from matplotlib import figure
else:
    figure = deferred("matplotlib.figure")

__all__ = ["plot_curves"]

_DEFAULT = ("loss", "validation/loss")
_POINT_MARKS_UP_TO = 50


def plot_curves(
    history: History, path: str | os.PathLike[str], names: Sequence[str] | None = None, *, logarithmic: bool = False
) -> None:
    """Draw series over the steps into an image file, whose ending says its format (.png, .svg, .pdf).

    `names` are those that there is to draw: by default the losses.  Raises ConfigError for a name without a series, and
    where matplotlib is not installed.
    """
    chosen = [name for name in _DEFAULT if name in history] if names is None else list(names)
    unknown = [name for name in chosen if name not in history]
    if unknown or not chosen:
        raise ConfigError(
            f"the history has {', '.join(history) or 'no series'}; received {', '.join(unknown) or 'no names'}"
        )
    try:
        picture: Any = figure.Figure(figsize=(7, 4), layout="constrained")
    except ModuleNotFoundError:
        raise ConfigError("curves need matplotlib; install it with pip install 'snell[train]'") from None
    axes: Any = picture.subplots()
    for name in chosen:
        steps, values = history[name]
        axes.plot(steps, values, label=name, marker="." if len(steps) <= _POINT_MARKS_UP_TO else None, linewidth=1)
    axes.set_xlabel("step")
    axes.set_yscale("log" if logarithmic else "linear")
    axes.grid(visible=True, alpha=0.3)
    axes.legend()
    picture.savefig(os.fspath(path), dpi=150)
