"""The exception tree is what its picture says."""

import inspect

import pytest

from snell import errors


@pytest.mark.parametrize("name", errors.__all__)
def test_every_error_belongs_to_the_tree_and_says_in_one_sentence_what_it_means(name: str) -> None:
    error = getattr(errors, name)
    assert issubclass(error, errors.SnellError)
    assert inspect.getdoc(error).count("\n") == 0
    assert name in (errors.__doc__ or "")


@pytest.mark.parametrize(
    ("name", "builtin"),
    [
        ("ConfigError", ValueError),
        ("ShapeError", ValueError),
        ("SymbolicError", ValueError),
        ("DTypeError", TypeError),
        ("FileFormatError", ValueError),
        ("UnsupportedError", ValueError),
        ("ContextLengthError", ValueError),
        ("CacheError", OSError),
        ("DonatedError", RuntimeError),
        ("NonFiniteError", FloatingPointError),
        ("ModelNotFoundError", LookupError),
        ("OfflineError", RuntimeError),
        ("OutOfRangeError", IndexError),
    ],
)
def test_an_error_is_also_the_built_in_that_a_caller_would_expect(name: str, builtin: type[Exception]) -> None:
    assert issubclass(getattr(errors, name), builtin)


def test_every_class_of_the_module_is_exported() -> None:
    classes = {name for name, value in vars(errors).items() if inspect.isclass(value)}
    assert classes == set(errors.__all__)
