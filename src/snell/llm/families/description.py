"""What the layers of a family of text generators are, as data: one ``FamilyDescription`` an architecture.

It says what neither a GGUF file's metadata nor a ``config.json`` says: which norms and activation there are, what the
weights are called, and what holds where a key is missing.  Sizes and the rest are read (``from_gguf``,
``from_config``); the layers themselves are written once (``decoder_step``).
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum

from snell.llm.families.rotary import Pairing

__all__ = ["Activation", "FamilyDescription"]


class Activation(Enum):
    """The function of the feed-forward gate."""

    SILU = "silu"
    GELU = "gelu"
    GELU_TANH = "gelu_tanh"


@dataclass(frozen=True, slots=True)
class FamilyDescription:
    """The choices of one architecture.

    ``names`` maps GGUF's stems of weights to those of a Hugging Face folder; {n} is the layer, {e} the expert.
    ``norm_offset`` is what a folder's norm weights lack (GGUF files hold them with it).  ``output_norms``: a norm
    behind attention and feed-forward too; ``head_norms``: on each head's queries and keys; ``fused``: one weight for
    queries, keys and values, and one for gate and up.  ``window_period``: where nothing says it layer by layer, every
    so-many-th layer attends all positions and the others the window (0: every layer the window).  ``local_rope_base``:
    windowed layers turn by this base, unscaled (None: as all layers).  ``width_scaled_layers``: numbers of layers at
    which GGUF's readers scale scores by √(width / heads) instead of √head_dim, which no key of those files says.
    ``head_dim`` 0: width / heads.  ``caps``: of scores and logits.
    """

    names: Mapping[str, str] = field(repr=False)
    activation: Activation = Activation.SILU
    pairing: Pairing = Pairing.HALVES
    norm_offset: float = 0.0
    output_norms: bool = False
    head_norms: bool = False
    fused: bool = False
    tied: bool = False
    embedding_scaled: bool = False
    head_dim: int = 0
    rope_base: float = 10000.0
    local_rope_base: float | None = None
    window_period: int = 0
    window_on_request: bool = False
    width_scaled_layers: tuple[int, ...] = ()
    caps: tuple[float, float] = (0.0, 0.0)
    experts_normalised: bool = True
