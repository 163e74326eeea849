"""chain: transforms one after the other, each given the updates of the one before.

chain(clip_by_norm(1.0), adamw(1e-3))
"""

from __future__ import annotations

from typing import Any

from snell.errors import ConfigError
from snell.optim.matching import entry
from snell.optim.names import distinct_names
from snell.optim.transform import Transform

__all__ = ["chain"]


def chain(*transforms: Transform) -> Transform:
    """The transforms in a row; the first is given the gradients.

    The state has each one's under its name, `state["clip_by_norm"]`, `state["adamw"]`; the second of a name is `adamw_2`.
    Raises ConfigError for no transforms, or for what is no transform.
    """
    if not transforms or not all(isinstance(one, Transform) for one in transforms):
        raise ConfigError(
            f"chain expected transforms, such as clip_by_norm(1.0) and adamw(1e-3); received {transforms}"
        )
    named = dict(zip(distinct_names(transforms), transforms, strict=True))

    def init(params: Any) -> dict[str, Any]:
        return {name: one.init(params) for name, one in named.items()}

    def update(gradients: Any, state: Any, params: Any) -> tuple[Any, dict[str, Any]]:
        updates, following = gradients, {}
        for name, one in named.items():
            updates, following[name] = one.update(updates, entry(state, name, "chain"), params)
        return updates, following

    return Transform("chain", init, update)
