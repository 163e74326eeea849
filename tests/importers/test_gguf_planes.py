"""Planes and recipes: a window over a file's bits, and the arithmetic that makes values of it."""

from pathlib import Path

import gguf
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.importers.gguf_bytes import GGUFBytes, TensorEntry
from tests.models import smollm2_path

from snell.errors import ModelNotFoundError, ShapeError, UnsupportedError
from snell.importers.gguf import Plane, Quantisation, dequantize, planar_tensor, plane_array, read_gguf
from snell.importers.gguf.layouts import LAYOUTS
from snell.importers.gguf.plane import read_plane
from snell.importers.gguf.recipes import RECIPES

# Where the f16 scales lie in a block: random bytes there could be infinite.
SCALES = {
    Quantisation.F16: (0,), Quantisation.Q4_0: (0,), Quantisation.Q4_1: (0, 2), Quantisation.Q5_0: (0,),
    Quantisation.Q5_1: (0, 2), Quantisation.Q8_0: (0,), Quantisation.Q2_K: (80, 82), Quantisation.Q3_K: (108,),
    Quantisation.Q4_K: (0, 2), Quantisation.Q5_K: (0, 2), Quantisation.Q6_K: (208,),
}  # fmt: skip


def random_blocks(kind: Quantisation, count: int, seed: int) -> np.ndarray:
    """Random blocks of finite values, u8 (count, block_bytes)."""
    random = np.random.default_rng(seed)
    if kind is Quantisation.F32:
        return random.standard_normal((count, 1), np.float32).view(np.uint8)
    if kind is Quantisation.BF16:
        return random.integers(0, 0x7F80, (count, 1), np.uint16).view(np.uint8)
    blocks = random.integers(0, 256, (count, kind.block_bytes), np.uint8)
    for place in SCALES[kind]:
        blocks[:, place : place + 2] = random.standard_normal((count, 1)).astype("<f2").view(np.uint8)
    return blocks


def tensor_file(tmp_path: Path, kind: Quantisation, shape: tuple[int, ...], data: bytes) -> Path:
    path = tmp_path / "model.gguf"
    path.write_bytes(GGUFBytes(tensors=[TensorEntry("w", shape, kind.type_id, data)]).build())
    return path


@pytest.mark.parametrize("kind", LAYOUTS, ids=lambda kind: kind.name)
@pytest.mark.parametrize("shape", [(1,), (3, 2), (2, 2, 3)], ids=["vector", "matrix", "experts"])
def test_a_recipe_decodes_random_blocks_exactly_as_the_gguf_package_does(
    tmp_path: Path, kind: Quantisation, shape: tuple[int, ...]
) -> None:
    blocks = random_blocks(kind, int(np.prod(shape)), seed=len(shape))
    full = (*shape[:-1], shape[-1] * kind.block_values)
    file = read_gguf(tensor_file(tmp_path, kind, full, blocks.tobytes()))
    judge = gguf.quants.dequantize(blocks.reshape(*shape[:-1], -1), gguf.GGMLQuantizationType(kind.type_id))
    values = dequantize(file, "w")
    assert values.dtype == np.float32
    np.testing.assert_array_equal(values, judge.reshape(full))


@pytest.mark.parametrize("kind", LAYOUTS, ids=lambda kind: kind.name)
def test_the_planes_of_a_tensor_lie_inside_of_its_bytes(tmp_path: Path, kind: Quantisation) -> None:
    blocks = random_blocks(kind, 6, seed=0)
    file = read_gguf(tensor_file(tmp_path, kind, (3, 2 * kind.block_values), blocks.tobytes()))
    tensor = planar_tensor(file, "w")
    for plane in tensor.planes.values():
        assert tensor.info.offset <= plane.offset_bytes
        assert plane.end_bytes <= tensor.info.offset + tensor.info.nbytes
        assert plane.shape[:2] == (3, 2)


@pytest.mark.parametrize("kind", LAYOUTS, ids=lambda kind: kind.name)
def test_no_plane_copies_more_than_the_packed_scales(tmp_path: Path, kind: Quantisation) -> None:
    blocks = random_blocks(kind, 4, seed=0)
    file = read_gguf(tensor_file(tmp_path, kind, (2, 2 * kind.block_values), blocks.tobytes()))
    owned = planar_tensor(file, "w").owned
    assert set(owned) <= {"group_scale", "group_least"}
    assert sum(array.nbytes for array in owned.values()) <= 16 * 4


def test_every_layout_has_a_recipe() -> None:
    assert RECIPES.keys() == LAYOUTS.keys()


@given(
    st.sampled_from([("u1", 1), ("u2", 2), ("u4", 4), ("u8", 8)]),
    st.integers(1, 3),
    st.integers(1, 4),
    st.integers(0, 5),
    st.randoms(use_true_random=False),
)
def test_an_element_lies_at_the_bit_that_its_strides_say(
    element: tuple[str, int], rows: int, lanes: int, offset: int, random: object
) -> None:
    name, bits = element
    data = np.frombuffer(random.randbytes(64), np.uint8)  # type: ignore[attr-defined]
    plane = Plane("p", name, (rows, lanes, 8 // bits), offset, (64, 8, bits if bits < 8 else 8))  # type: ignore[arg-type]
    stream = np.unpackbits(data, bitorder="little")
    values = read_plane(data, plane)
    for index in np.ndindex(plane.shape):
        bit = 8 * offset + sum(i * stride for i, stride in zip(index, plane.strides_bits, strict=True))
        assert values[index] == int("".join(map(str, stream[bit : bit + bits][::-1])), 2)


def test_a_plane_of_bf16_is_read_in_its_own_dtype() -> None:
    data = np.array([1.5, -2.0], np.float32).view(np.uint16)[1::2].copy().view(np.uint8)
    assert read_plane(data, Plane("p", "bf16", (2,), 0, (16,))).astype(np.float32).tolist() == [1.5, -2.0]


@pytest.mark.parametrize(
    ("shape", "strides"),
    [((2,), (8, 8)), ((2,), (12,)), ((3,), (4,))],
    ids=["ranks differ", "no whole bytes", "fields wider than a byte"],
)
def test_a_plane_that_no_window_can_be_is_refused(shape: tuple[int, ...], strides: tuple[int, ...]) -> None:
    with pytest.raises(ShapeError, match="plane 'p'"):
        Plane("p", "u4", shape, 0, strides)


def test_a_plane_behind_the_data_is_refused() -> None:
    with pytest.raises(ShapeError, match="ends at byte 9"):
        read_plane(np.zeros(8, np.uint8), Plane("p", "u8", (2,), 7, (8,)))


def test_an_unsupported_type_is_named_with_those_that_are_supported(tmp_path: Path) -> None:
    kind = Quantisation.IQ4_XS
    file = read_gguf(tensor_file(tmp_path, kind, (256,), bytes(kind.block_bytes)))
    with pytest.raises(UnsupportedError, match=r"'w'.*IQ4_XS.*Q4_K"):
        dequantize(file, "w")


def test_a_tensor_that_is_not_there_is_named(tmp_path: Path) -> None:
    file = read_gguf(tensor_file(tmp_path, Quantisation.F32, (1,), bytes(4)))
    with pytest.raises(ModelNotFoundError, match="'v'"):
        planar_tensor(file, "v")


def test_a_q4_1_tensor_of_smollm2_decodes_as_the_gguf_package_does() -> None:
    file = read_gguf(smollm2_path())
    info = file.tensors["blk.0.attn_q.weight"]
    raw = file.data[info.offset : info.offset + info.nbytes].reshape(info.rows, -1)
    judge = gguf.quants.dequantize(raw, gguf.GGMLQuantizationType.Q4_1)
    np.testing.assert_array_equal(dequantize(file, info.name), judge)


def test_the_low_plane_of_q4_1_is_the_one_of_the_design() -> None:
    file = read_gguf(smollm2_path())
    tensor = planar_tensor(file, "blk.0.attn_q.weight")
    row_bits = 8 * 576 // 32 * 20
    assert tensor.planes["low"] == Plane("low", "u4", (576, 18, 2, 16), tensor.info.offset + 4, (row_bits, 160, 4, 8))
    assert plane_array(file, tensor.planes["low"]).max() == 15
