"""Which layers attend all positions, and which a window of the last ones."""

__all__ = ["periodic_windows"]


def periodic_windows(layers: int, window: int, period: int) -> tuple[int, ...]:
    """The window of each layer, 0 for all positions: every ``period``-th attends all; period 0, none does."""
    return tuple(0 if period and (layer + 1) % period == 0 else window for layer in range(layers))
