"""Integer expressions, sizes and views: all index arithmetic of the project.  Importing it attaches `//` and `%`."""

from snell.symbolic import division
from snell.symbolic.expression import Axis, Dim, Expr, FloorDiv, Integer, Opaque, Remainder, as_expr, as_size, product
from snell.symbolic.view import Shape, Size, View, coordinates, show_shape

__all__ = [
    "Axis", "Dim", "Expr", "FloorDiv", "Integer", "Opaque", "Remainder", "Shape", "Size", "View", "as_expr", "as_size",
    "coordinates", "division", "product", "show_shape",
]  # fmt: skip
