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


NESTED = {"encoder": {"0": {"weight": 1, "bias": 2}, "1": [3, 4]}, "head": Point(5, Named(6, "six"))}


def test_map_with_path_gives_each_leaf_its_path() -> None:
    assert trees.map_with_path(
        lambda path, leaf, other: (path[-1], leaf + other), {"a": {"b": 1}}, {"a": {"b": 2}}
    ) == {"a": {"b": ("b", 3)}}


def test_a_part_of_a_tree_is_found_by_its_path() -> None:
    assert trees.at(NESTED, "encoder.1.0") == 3
    assert trees.at(NESTED, ("head", "y", "value")) == 6
    assert trees.at(NESTED, "encoder.0") == {"weight": 1, "bias": 2}
    assert trees.has(NESTED, "head.x")
    assert not trees.has(NESTED, "head.z")
    assert not trees.has(NESTED, "head.x.weight")
    with pytest.raises(GraphError, match=r"nothing at 'encoder\.2'; its paths are encoder\.0\.bias"):
        trees.at(NESTED, "encoder.2")


def test_an_updated_tree_is_another_one_that_differs_at_the_path() -> None:
    found = trees.updated(NESTED, "head.y.value", 7)
    assert found["head"] == Point(5, Named(7, "six"))
    assert NESTED["head"] == Point(5, Named(6, "six"))
    assert trees.updated(NESTED, "encoder.1.1", 0)["encoder"]["1"] == [3, 0]
    assert trees.updated({}, "a.b.c", 1) == {"a": {"b": {"c": 1}}}
    assert trees.updated({1: 2}, "1", 3) == {1: 3}
    with pytest.raises(GraphError, match="nothing at 'z' in a Point"):
        trees.updated(NESTED, "head.z", 1)


def test_what_is_taken_out_leaves_no_empty_dicts() -> None:
    assert trees.without({"a": {"b": 1}, "c": 2}, "a.b") == {"c": 2}
    assert trees.without({"a": {"b": 1, "d": 3}, "c": 2}, "a.b") == {"a": {"d": 3}, "c": 2}
    with pytest.raises(GraphError, match="nothing at"):
        trees.without({"a": {"b": 1}}, "a.c")


def test_leaves_are_selected_by_patterns() -> None:
    assert trees.select(NESTED, "encoder") == {
        "encoder.0.bias": 2, "encoder.0.weight": 1, "encoder.1.0": 3, "encoder.1.1": 4,
    }  # fmt: skip
    assert trees.select(NESTED, "*.bias", "head.?") == {"encoder.0.bias": 2, "head.x": 5, "head.y.value": 6}
    with pytest.raises(GraphError, match="matches 'decoder'"):
        trees.select(NESTED, "decoder")
