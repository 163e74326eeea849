"""Layers: frozen dataclasses that say what to compute from parameters and state; nothing is hidden in them."""

from snell.nn import initialisers
from snell.nn.attention import AttentionInput, MultiHeadAttention
from snell.nn.batch_norm import BatchNorm
from snell.nn.cell import Cell, GRUCell, LSTMCell, RNNCell
from snell.nn.chain import Chain
from snell.nn.child import call_child, parameters_of, state_of
from snell.nn.convolution import Conv1d, Conv2d, Conv3d
from snell.nn.dropout import AlphaDropout, ChannelDropout, Dropout
from snell.nn.embedding import Embedding
from snell.nn.flatten import Flatten
from snell.nn.function import Lambda
from snell.nn.instance_norm import InstanceNorm
from snell.nn.keys import drawn_key, named_key, random_state
from snell.nn.layer import Layer, Params, State
from snell.nn.linear import Bilinear, Linear
from snell.nn.masking import mask
from snell.nn.normalisation import GroupNorm, LayerNorm, RMSNorm
from snell.nn.parallel import Branch, Maxout, Parallel, SkipConnection
from snell.nn.pooling import (
    AdaptiveAvgPool1d,
    AdaptiveAvgPool2d,
    AdaptiveAvgPool3d,
    AdaptiveMaxPool1d,
    AdaptiveMaxPool2d,
    AdaptiveMaxPool3d,
    AvgPool1d,
    AvgPool2d,
    AvgPool3d,
    GlobalAvgPool,
    GlobalMaxPool,
    MaxPool1d,
    MaxPool2d,
    MaxPool3d,
)
from snell.nn.positions import LearnedPositions, RotaryPositions, SinusoidalPositions
from snell.nn.recurrence import Bidirectional, Recurrence
from snell.nn.repeated import Repeated
from snell.nn.resampling import PixelShuffle, PixelUnshuffle, Upsample
from snell.nn.sharing import Shared, share
from snell.nn.stateful import Stateful
from snell.nn.summary import LayerCost, Summary, summary
from snell.nn.transposed_convolution import ConvTranspose1d, ConvTranspose2d, ConvTranspose3d
from snell.nn.watching import Call, watched
from snell.nn.weight_norm import WeightNorm

__all__ = [
    "AdaptiveAvgPool1d",
    "AdaptiveAvgPool2d",
    "AdaptiveAvgPool3d",
    "AdaptiveMaxPool1d",
    "AdaptiveMaxPool2d",
    "AdaptiveMaxPool3d",
    "AlphaDropout",
    "AttentionInput",
    "AvgPool1d",
    "AvgPool2d",
    "AvgPool3d",
    "BatchNorm",
    "Bidirectional",
    "Bilinear",
    "Branch",
    "Call",
    "Cell",
    "Chain",
    "ChannelDropout",
    "Conv1d",
    "Conv2d",
    "Conv3d",
    "ConvTranspose1d",
    "ConvTranspose2d",
    "ConvTranspose3d",
    "Dropout",
    "Embedding",
    "Flatten",
    "GRUCell",
    "GlobalAvgPool",
    "GlobalMaxPool",
    "GroupNorm",
    "InstanceNorm",
    "LSTMCell",
    "Lambda",
    "Layer",
    "LayerCost",
    "LayerNorm",
    "LearnedPositions",
    "Linear",
    "MaxPool1d",
    "MaxPool2d",
    "MaxPool3d",
    "Maxout",
    "MultiHeadAttention",
    "Parallel",
    "Params",
    "PixelShuffle",
    "PixelUnshuffle",
    "RMSNorm",
    "RNNCell",
    "Recurrence",
    "Repeated",
    "RotaryPositions",
    "Shared",
    "SinusoidalPositions",
    "SkipConnection",
    "State",
    "Stateful",
    "Summary",
    "Upsample",
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
