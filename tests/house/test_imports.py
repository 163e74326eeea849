"""Imports stand at the top; a third-party package is imported by its one owner; an ``__init__`` only exports."""

import ast
from collections.abc import Iterator

from tests.house.conftest import Source

# Package -> the rooms that may import it. `bench` measures peers, so its peers/ modules may import those.
OWNERS = {
    "egglog": {"rewrite"},
    "jinja2": {"llm"},
    "llguidance": {"llm"},
    "llvmlite": {"codegen"},
    "matplotlib": {"train"},
    "ml_dtypes": {"dtypes"},
    "onnx": {"importers"},
    "opt_einsum": {"rewrite"},
    "prometheus_client": {"llm"},
    "rich": {"cli", "train"},  # bars: of commands, and of a training loop that is called from Python
    "safetensors": {"importers"},
    "sse_starlette": {"llm"},
    "starlette": {"llm"},
    "tensorboardX": {"train"},
    "tokenizers": {"llm"},
    "torch": {"importers"},
    "typer": {"cli"},
    "uvicorn": {"llm"},
}
PEERS = {"jax", "llama_cpp", "onnx", "onnxruntime", "openvino", "torch", "transformers"}
# Judges and tools of the tests, never of the library.
FORBIDDEN = {"gguf", "hypothesis", "optax", "pytest", "scipy", "sympy", "tinygrad"}


def imported(source: Source) -> Iterator[str]:
    """Top-level names of the absolute imports anywhere in the file."""
    for node in ast.walk(source.tree):
        match node:
            case ast.Import(names=names):
                yield from (name.name.split(".")[0] for name in names)
            case ast.ImportFrom(module=str(module), level=0):
                yield module.split(".")[0]
            case _:
                pass


def allowed(source: Source, package: str) -> bool:
    if package in PEERS and source.name.startswith("bench/peers/"):
        return True
    if package in FORBIDDEN | PEERS - OWNERS.keys():
        return False
    return package not in OWNERS or source.room in OWNERS[package]


def test_a_third_party_package_is_imported_only_by_its_owner(sources: tuple[Source, ...]) -> None:
    strays = {
        f"{source.name} imports {package}"
        for source in sources
        for package in imported(source)
        if not allowed(source, package)
    }
    assert strays == set()


def test_imports_stand_at_the_top(sources: tuple[Source, ...]) -> None:
    local = [
        f"{source.name}:{inner.lineno}"
        for source in sources
        for outer in ast.walk(source.tree)
        if isinstance(outer, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef)
        for inner in ast.walk(outer)
        if isinstance(inner, ast.Import | ast.ImportFrom)
    ]
    assert local == []


def test_a_package_file_only_exports(sources: tuple[Source, ...]) -> None:
    # The root is the one exception: it loads public names when they are first asked for.
    busy = [
        f"{source.name}:{node.lineno}"
        for source in sources
        if source.name.endswith("/__init__.py")
        for node in source.tree.body
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef | ast.For | ast.While | ast.With)
    ]
    assert busy == []
