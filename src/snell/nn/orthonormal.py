"""Orthonormal rows of a random matrix: Gram-Schmidt, a vector a step of a scan, so that one body is compiled."""

from __future__ import annotations

from snell.frontend import Tensor, arange, astype, matmul, rsqrt, scan, square, unsqueeze, where, zeros

__all__ = ["orthonormal_rows"]


def orthonormal_rows(matrix: Tensor) -> Tensor:
    """f32 (n, m), n <= m, with orthonormal rows that span those of the matrix, in order.

    Of independent normal numbers it makes a matrix distributed uniformly (Stewart, 1980): the triangular factor's diagonal
    is positive.  A vector is projected twice, which is enough for rounding errors (Giraud et al., 2005).
    """
    count, width = matrix.shape

    def step(basis: Tensor, row: tuple[Tensor, Tensor]) -> tuple[Tensor, None]:
        vector, place = row
        for _ in range(2):
            vector = vector - matmul(matmul(basis, vector), basis)
        unit = vector * rsqrt(square(vector).sum())
        at_place = unsqueeze(arange(count) == place, 1)
        return where(at_place, unit, basis), None

    basis, _ = scan(step, zeros((count, width)), (matrix, astype(arange(count), "i64")))
    return basis
