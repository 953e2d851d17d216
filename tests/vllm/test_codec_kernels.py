"""Code2Wav's Triton kernels match plain torch: interpreted, or on a GPU with TEST_DEVICE=cuda."""

import numpy as np
import pytest
import torch
import triton

from engine.checkpoint.architecture import CodecArchitecture
from engine.code2wav.gpu import captured_sizes
from engine.code2wav.loading import compile_kernels
from engine.kernels.codec_ops import Caches, Product
from engine.kernels.codec_triton import TritonOps
from engine.models.code2wav_gpu import RowDecoder, RowWeights, StreamMemory, Workspace
from engine.protocol.samples import NAN_SAMPLE
from tests.support.code2wav_decoders import CPU, SMALL, decode_streams, random_codes, reference_decoder, tensors_of
from tests.support.talkers import DEVICE
from tests.support.torch_codec_ops import TorchOps

FUSED, PLAIN = TritonOps(), TorchOps()


@pytest.fixture(autouse=True)
def interpretable(monkeypatch):
    """The interpreter calls int on arrays with one element, which numpy 2.4 no longer supports."""
    if DEVICE.type != "cpu":
        return

    class OfAny(type):
        def __instancecheck__(cls, value):
            return isinstance(value, int)

    class Int(metaclass=OfAny):
        def __new__(cls, value=0):
            return int(value.reshape(-1)[0]) if isinstance(value, np.ndarray) else int(value)

    monkeypatch.setattr("triton.runtime.interpreter.int", Int, raising=False)


@pytest.fixture(autouse=True)
def seeded():
    torch.manual_seed(0)
    with torch.device(DEVICE), torch.inference_mode():
        yield


def compare(run, *buffers):
    """Run with both implementations on copies of the buffers, and compare the buffers and results."""
    results = []
    for ops in (FUSED, PLAIN):
        own = [buffer.clone() for buffer in buffers]
        result = run(ops, *own)
        results.append(own if result is None else [*own, result])
    for fused, plain in zip(*results, strict=True):
        torch.testing.assert_close(fused, plain, rtol=2e-5, atol=2e-5)


def test_sums_of_codebooks():
    codes, table = torch.randint(64, (2, 3, 16)), torch.randn(16 * 64, 24)
    compare(lambda ops, out: ops.sum_codebooks(codes, table, out), torch.zeros(2, 3, 24))


@pytest.mark.parametrize(
    ("taps", "dilation", "inputs", "outputs", "activation"),
    [(7, 3, 24, 40, "snake"), (1, 1, 48, 20, "gelu"), (2, 1, 16, 64, "snake"), (1, 1, 32, 96, "none")],
)
def test_products(taps, dilation, inputs, outputs, activation):
    scale = torch.rand(outputs) if activation == "gelu" else None
    product = Product(
        torch.randn(taps * inputs, outputs) * 0.1, torch.randn(outputs), taps, dilation, scale, activation,
        torch.rand(outputs) * 3, torch.rand(outputs),
    )  # fmt: skip
    x, residual = torch.randn(2, product.history + 9, inputs), torch.randn(2, 9, outputs)
    empty = torch.zeros(2, 9, outputs)
    compare(lambda ops, raw, act: ops.product(x, product, residual=residual, raw=raw, act=act), empty, empty)
    compare(lambda ops, raw: ops.product(x, product, raw=raw), empty)


def test_values_beyond_float16_saturate():
    """In every kernel that writes float16; NaN stays NaN."""
    largest, half = torch.finfo(torch.float16).max, torch.float16
    huge = torch.full((1, 4, 32), largest, dtype=half)
    huge[:, 2] = -largest
    for ops in (FUSED, PLAIN):
        raw, act, summed = (torch.zeros(1, 4, 32, dtype=half) for _ in range(3))
        for activation in ("snake", "gelu"):
            product = Product(
                torch.eye(32, dtype=half), torch.zeros(32), activation=activation, frequency=torch.full((32,), 1e3),
                gain=torch.ones(32),
            )  # fmt: skip
            ops.product(huge, product, residual=huge, raw=raw, act=act)
            assert torch.equal(raw, huge)
            assert torch.equal(act, huge if activation == "snake" else huge.clamp(0))
        normed = Product(60_000 * torch.eye(32, dtype=half), torch.zeros(32), norm_eps=1e-5)
        ops.product(huge, normed, residual=huge, raw=raw)
        assert torch.equal(raw, huge)
        assert ops.swiglu(huge.abs()).eq(largest).all()
        norm = (torch.ones(32), torch.full((32,), 1e6))
        assert ops.depthwise_norm(huge, torch.ones(1, 32), torch.zeros(32), norm, 1e-6).eq(largest).all()
        ops.sum_codebooks(torch.zeros(1, 4, 16, dtype=torch.int64), huge[0].abs().repeat(4, 1), summed)
        assert summed.eq(largest).all()
        keys, values = torch.zeros(2, 1, 1, 1, 32, 32, dtype=half)
        caches = Caches(keys, values, torch.tensor([3]))
        qkv, row = huge.view(1, 4, 1, 1, 32).repeat(1, 1, 3, 1, 1), torch.tensor([0])
        mixed = ops.attention(qkv, caches, 0, row, ops.rotations(caches.positions, row, 4, torch.rand(16)), 12)
        assert mixed.isfinite().all() and keys.abs().max() == largest
        nans = torch.full((1, 4, 32), torch.nan, dtype=half)
        ops.product(nans, product, raw=raw, act=act)
        assert raw.isnan().all() and act.isnan().all()
        ops.product(nans, normed, raw=raw)
        assert raw.isnan().all()


def test_nan_samples_are_distinguishable_from_every_sample():
    x = torch.randn(1, 40, 12)
    x[0, 20, 3] = torch.nan
    for ops in (FUSED, PLAIN):
        for dtype in (torch.float32, torch.int16):
            samples = torch.zeros(1, 34, dtype=dtype)
            ops.last_convolution(x, torch.rand(7, 12), torch.zeros(1), samples)
            is_nan = samples.isnan() if dtype == torch.float32 else samples == NAN_SAMPLE
            assert is_nan.nonzero()[:, 1].tolist() == list(range(14, 21))


def test_a_normed_product():
    x = torch.randn(2, 9, 40)
    x[0, 3] = 0
    product = Product(torch.randn(40, 24), torch.randn(24), norm_eps=1e-5)
    compare(lambda ops, raw: ops.product(x, product, raw=raw), torch.zeros(2, 9, 24))


def test_swiglu():
    x = torch.randn(2, 3, 40)
    compare(lambda ops: ops.swiglu(x))


def test_depthwise_convolution():
    x, weight, bias, norm = torch.randn(2, 11, 40), torch.randn(7, 40), torch.rand(40), (torch.rand(40), torch.rand(40))
    compare(lambda ops: ops.depthwise_norm(x, weight, bias, norm, 1e-6))


def test_last_convolution_to_float_and_16_bit_samples():
    x, weight, bias = torch.randn(2, 40, 12) * 0.2, torch.randn(7, 12), torch.randn(1) * 0.1
    compare(lambda ops, samples: ops.last_convolution(x, weight, bias, samples), torch.zeros(2, 34))
    samples = [torch.zeros(2, 34, dtype=torch.int16) for _ in range(2)]
    for ops, out in zip((FUSED, PLAIN), samples, strict=True):
        ops.last_convolution(x, weight, bias, out)
    assert (samples[0].int() - samples[1]).abs().max() <= 1
    assert samples[1].max() == 32767


@pytest.mark.parametrize("frames", [1, 5, 20])
def test_attention_on_ring_buffers_at_any_position(frames):
    keys, values = torch.randn(5, 2, 4, 64, 32), torch.randn(5, 2, 4, 64, 32)
    positions, rows = torch.tensor([0, 5, 30, 100, 64]), torch.tensor([3, 0, 1, 2])
    qkv, frequencies = torch.randn(4, frames, 3, 4, 32), torch.rand(16)

    def attention(ops, keys, values):
        rotations = ops.rotations(positions, rows, frames, frequencies)
        return ops.attention(qkv, Caches(keys, values, positions), 1, rows, rotations, 12)

    compare(attention, keys, values)


def test_positions_advance():
    compare(lambda ops, positions: ops.advance(positions, torch.tensor([3, 0, 1]), 4), torch.arange(5))


@pytest.mark.parametrize("save", [False, True])
def test_columns_are_copied_between_state_and_work_buffers(save):
    plan, rows = torch.tensor([[0, 40, 0, 100, 60], [40, 2000, 256, 3000, 1000]]), torch.tensor([2, 0, 1])
    columns, work = torch.randn(4, 2040), torch.randn(256 + 9000 + 10)
    compare(lambda ops, columns, work: ops.move_columns(columns, work, rows, plan, save), columns, work)


def test_a_complete_decoder():
    codes, cuts = random_codes(SMALL, 2, 2), (1,)
    weights = RowWeights(tensors_of(SMALL), SMALL, device=DEVICE, dtype=torch.float32)
    memory, decoder, rows = StreamMemory(weights, 3), RowDecoder(weights, FUSED), torch.tensor([2, 0])
    pieces = []
    for piece in np.split(codes, cuts, axis=1):
        frames = piece.shape[1]
        work = torch.full((Workspace.size(weights, 2, frames),), float("nan"))
        samples = torch.zeros(2, frames * 1920)
        chunk_codes = torch.from_numpy(piece.astype(np.int64)).to(DEVICE)
        decoder.decode(chunk_codes, rows, memory, Workspace(weights, 2, frames, work), samples)
        pieces.append(samples.cpu().numpy())
    with torch.device(CPU):
        expected = decode_streams(reference_decoder(SMALL, 2), codes)
    assert np.abs(np.concatenate(pieces, axis=1) - expected).max() < 2e-5


def test_kernels_compile_without_weights_or_memory():
    """The interpreter compiles nothing, but the call succeeds for every size."""
    compile_kernels(CodecArchitecture(SMALL, None), torch.float16, captured_sizes(8, 4, 16))


def test_kernels_compile_without_asynchronous_compilation(monkeypatch):
    monkeypatch.delattr(triton, "AsyncCompileMode")
    compile_kernels(CodecArchitecture(SMALL, None), torch.float16, captured_sizes(8, 4, 16), shared=64 * 1024)
