"""Files and functions stay short, say first what they are, and keep their hands off ambient state."""

import ast
from collections.abc import Iterator

from tests.house.conftest import Source

LONGEST_FILE = 600
LONGEST_FUNCTION = 80


def functions(source: Source) -> Iterator[ast.FunctionDef | ast.AsyncFunctionDef]:
    for node in ast.walk(source.tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            yield node


def test_there_are_sources_to_check(sources: tuple[Source, ...]) -> None:
    assert {"errors.py", "config.py"} <= {source.name for source in sources}


def test_no_file_is_longer_than_six_hundred_lines(sources: tuple[Source, ...]) -> None:
    lengths = {source.name: source.text.count("\n") for source in sources}
    assert {name: length for name, length in lengths.items() if length > LONGEST_FILE} == {}


def test_no_function_is_longer_than_eighty_lines(sources: tuple[Source, ...]) -> None:
    lengths = {
        f"{source.name}:{node.lineno} {node.name}": (node.end_lineno or node.lineno) - node.lineno + 1
        for source in sources
        for node in functions(source)
    }
    assert {name: length for name, length in lengths.items() if length > LONGEST_FUNCTION} == {}


def test_every_module_begins_with_a_docstring(sources: tuple[Source, ...]) -> None:
    assert [source.name for source in sources if not ast.get_docstring(source.tree)] == []


def test_nothing_prints(sources: tuple[Source, ...]) -> None:
    calls = [
        f"{source.name}:{node.lineno}"
        for source in sources
        for node in ast.walk(source.tree)
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "print"
    ]
    assert calls == []


def test_no_exception_is_swallowed_unnamed(sources: tuple[Source, ...]) -> None:
    bare = [
        f"{source.name}:{node.lineno}"
        for source in sources
        for node in ast.walk(source.tree)
        if isinstance(node, ast.ExceptHandler) and node.type is None
    ]
    assert bare == []


def test_only_config_reads_the_environment(sources: tuple[Source, ...]) -> None:
    readers = {
        source.name
        for source in sources
        for node in ast.walk(source.tree)
        if isinstance(node, ast.Attribute) and node.attr in {"environ", "getenv", "putenv"}
        if isinstance(node.value, ast.Name) and node.value.id == "os"
    }
    assert readers <= {"config.py"}
