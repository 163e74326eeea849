"""Every exception that snell raises on purpose, as one tree.

    SnellError
    ├── ConfigError            (also ValueError)
    ├── ShapeError             (also ValueError)
    │   └── SymbolicError
    ├── DTypeError             (also TypeError)
    ├── GraphError
    ├── CompileError
    │   └── VerificationError
    ├── FileFormatError        (also ValueError)
    ├── UnsupportedError       (also ValueError)
    ├── ContextLengthError     (also ValueError)
    ├── CacheError             (also OSError)
    ├── DonatedError           (also RuntimeError)
    ├── NonFiniteError         (also FloatingPointError)
    ├── ModelNotFoundError     (also LookupError)
    ├── OfflineError           (also RuntimeError)
    └── OutOfRangeError        (also IndexError)

Each class that a Python programmer would expect to be a built-in exception is one, so that
``except ValueError`` keeps working. A message says what was expected, what came, and what to do.
"""

__all__ = [
    "CacheError",
    "CompileError",
    "ConfigError",
    "ContextLengthError",
    "DTypeError",
    "DonatedError",
    "FileFormatError",
    "GraphError",
    "ModelNotFoundError",
    "NonFiniteError",
    "OfflineError",
    "OutOfRangeError",
    "ShapeError",
    "SnellError",
    "SymbolicError",
    "UnsupportedError",
    "VerificationError",
]


class SnellError(Exception):
    """The root of the tree: catching it catches every error that snell raises on purpose."""


class ConfigError(SnellError, ValueError):
    """A setting, such as an environment variable or an option, has a value that means nothing."""


class ShapeError(SnellError, ValueError):
    """The shapes of the operands cannot meet in the operation."""


class SymbolicError(ShapeError):
    """A statement about a symbolic extent, such as a reshape through it, cannot be proven."""


class DTypeError(SnellError, TypeError):
    """An operation does not accept the dtype it was given."""


class GraphError(SnellError):
    """A graph is malformed, or is used in a state that does not allow it."""


class CompileError(SnellError):
    """A pass could not turn a program into the next stage's form."""


class VerificationError(CompileError):
    """The verifier found that a pass left its program invalid: a defect of snell, worth a report."""


class FileFormatError(SnellError, ValueError):
    """A file does not follow the format it claims to have."""


class UnsupportedError(SnellError, ValueError):
    """The request is well formed, but this version of snell does not do it."""


class ContextLengthError(SnellError, ValueError):
    """The prompt and the requested tokens do not fit into the model's context."""


class CacheError(SnellError, OSError):
    """The cache of compiled code and records cannot be read or written."""


class DonatedError(SnellError, RuntimeError):
    """An array was read after its memory had been donated to an executable."""


class NonFiniteError(SnellError, FloatingPointError):
    """A value that training needs is infinite or NaN, and the message names where it came from first."""

    # The layer, as the path of its names; None where no single layer made it.
    path: str | None = None


class ModelNotFoundError(SnellError, LookupError):
    """No file, folder or known short name matches the model that was asked for."""


class OfflineError(SnellError, RuntimeError):
    """The request needs the network and the network was refused."""


class OutOfRangeError(SnellError, IndexError):
    """An index lies outside of the axis it selects from."""

    # Whether the program found out only after it had begun to write the arrays that were donated to it.
    overwrote_donated: bool = False
