"""A layered layout of a directed acyclic graph: producers above consumers, few crossings, straight lines where it goes.

The method is Sugiyama's (1981): layers by longest path, order in a layer by the mean place of the neighbours, then
places at least one apart, as near to those means as the order allows.
"""

from __future__ import annotations

from collections.abc import Sequence

__all__ = ["layered"]

_SWEEPS = 4


def layered(count: int, edges: Sequence[tuple[int, int]]) -> list[tuple[float, int]]:
    """(place, layer) of each of `count` nodes, places one apart at least; edges go from lower to higher numbers."""
    above: list[list[int]] = [[] for _ in range(count)]
    below: list[list[int]] = [[] for _ in range(count)]
    for source, target in dict.fromkeys(edges):
        above[target].append(source)
        below[source].append(target)
    depths = _depths(count, above, below)
    layers: list[list[int]] = [[] for _ in range(max(depths, default=-1) + 1)]
    for node, depth in enumerate(depths):
        layers[depth].append(node)
    places = [0.0] * count
    for layer in layers:
        _spread(layer, places, [float(k) for k in range(len(layer))])
    for sweep in range(_SWEEPS):
        down = sweep % 2 == 0
        for layer in layers if down else reversed(layers):
            _settle(layer, places, above if down else below)
    least = min(places, default=0.0)
    return [(place - least, depth) for place, depth in zip(places, depths, strict=True)]


def _depths(count: int, above: Sequence[Sequence[int]], below: Sequence[Sequence[int]]) -> list[int]:
    """Longest paths from the top; what nothing leads to stands just above its first reader."""
    depths = [0] * count
    for node in range(count):
        depths[node] = max((depths[source] + 1 for source in above[node]), default=0)
    for node in range(count):
        if not above[node] and below[node]:
            depths[node] = max(0, min(depths[target] for target in below[node]) - 1)
    return depths


def _settle(layer: list[int], places: list[float], neighbours: Sequence[Sequence[int]]) -> None:
    wanted = {
        node: sum(places[n] for n in neighbours[node]) / len(neighbours[node]) if neighbours[node] else places[node]
        for node in layer
    }
    layer.sort(key=lambda node: (wanted[node], node))
    _spread(layer, places, [wanted[node] for node in layer])


def _spread(layer: Sequence[int], places: list[float], wanted: Sequence[float]) -> None:
    """Places in order and one apart, moved together so that on average nobody is to one side of what it wants."""
    found: list[float] = []
    for place in wanted:
        found.append(max(place, found[-1] + 1.0) if found else place)
    shift = sum(f - w for f, w in zip(found, wanted, strict=True)) / max(1, len(layer))
    for node, place in zip(layer, found, strict=True):
        places[node] = place - shift
