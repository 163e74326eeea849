"""Programs ahead of time: a compiled function as one file, and a file as something to call.

    file ::= magic, SHA-256 of what follows, length and JSON header, length and program, length and weights (npz)

Loading traces, rewrites and compiles nothing.  A file runs on machines of the kind it was made for.
"""

from __future__ import annotations

import hashlib
import importlib
import io
import json
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from snell import trees
from snell.codegen.host import host_signature
from snell.engine.engine import Engine, unpack
from snell.engine.inputs import Inputs
from snell.engine.whole_file import write_whole
from snell.errors import FileFormatError, ShapeError, UnsupportedError

__all__ = ["Header", "LoadedFunction", "read_program", "write_program"]

_MAGIC = b"snell function 3\n"
_BUILT_IN = {"leaf": None, "none": type(None), "dict": dict, "list": list, "tuple": tuple}


@dataclass(frozen=True, slots=True)
class Header:
    """The machine it is for, the names of the arguments, their structure, and how their leaves become inputs."""

    target: str
    arguments: tuple[str, ...]
    structure: trees.Structure
    inputs: Inputs
    output_tree: trees.Structure


def write_program(path: str | os.PathLike[str], header: Header, program: bytes, weights: Mapping[str, Any]) -> None:
    """Write the file in one step: a reader sees all of it or none."""
    stream = io.BytesIO()
    np.savez(stream, allow_pickle=False, **dict(weights))
    inputs = header.inputs
    fields = {
        "target": header.target,
        "signature": host_signature(),
        "arguments": header.arguments,
        "structure": _to_json(header.structure),
        "output_tree": _to_json(header.output_tree),
        "order": inputs.order,
        "dtypes": [dtype.str for dtype in inputs.dtypes],
        "donated": inputs.donated,
        "sizes": inputs.sizes,
    }
    parts = (json.dumps(fields).encode(), program, stream.getvalue())
    body = b"".join(len(part).to_bytes(8, "little") + part for part in parts)
    write_whole(path, _MAGIC + hashlib.sha256(body).digest() + body)


def read_program(path: str | os.PathLike[str], engine: Engine) -> LoadedFunction:
    """The function in a file; FileFormatError where it is damaged, something else, or for another kind of machine."""
    data = Path(path).read_bytes()
    start = len(_MAGIC) + 32
    if not data.startswith(_MAGIC) or len(data) < start:
        raise FileFormatError(
            f"{path}: expected a file that f.save wrote, received {len(data)} bytes of something else"
        )
    if hashlib.sha256(data[start:]).digest() != data[len(_MAGIC) : start]:
        raise FileFormatError(
            f"{path}: the file of {len(data)} bytes is cut or damaged (its checksum differs); save it again"
        )
    text, program, weights = _parts(data[start:])
    fields = json.loads(text)
    # Of equal processors the signatures are equal, which is found out in a tenth of the time of loading LLVM.
    if fields["signature"] != host_signature() and fields["target"] != repr(engine.target):
        raise FileFormatError(f"{path}: made for {fields['target']}, this machine is {engine.target!r}; save it here")
    inputs = Inputs(
        tuple(fields["order"]), tuple(map(np.dtype, fields["dtypes"])), tuple(fields["donated"]),
        tuple((name, leaf, axis) for name, leaf, axis in fields["sizes"]),
    )  # fmt: skip
    header = Header(
        fields["target"], tuple(fields["arguments"]), _from_json(fields["structure"]), inputs,
        _from_json(fields["output_tree"]),
    )  # fmt: skip
    with np.load(io.BytesIO(weights), allow_pickle=False) as archive:
        arrays = {name: archive[name] for name in archive.files}
    return LoadedFunction(header, unpack(program).bind(arrays, engine.pool()))


class LoadedFunction:
    """A saved function: called as the original was, with arguments of the structure it was saved for."""

    def __init__(self, header: Header, executable: Any) -> None:
        self._header = header
        self._executable = executable

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        names = self._header.arguments
        given = dict(zip(names, args, strict=False)) | kwargs
        if len(args) > len(names) or set(given) != set(names):
            raise ShapeError(f"expected the arguments {', '.join(names)}, received {len(args)} and {sorted(kwargs)}")
        leaves, structure = trees.flatten(given)
        if structure != self._header.structure:
            raise ShapeError(f"expected arguments of the structure {self._header.structure}, received {structure}")
        return self.run(leaves)

    def run(self, leaves: Sequence[Any]) -> Any:
        """The result for the leaves of the arguments."""
        return trees.unflatten(self._header.output_tree, self._header.inputs.run(self._executable, leaves))

    def explain(self) -> Any:
        """A saved program has no graph left to explain."""
        raise UnsupportedError("a saved function holds machine code only; explain the function before it is saved")


def _parts(body: bytes) -> list[bytes]:
    parts: list[bytes] = []
    position = 0
    while position < len(body):
        length = int.from_bytes(body[position : position + 8], "little")
        parts.append(body[position + 8 : position + 8 + length])
        position += 8 + length
    return parts


def _to_json(structure: trees.Structure) -> list[Any]:
    kind = next((name for name, cls in _BUILT_IN.items() if structure.kind is cls), None)
    if kind is None:
        assert structure.kind is not None
        kind = f"{structure.kind.__module__}:{structure.kind.__qualname__}"
    try:
        json.dumps([structure.keys, structure.static])
    except TypeError as error:
        raise UnsupportedError(f"keys and static fields of saved arguments must be plain values: {error}") from error
    return [kind, list(structure.keys), list(structure.static), [_to_json(child) for child in structure.children]]


def _from_json(data: list[Any]) -> trees.Structure:
    kind, keys, static, children = data
    return trees.Structure(_class(kind), tuple(keys), tuple(static), tuple(_from_json(child) for child in children))


def _class(name: str) -> type | None:
    if name in _BUILT_IN:
        return _BUILT_IN[name]
    module, _, path = name.partition(":")
    try:
        found: Any = importlib.import_module(module)
        for part in path.split("."):
            found = getattr(found, part)
    except (ImportError, AttributeError) as error:
        raise FileFormatError(f"the saved function takes a {name}, which cannot be imported: {error}") from error
    return found
