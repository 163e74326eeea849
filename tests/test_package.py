"""The package's names are loaded when asked for, and opening a cached model loads no compiler."""

import pickle
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from tests.models import smollm2_path

import snell as sn
from snell import frontend
from snell.config import process_environment
from snell.deferred import deferred


def loaded_by(program: str, cache: Path | None = None) -> set[str]:
    """Names of the modules that a fresh interpreter has after running a program."""
    environment = process_environment() | ({} if cache is None else {"SNELL_CACHE_DIR": str(cache)})
    ending = "\nimport sys\nprint(*sys.modules, sep='\\n')"
    run = subprocess.run(
        [sys.executable, "-c", program + ending], env=environment, capture_output=True, text=True, check=True
    )
    return set(run.stdout.split())


def test_importing_the_package_loads_no_other_module_of_it_and_no_dependency() -> None:
    found = loaded_by("import snell")
    assert {name for name in found if name.startswith("snell.")} == set()
    assert found.isdisjoint({"numpy", "llvmlite", "egglog", "tokenizers", "jinja2"})


def test_every_operation_of_the_frontend_and_the_own_names_are_public() -> None:
    assert {*frontend.__all__, "Array", "Dim", "Graph", "compile", "io", "llm", "load"} <= set(sn.__all__)
    assert set(sn.__all__) <= set(dir(sn))
    assert all(hasattr(sn, name) for name in sn.__all__)
    assert sn.relu is frontend.relu


def test_a_star_import_gives_the_public_names() -> None:
    names: dict[str, object] = {}
    exec("from snell import *", names)
    assert set(sn.__all__) <= set(names)


def test_a_name_that_does_not_exist_is_an_attribute_error_that_names_it() -> None:
    with pytest.raises(AttributeError, match="'no_such_operation'"):
        _ = sn.no_such_operation
    with pytest.raises(ImportError, match="no_such_operation"):
        exec("from snell import no_such_operation")


def test_public_classes_pickle_by_the_module_they_live_in() -> None:
    assert pickle.loads(pickle.dumps(sn.Dim("n"))) == sn.Dim("n")


def test_a_deferred_module_is_imported_at_its_first_attribute_and_is_the_module() -> None:
    found = loaded_by("from snell.deferred import deferred\nm = deferred('colorsys')")
    assert "colorsys" not in found
    assert deferred("snell.trees").flatten is sn.tree.flatten
    with pytest.raises(AttributeError, match="no_such_name"):
        _ = deferred("snell.trees").no_such_name


@pytest.mark.slow
def test_a_token_from_a_cached_program_needs_neither_the_compiler_nor_the_frontend(tmp_path: Path) -> None:
    program = (
        "from snell.llm import load\n"
        f"load({str(smollm2_path())!r}, context=64, threads=1).generate('Hello', max_tokens=1)"
    )
    assert "snell.compiler.compile" in loaded_by(program, tmp_path)
    found = loaded_by(program, tmp_path)
    heavy = ("compiler", "frontend", "loops", "search", "autodiff", "rewrite.rewrite", "graph.node", "store")
    assert {name for name in found if name.startswith(tuple(f"snell.{room}" for room in heavy))} == set()
    assert found.isdisjoint({"egglog", "jinja2", "llvmlite.binding", "ml_dtypes", "safetensors", "importlib.metadata"})


def test_a_file_of_weights_and_a_program_without_bfloat16_load_no_package_for_it(tmp_path: Path) -> None:
    weights = tmp_path / "weights.safetensors"
    sn.io.save_safetensors(weights, {"w": np.ones((3, 3), np.float32)})
    program = (
        f"import snell as sn\nw = sn.io.load_safetensors({str(weights)!r})['w']\n"
        "assert sn.compile(lambda x: sn.softmax(x @ x))(w).shape == (3, 3)"
    )
    assert "ml_dtypes" not in loaded_by(program, tmp_path)
