"""PyTorch through ``torch.compile`` with its default back end; weights frozen, as for inference."""

import tempfile

import torch
import torch._inductor.config

from snell.bench.cases import Case, Startup, StartupFigure, Train
from snell.bench.peers.child import reading
from snell.bench.peers.peer import Gauge, Program, Timed
from snell.bench.peers.startup import import_time, tiny_operands
from snell.bench.peers.torch_library import program
from snell.bench.peers.torch_training import training_step
from snell.config import process_environment

__all__ = ["prepare"]

_COMPILE = """
import time
import torch, torch._inductor.config
from snell.bench.cases import Bert
from snell.bench.peers.torch_library import program
torch._inductor.config.freezing = True
start = time.perf_counter()
program("torch.compile", Bert(1, 32, "f32"), {threads}, torch.compile).call()
report(time.perf_counter() - start)
"""


def prepare(case: Case, threads: int) -> Program:
    """A program for the case; compiling happens in its first call, which is not timed."""
    # Freezing folds and lays out constant weights in advance, as the other compilers do.
    torch._inductor.config.freezing = not isinstance(case, Train)
    match case:
        case Train(model=model):
            return training_step(model, threads, torch.compile)
        case Startup(figure=StartupFigure.IMPORT):
            return import_time("torch._inductor.compile_fx")
        case Startup(figure=StartupFigure.COMPILE_COLD):
            return Gauge(lambda: _cold(threads))
        case Startup(figure=StartupFigure.COMPILE_CACHED):
            return Gauge(lambda: reading(_COMPILE.format(threads=threads), process_environment()))
        case Startup(figure=StartupFigure.CALL):
            a, b = map(torch.from_numpy, tiny_operands())
            add = torch.compile(torch.add)
            return Timed(lambda: add(a, b))
        case _:
            return program("torch.compile", case, threads, torch.compile)


def _cold(threads: int) -> float:
    with tempfile.TemporaryDirectory() as folder:
        environment = process_environment() | {"TORCHINDUCTOR_CACHE_DIR": folder}
        return reading(_COMPILE.format(threads=threads), environment)
