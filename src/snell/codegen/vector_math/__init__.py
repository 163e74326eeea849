"""Vector math: elementary functions as straight-line arithmetic, our own polynomials with tested error bounds."""

from snell.codegen.vector_math.functions import FUNCTIONS, emit_function

__all__ = ["FUNCTIONS", "emit_function"]
