"""Layers: frozen dataclasses that say what to compute from parameters and state; nothing is hidden in them."""

from snell.nn.child import call_child, parameters_of, state_of
from snell.nn.keys import drawn_key, named_key, random_state
from snell.nn.layer import Layer, Params, State

__all__ = [
    "Layer",
    "Params",
    "State",
    "call_child",
    "drawn_key",
    "named_key",
    "parameters_of",
    "random_state",
    "state_of",
]
