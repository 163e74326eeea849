"""A case is a value with a name; its unit and its work follow from its sizes."""

import pytest

from snell.bench import SUITES, parse_case, suite
from snell.bench.cases import Attention, Bert, Case, Llm, LlmFigure, Matmul, Quality, QualityFigure
from snell.errors import UnsupportedError

ALL = [case for cases in SUITES.values() for case in cases]


@pytest.mark.parametrize("case", ALL, ids=lambda case: case.name)
def test_a_name_parses_back_to_its_case(case: Case) -> None:
    assert parse_case(case.name) == case


def test_names_are_unique() -> None:
    assert len({case.name for case in ALL}) == len(ALL)


def test_any_size_has_a_name() -> None:
    assert parse_case("matmul/3x5x7/bf16") == Matmul(3, 5, 7, "bf16")


def test_a_product_with_a_constant_has_a_name_of_its_own() -> None:
    assert parse_case("matmul/3x5x7/f32/const") == Matmul(3, 5, 7, "f32", constant=True)


@pytest.mark.parametrize("name", ["matmul", "matmul/3x5/f32", "matmul/3x5x7/f64", "nothing/1", "llm/smollm2/bogus", ""])
def test_a_name_that_means_nothing_is_refused(name: str) -> None:
    with pytest.raises(UnsupportedError, match="expected a name such as"):
        parse_case(name)


def test_a_suite_can_be_asked_for_by_prefix() -> None:
    assert [case.name for case in suite("attention/causal")] == [
        f"attention/causal/{s}" for s in (128, 512, 2048, 8192)
    ]


def test_all_is_every_suite() -> None:
    assert list(suite("all")) == ALL


def test_a_product_counts_two_operations_a_multiply_add() -> None:
    case = Matmul(10, 20, 30, "f32")
    assert case.flops == 12_000
    assert case.report(1e-6) == pytest.approx(12.0)


def test_causal_attention_counts_the_pairs_that_attend() -> None:
    full, causal = Attention(False, 4), Attention(True, 4)
    assert causal.flops * 16 == full.flops * 10


def test_minilm_counts_the_arithmetic_that_its_layers_need() -> None:
    # 6 layers, 10.6 M products a token and the scores: 12 ms at 234 GFLOP/s for 128 tokens.
    assert Bert(1, 128, "f32").flops / 234e9 == pytest.approx(12e-3, rel=0.05)


def test_a_decode_figure_is_tokens_over_seconds() -> None:
    case = Llm("smollm2", LlmFigure.DECODE_128)
    assert case.report(0.5) == 64.0
    assert case.unit == "tokens/s"
    assert case.depth == 128


def test_a_line_is_itself_even_where_its_name_begins_another() -> None:
    (case,) = suite("matmul/512x512x512/f32")
    assert case.name == "matmul/512x512x512/f32"
    assert [case.name for case in suite("matmul/512x512x512")] == [
        "matmul/512x512x512/f32", "matmul/512x512x512/f32/const",
        "matmul/512x512x512/bf16", "matmul/512x512x512/bf16/const",
    ]  # fmt: skip


def test_a_model_s_quality_can_be_asked_for_whatever_its_format() -> None:
    names = [case.name for case in suite("quality/smollm2-q8_0")]
    assert names == [f"quality/smollm2-q8_0/{figure}" for figure in QualityFigure]
    assert [parse_case(name).name for name in names] == names


def test_formats_are_measured_as_models_of_their_own() -> None:
    assert parse_case("llm/smollm2-q4_0/decode@0") in suite("formats")
    assert {case.name.split("/")[1] for case in suite("formats")} == {
        f"smollm2-{name}" for name in ("q4_0", "q8_0", "q4_k_m", "q5_k_m", "q6_k")
    }


def test_agreement_is_in_percent_and_divergence_in_nats() -> None:
    assert Quality("smollm2", QualityFigure.AGREEMENT).unit == "%"
    assert Quality("smollm2", QualityFigure.HIGH_DIVERGENCE).unit == "nats"
