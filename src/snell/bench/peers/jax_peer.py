"""JAX on the CPU, every function under ``jax.jit``; its thread pool follows the process's affinity mask."""

import jax
import jax.numpy as jnp
import numpy as np

from snell.bench.arrays import EPSILON
from snell.bench.cases import Attention, Bert, Case, Fused, FusedLine, Matmul, Startup, StartupFigure, Train
from snell.bench.minilm import MiniLM, minilm_weights, token_ids
from snell.bench.peers.jax_training import training_step
from snell.bench.peers.peer import ArrayLibrary, Program, Timed, array_program, unsupported
from snell.bench.peers.startup import import_time, tiny_operands

__all__ = ["prepare"]

_DTYPES = {"f32": jnp.float32, "bf16": jnp.bfloat16}


def prepare(case: Case, threads: int) -> Program:
    """A program for the case."""
    match case:
        case Matmul() | Fused() | Attention():
            return array_program(LIBRARY, case)
        case Bert():
            return _minilm(case)
        case Train(model=model):
            return training_step(model)
        case Startup(figure=StartupFigure.IMPORT):
            return import_time("jax")
        case Startup(figure=StartupFigure.CALL):
            a, b = map(jnp.asarray, tiny_operands())
            add = jax.jit(jnp.add)
            return Timed(lambda: add(a, b).block_until_ready())
        case _:
            raise unsupported("jax", case)


def _minilm(case: Bert) -> Timed:
    weights = {name: jnp.asarray(array, _DTYPES[case.dtype]) for name, array in minilm_weights().items()}
    model = MiniLM(layer_norm=_layer_norm_at, gelu=LIBRARY.fused[FusedLine.GELU_ERF], softmax=jax.nn.softmax)
    run = jax.jit(model.forward)
    ids = jnp.asarray(token_ids(case))
    return Timed(lambda: run(weights, ids).block_until_ready(), LIBRARY.get)


def _layer_norm_at(x: jax.Array, gain: jax.Array, shift: jax.Array, epsilon: float) -> jax.Array:
    centred = x - x.mean(-1, keepdims=True)
    return centred * jax.lax.rsqrt(jnp.mean(centred * centred, -1, keepdims=True) + epsilon) * gain + shift


def _layer_norm(x: jax.Array, gain: jax.Array, shift: jax.Array) -> jax.Array:
    return _layer_norm_at(x, gain, shift, EPSILON)


def _epilogue(x: jax.Array, bias: jax.Array, residual: jax.Array, gain: jax.Array, shift: jax.Array) -> jax.Array:
    return _layer_norm(jax.nn.gelu(x + bias, approximate=False) + residual, gain, shift)


def _attention(q: jax.Array, k: jax.Array, v: jax.Array, causal: bool) -> jax.Array:
    # jax.nn.dot_product_attention takes (batch, sequence, heads, head_dim).
    q, k, v = (x.swapaxes(1, 2) for x in (q, k, v))
    return jax.nn.dot_product_attention(q, k, v, is_causal=causal).swapaxes(1, 2)


LIBRARY = ArrayLibrary(
    name="jax",
    put=lambda array, dtype: jnp.asarray(array, _DTYPES[dtype]),
    get=lambda result: np.asarray(result.astype(jnp.float32)),
    matmul=jnp.matmul,
    fused={
        FusedLine.ADD: jnp.add,
        FusedLine.SOFTMAX: lambda x: jax.nn.softmax(x, axis=-1),
        FusedLine.LAYER_NORM: _layer_norm,
        FusedLine.RMS_NORM: lambda x, gain: x * jax.lax.rsqrt(jnp.mean(x * x, -1, keepdims=True) + EPSILON) * gain,
        FusedLine.GELU_ERF: lambda x: jax.nn.gelu(x, approximate=False),
        FusedLine.GELU_TANH: lambda x: jax.nn.gelu(x, approximate=True),
        FusedLine.EPILOGUE: _epilogue,
        FusedLine.SUM: jnp.sum,
    },
    attention=_attention,
    compile=jax.jit,
    wait=lambda result: result.block_until_ready(),
)
