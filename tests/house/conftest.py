"""The source files of the package, parsed once, for the tests of the house rules."""

import ast
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
PACKAGE = ROOT / "src" / "snell"


@dataclass(frozen=True)
class Source:
    """One source file: ``name`` is its path below ``src/snell`` with forward slashes."""

    name: str
    text: str
    tree: ast.Module

    @property
    def room(self) -> str:
        """The package or top-level module that the file belongs to, e.g. ``codegen`` or ``dtypes``."""
        return self.name.split("/")[0].removesuffix(".py")


@cache
def _parsed() -> tuple[Source, ...]:
    files = sorted(PACKAGE.rglob("*.py"))
    texts = [(file.relative_to(PACKAGE).as_posix(), file.read_text(encoding="utf-8")) for file in files]
    return tuple(Source(name, text, ast.parse(text)) for name, text in texts)


@pytest.fixture
def sources() -> tuple[Source, ...]:
    return _parsed()


@pytest.fixture
def root() -> Path:
    return ROOT
