"""The fused kernels on a GPU at the published sizes, against the reference implementation."""

import subprocess
import sys
from contextlib import contextmanager
from functools import cache
from pathlib import Path

import pytest
import torch

from engine.talker.fused import batched
from engine.talker.fused.batched import BatchedCodes
from engine.talker.fused.dispatch import batched_codes, persistent_codes, residual_codes
from engine.talker.fused.fp8 import round_to_fp8
from engine.talker.fused.persistent import MAX_ROWS, PersistentCodes
from engine.talker.fused.reference import ReferencePredictor
from engine.talker.fused.triton import FusedFirstCodes, TritonCodes
from engine.talker.fused.weights import gather
from engine.talker.gpu_step.frame_sampler import PlainFirstCodes, ResidualCodes
from engine.talker.gpu_step.graphs import PaddedGraphs, batch_sizes
from engine.talker.gpu_step.slots import Slots
from engine.talker.gpu_step.uploader import Uploader
from tests.support.code_predictors import (
    PUBLISHED,
    predictor_inputs,
    random_slots,
    random_talker,
    relative,
    select_rows,
)
from tests.support.talkers import DEVICE

ROOT = Path(__file__).parents[2]
ROWS = 130
MIN_AGREEMENT = 0.95
"""Minimum share of draws with the same most likely code as in float32; plain torch in bfloat16 reaches 0.97 to 1."""
MIN_ROWS = 16
"""Minimum number of rows for a meaningful share."""
WIDTHS = (2048, 1024)
needs_persistent = pytest.mark.skipif(
    DEVICE.type != "cuda"
    or torch.cuda.get_device_capability() != (9, 0)
    or torch.cuda.get_device_properties(0).multi_processor_count < 128,
    reason="needs an H100 or H200",
)
ONE_BLOCK_MISSING = """
from engine.kernels.nvrtc import CooperativeKernel
from engine.talker.fused import dispatch
from tests.gpu.test_fused_codes import weights_of

dispatch.CooperativeKernel = lambda *given, blocks, **named: CooperativeKernel(*given, blocks=blocks - 1, **named)
dispatch.persistent_codes(weights_of(1024), [1])
"""


@cache
def talker_parts(width, dtype=torch.bfloat16):
    return random_talker(PUBLISHED, vocab=2048, codebooks=16, talker_hidden=width, dtype=dtype, device=DEVICE)


@cache
def weights_of(width, dtype=torch.bfloat16):
    return gather(*talker_parts(width, dtype))


@contextmanager
def bfloat16_default():
    """Create tensors in bfloat16 by default, as while vLLM loads a model."""
    torch.set_default_dtype(torch.bfloat16)
    try:
        yield
    finally:
        torch.set_default_dtype(torch.float32)


@cache
def dispatched(width) -> ResidualCodes:
    parts = talker_parts(width)
    with bfloat16_default():
        return residual_codes(*parts, batch_sizes(ROWS))


@cache
def persistent_of(width) -> PersistentCodes:
    weights = weights_of(width)
    with bfloat16_default():
        return persistent_codes(weights, batch_sizes(MAX_ROWS))


@cache
def batched_of(width) -> BatchedCodes:
    weights = weights_of(width)
    with bfloat16_default():
        return batched_codes(weights, batch_sizes(batched.MAX_ROWS))


@cache
def triton_of(width, dtype=torch.bfloat16) -> TritonCodes:
    weights = weights_of(width, dtype)
    with bfloat16_default():
        return TritonCodes(weights, ROWS)


@pytest.fixture(autouse=True)
def no_gradients():
    with torch.inference_mode():
        yield


@needs_persistent
@pytest.mark.parametrize("width", WIDTHS)
def test_batches_use_the_batched_kernel_or_triton(width):
    assert isinstance(dispatched(width), BatchedCodes)
    both = residual_codes(*talker_parts(width), [8, 64, batched.MAX_ROWS + 8])
    assert (type(both._small), type(both._large)) == (BatchedCodes, TritonCodes)


@pytest.mark.parametrize("width", WIDTHS)
@pytest.mark.parametrize("rows", [1, 5, ROWS])
def test_triton_codes_match_the_reference_in_float32(width, rows):
    weights = weights_of(width, torch.float32)
    inputs = predictor_inputs(weights, rows, seed=rows, mixed=True)
    codes, embedding = triton_of(width, torch.float32)(**inputs)
    reference_codes, reference_embedding = ReferencePredictor(weights, rows)(**inputs)
    assert (codes == reference_codes).all(1).float().mean() >= 1 - 2 / ROWS, (
        "a frame may depend on the last bit of a sum"
    )
    same = (codes == reference_codes).all(1)
    torch.testing.assert_close(embedding[same], reference_embedding[same], rtol=1e-4, atol=1e-4)


def compare_logits(codes, logits_of, width, rows):
    """With the same previous codes: errors to the reference and to float32, and the share of equal argmax."""
    weights, exact = weights_of(width), weights_of(width, torch.float32)
    inputs = predictor_inputs(weights, rows, seed=rows, mixed=True)
    reference_codes, _, reference_logits = ReferencePredictor(weights, rows).run(**inputs)
    codes(**inputs, forced=reference_codes)
    logits = logits_of(rows)
    in_float32 = inputs | {"hidden": inputs["hidden"].float()}
    float32_logits = ReferencePredictor(exact, rows).run(**in_float32, forced=reference_codes)[2]
    agreement = (logits.argmax(-1) == float32_logits.argmax(-1)).float().mean().item()
    return relative(logits, reference_logits), relative(logits, float32_logits), agreement


@needs_persistent
@pytest.mark.parametrize("width", WIDTHS)
@pytest.mark.parametrize("rows", [1, 2, 5, 16])
def test_logits_of_the_persistent_kernel(width, rows):
    codes = persistent_of(width)
    to_reference, to_float32, agreement = compare_logits(codes, lambda count: codes.logits[:count], width, rows)
    assert to_reference < 8e-3
    assert to_float32 < 1e-2, "plain torch in bfloat16 has an error of 1.2e-2"
    assert agreement >= MIN_AGREEMENT or rows < MIN_ROWS


@needs_persistent
@pytest.mark.parametrize("width", WIDTHS)
@pytest.mark.parametrize("rows", [1, 2, 16, 17, 32, 33, 64, 65, 128, ROWS, 255, 256])
def test_logits_of_the_batched_kernel(width, rows):
    codes = batched_of(width)
    to_reference, to_float32, agreement = compare_logits(
        codes, lambda count: codes.logits(count).transpose(0, 1), width, rows
    )
    assert to_reference < 8e-3
    assert to_float32 < 1e-2
    assert agreement >= MIN_AGREEMENT or rows < MIN_ROWS


@needs_persistent
@pytest.mark.parametrize("rows", [24, 60, 128, 256])
def test_the_batched_kernel_gives_the_same_codes_every_time(rows):
    codes, inputs = batched_of(2048), predictor_inputs(weights_of(2048), rows, seed=rows, mixed=True)
    first, (reference, _) = codes(**inputs)[0].clone(), ReferencePredictor(weights_of(2048), rows)(**inputs)
    assert (first == reference)[:, :3].float().mean() > MIN_AGREEMENT - 0.05
    different = torch.zeros((), device=DEVICE, dtype=torch.int64)
    for _ in range(300):
        different += (codes(**inputs)[0] != first).sum()
    assert different.item() == 0


@pytest.mark.parametrize("width", WIDTHS)
@pytest.mark.parametrize("rows", [1, 5, 24, 48, 96, ROWS])
def test_logits_of_triton(width, rows):
    codes = triton_of(width)
    to_reference, to_float32, agreement = compare_logits(
        codes, lambda count: codes.logits[:, :count].transpose(0, 1), width, rows
    )
    assert to_reference < 8e-3
    assert to_float32 < 1e-2
    assert agreement >= MIN_AGREEMENT or rows < MIN_ROWS


@needs_persistent
@pytest.mark.parametrize("width", WIDTHS)
@pytest.mark.parametrize("codes_of", [persistent_of, batched_of])
def test_a_row_gives_the_same_codes_in_any_small_batch(codes_of, width):
    codes = codes_of(width)
    inputs = predictor_inputs(weights_of(width), MAX_ROWS, seed=3, mixed=True)
    together, embeddings = (each.clone() for each in codes(**inputs))
    for rows in (slice(0, 1), slice(7, 9), slice(3, 14), torch.arange(MAX_ROWS - 1, -1, -1, device=DEVICE)):
        alone, embedding = codes(**select_rows(inputs, rows))
        assert torch.equal(alone, together[rows])
        assert torch.equal(embedding, embeddings[rows])


@needs_persistent
@pytest.mark.parametrize("width", WIDTHS)
def test_fp8_weights_give_the_same_bits_as_the_same_values_in_bfloat16(width):
    weights, batches = round_to_fp8(weights_of(width)), batch_sizes(MAX_ROWS)
    fp8_codes, bf16_codes = (persistent_codes(weights, batches, fp8=fp8) for fp8 in (True, False))
    assert [codes._fixed["stream"].element_size() for codes in (fp8_codes, bf16_codes)] == [1, 2]
    for rows in (1, 2, 5, MAX_ROWS):
        inputs = predictor_inputs(weights, rows, seed=rows, mixed=True)
        for one, other in zip(fp8_codes(**inputs), bf16_codes(**inputs), strict=True):
            assert torch.equal(one, other)
        assert torch.equal(fp8_codes.logits[:rows], bf16_codes.logits[:rows])


@needs_persistent
def test_a_launch_with_a_missing_block_ends_with_an_error():
    """In a separate process, because CUDA is unusable there afterwards."""
    command = [sys.executable, "-c", ONE_BLOCK_MISSING]
    process = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=100)
    assert "EngineFailed: a kernel failed on the GPU" in process.stderr


@pytest.mark.parametrize(
    ("codes_of", "rows"),
    [
        *((triton_of, rows) for rows in (24, 64, 128)),
        *(pytest.param(batched_of, rows, marks=needs_persistent) for rows in (16, 24, 64, 128, 256)),
    ],
)
def test_a_row_is_independent_of_its_neighbors(codes_of, rows):
    codes, width = codes_of(2048), 2048
    inputs, other = (predictor_inputs(weights_of(width), rows, seed=seed, mixed=True) for seed in (4, 5))
    together, _ = codes(**inputs)
    together = together.clone()
    mixed = dict(other)
    mixed["hidden"] = torch.cat((inputs["hidden"][:9], other["hidden"][9:]))
    mixed["first"] = torch.cat((inputs["first"][:9], other["first"][9:]))
    for name in ("params", "rng"):
        pairs = zip(inputs[name], other[name], strict=True)
        mixed[name] = type(inputs[name])(*(torch.cat((one[..., :9], two[..., 9:]), -1) for one, two in pairs))
    assert torch.equal(codes(**mixed)[0][:9], together[:9])


@pytest.mark.parametrize("rows", [1, 2, 5, 30, 100])
def test_a_captured_frame_equals_the_uncaptured_one(rows):
    """In the batches captured by the talker, including padding."""
    width = 2048
    weights, codes = weights_of(width), dispatched(width)
    inputs = predictor_inputs(weights, ROWS + 1, seed=6, mixed=True)

    def sample_frame(block):
        [at] = block
        rows_of_batch = select_rows(inputs, at)
        names = ("first", "params", "rng")
        return codes(inputs["hidden"].index_select(0, at), *(rows_of_batch[name] for name in names))[0]

    run = PaddedGraphs(sample_frame, batch_sizes(ROWS), (ROWS,), Uploader(DEVICE))
    for first in (0, 3):
        at = torch.arange(first, first + rows)
        drawn = run([at.numpy()]).clone()
        padded = torch.cat((at, torch.full((len(drawn) - rows,), ROWS))).to(DEVICE)
        assert torch.equal(drawn, sample_frame(padded[None]))


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_codebook_0_matches_plain_torch(dtype):
    _, talker, _ = talker_parts(2048)
    generator = torch.Generator().manual_seed(8)
    plain, fused = (Slots(256, 64, talker, text_pad=0, device=DEVICE, dtype=dtype) for _ in range(2))
    at, joining = torch.arange(256, device=DEVICE), random_slots(256, generator, DEVICE)
    for slots in (plain, fused):
        slots.reset(at, **joining)
    for _ in range(4):
        logits = (torch.randn(256, talker.vocab, generator=generator) * 3).to(DEVICE, dtype)
        expected, result = PlainFirstCodes(plain)(logits, at), FusedFirstCodes(fused)(logits, at)
        assert torch.equal(result.codes, expected.codes)
        assert torch.equal(fused.codebook0_rules.seen, plain.codebook0_rules.seen)
        assert torch.equal(fused.frames_made, plain.frames_made)
        for one, other in zip(
            (*result.residual_params, *result.rng), (*expected.residual_params, *expected.rng), strict=True
        ):
            assert torch.equal(one, other)
