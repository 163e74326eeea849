"""Pytrees flatten in a deterministic order and come back as they were."""

from collections import namedtuple
from dataclasses import dataclass

import pytest

from snell import trees
from snell.errors import GraphError

Point = namedtuple("Point", "x y")


@trees.register
@dataclass(frozen=True)
class Layer:
    weight: object
    bias: object


@dataclass(frozen=True)
class Named:
    value: object
    name: str


trees.register(Named, static=("name",))
TREE = {"b": [1, (2, None)], "a": Point(3, Layer(4, {"z": 5})), "c": Named(6, "six")}


def test_a_tree_survives_flattening() -> None:
    leaves, structure = trees.flatten(TREE)
    assert leaves == [3, 4, 5, 1, 2, 6]
    assert structure.count == 6
    assert trees.unflatten(structure, leaves) == TREE


def test_the_order_of_a_dict_does_not_matter() -> None:
    assert trees.flatten({"a": 1, "b": 2}) == trees.flatten({"b": 2, "a": 1})


def test_structures_are_hashable_and_hold_static_fields() -> None:
    structures = {trees.flatten(Named(1, name))[1] for name in ("one", "two", "one")}
    assert len(structures) == 2


def test_map_goes_leaf_by_leaf() -> None:
    assert trees.map(lambda a, b: a + b, {"x": [1, 2]}, {"x": [10, 20]}) == {"x": [11, 22]}


def test_map_over_different_structures_is_an_error() -> None:
    with pytest.raises(GraphError, match="one structure"):
        trees.map(lambda a, b: a, [1, 2], [1])


def test_paths_name_each_leaf() -> None:
    paths = [("a", "x"), ("a", "y", "weight"), ("a", "y", "bias", "z"), ("b", "0"), ("b", "1", "0"), ("c", "value")]
    assert trees.paths(TREE) == paths


def test_what_is_not_registered_is_a_leaf() -> None:
    @dataclass
    class Unknown:
        value: int

    assert len(trees.leaves([Unknown(1)])) == 1
    assert not trees.is_registered(Unknown)


def test_registering_something_else_is_an_error() -> None:
    with pytest.raises(GraphError, match="expected a dataclass"):
        trees.register(int)
    with pytest.raises(GraphError, match="no fields"):
        trees.register(Layer, static=("colour",))


def test_a_wrong_number_of_leaves_is_an_error() -> None:
    with pytest.raises(GraphError, match="2 leaves"):
        trees.unflatten(trees.flatten([1, 2])[1], [1])


def test_subtrees_lie_where_another_tree_has_its_leaves() -> None:
    structure = trees.flatten({"a": 1, "b": [2, 3]})[1]
    assert trees.flatten_up_to(structure, {"a": {"x": 1}, "b": [None, (4, 5)]}) == [{"x": 1}, None, (4, 5)]
    with pytest.raises(GraphError, match="at b the tree should be a list with 0, 1, received list with 0"):
        trees.flatten_up_to(structure, {"a": 1, "b": [2]})
    with pytest.raises(GraphError, match="at its root the tree should be a dict with a, b, received int"):
        trees.flatten_up_to(structure, 3)
