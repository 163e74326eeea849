"""PyTorch, eager."""

import torch

from snell.bench.cases import Case, Startup, StartupFigure, Train
from snell.bench.peers.peer import Program, Timed
from snell.bench.peers.startup import import_time, tiny_operands
from snell.bench.peers.torch_library import program
from snell.bench.peers.torch_training import training_step

__all__ = ["prepare"]


def prepare(case: Case, threads: int) -> Program:
    """A program for the case, with the given number of intra-operation threads."""
    match case:
        case Train(model=model):
            return training_step(model, threads, lambda function: function)
        case Startup(figure=StartupFigure.IMPORT):
            return import_time("torch")
        case Startup(figure=StartupFigure.CALL):
            a, b = map(torch.from_numpy, tiny_operands())
            return Timed(lambda: torch.add(a, b))
        case _:
            return program("torch", case, threads, lambda function: function)
