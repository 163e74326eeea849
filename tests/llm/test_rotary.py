"""What tokens are turned by is right at every position of a long context, from tables that do not grow with it."""

import numpy as np
import pytest

import snell as sn
from snell.llm.families.rope_scaling import linear
from snell.llm.families.rotary import Pairing, Rotary, turns_at

CONTEXT = 131_072
PLACES = np.array([0, 1, 255, 256, 257, 8191, 65_535, 100_003, CONTEXT - 1], np.int32)


@pytest.mark.parametrize("pairing", list(Pairing))
@pytest.mark.parametrize("scaling", [None, linear(3.0)])
def test_turns_are_those_of_float64_angles(pairing: Pairing, scaling) -> None:
    rotary = Rotary(64, 10_000.0, pairing, scaling)
    tables = rotary.tables(CONTEXT)
    turns = sn.compile(lambda places: turns_at(places, {key: sn.array(table) for key, table in tables.items()}))
    same, swapped = map(np.asarray, turns(PLACES))
    angles = PLACES[:, None] / (1.0 if scaling is None else 3.0) * 10_000.0 ** -(np.arange(0, 64, 2) / 64)
    axis = 2 if pairing is Pairing.NEIGHBOURS else 1
    shape = (len(PLACES), 64)
    cosine, sine = np.cos(angles), np.sin(angles)
    np.testing.assert_allclose(same, np.stack([cosine, cosine], axis).reshape(shape), rtol=0, atol=2.5e-7)
    np.testing.assert_allclose(swapped, np.stack([-sine, sine], axis).reshape(shape), rtol=0, atol=2.5e-7)


def test_tables_of_a_long_context_take_kilobytes() -> None:
    tables = Rotary(128, 1e6, Pairing.HALVES).tables(CONTEXT)
    assert sum(table.nbytes for table in tables.values()) < 1 << 20
    assert {len(table) for table in Rotary(128, 1e6, Pairing.HALVES).tables(100).values()} == {1, 100}
