"""Layers: frozen dataclasses that say what to compute from parameters and state; nothing is hidden in them."""

from snell.nn import initialisers
from snell.nn.batch_norm import BatchNorm
from snell.nn.chain import Chain
from snell.nn.child import call_child, parameters_of, state_of
from snell.nn.dropout import AlphaDropout, ChannelDropout, Dropout
from snell.nn.embedding import Embedding
from snell.nn.function import Lambda
from snell.nn.instance_norm import InstanceNorm
from snell.nn.keys import drawn_key, named_key, random_state
from snell.nn.layer import Layer, Params, State
from snell.nn.linear import Bilinear, Linear
from snell.nn.masking import mask
from snell.nn.normalisation import GroupNorm, LayerNorm, RMSNorm
from snell.nn.parallel import Branch, Maxout, Parallel, SkipConnection
from snell.nn.repeated import Repeated
from snell.nn.sharing import Shared, share
from snell.nn.stateful import Stateful
from snell.nn.summary import LayerCost, Summary, summary
from snell.nn.watching import Call, watched
from snell.nn.weight_norm import WeightNorm

__all__ = [
    "AlphaDropout",
    "BatchNorm",
    "Bilinear",
    "Branch",
    "Call",
    "Chain",
    "ChannelDropout",
    "Dropout",
    "Embedding",
    "GroupNorm",
    "InstanceNorm",
    "Lambda",
    "Layer",
    "LayerCost",
    "LayerNorm",
    "Linear",
    "Maxout",
    "Parallel",
    "Params",
    "RMSNorm",
    "Repeated",
    "Shared",
    "SkipConnection",
    "State",
    "Stateful",
    "Summary",
    "WeightNorm",
    "call_child",
    "drawn_key",
    "initialisers",
    "mask",
    "named_key",
    "parameters_of",
    "random_state",
    "share",
    "state_of",
    "summary",
    "watched",
]
