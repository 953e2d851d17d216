"""Bit-exactness of layers at the width of the published codec, where small shapes could hide a fault."""

import pytest
import torch

from engine.checkpoint.architecture import DecoderArchitecture, Transformer
from engine.kernels.conv import bfloat16_runs
from engine.models.code2wav import CodecTransformer
from engine.models.code2wav_blocks import ConvNeXt, Repeat, ResidualUnit, StreamConv, StreamState, Upsample

CHUNKINGS = [[1] * 12, [2] * 6, [3, 1, 8], [12]]
FRAMES = 12


def random(*shape):
    generator = torch.Generator().manual_seed(sum(shape))
    return torch.randn(shape, generator=generator) / max(shape[-1], 4) ** 0.5


def transformer():
    shape = Transformer(512, 1024, 2, 16, 16, 64, 10_000.0, 1e-5)
    architecture = DecoderArchitecture(shape, 1024, 512, 2048, 16, 1536, 72, (8, 5, 4, 3), (2, 2))
    name = "pre_transformer"
    weights = {f"{name}.norm.weight": random(512)}
    for end, size in (("input_proj", (512, 1024)), ("output_proj", (1024, 512))):
        weights |= {f"{name}.{end}.weight": random(*size), f"{name}.{end}.bias": random(size[0])}
    for layer in range(2):
        own = f"{name}.layers.{layer}"
        weights |= {f"{own}.self_attn.{part}_proj.weight": random(1024, 512) for part in "qkv"}
        weights |= {f"{own}.self_attn.o_proj.weight": random(512, 1024)}
        weights |= {f"{own}.mlp.{part}_proj.weight": random(1024, 512) for part in ("gate", "up")}
        weights |= {f"{own}.mlp.down_proj.weight": random(512, 1024)}
        weights |= {f"{own}.{norm}_layernorm.weight": random(512) for norm in ("input", "post_attention")}
        weights |= {f"{own}.{branch}_layer_scale.scale": random(512) for branch in ("self_attn", "mlp")}
    return CodecTransformer(weights, architecture, torch.device("cpu"))


def residual_unit(channels, columns, dtype=torch.float32):
    weights = {f"u.act{n}.{part}": random(channels) for n in (1, 2) for part in ("alpha", "beta")}
    weights |= {"u.conv1.conv.weight": random(channels, channels, 7), "u.conv1.conv.bias": random(channels)}
    weights |= {"u.conv2.conv.weight": random(channels, channels, 1), "u.conv2.conv.bias": random(channels)}
    return ResidualUnit(weights, "u", dilation=9, columns=columns, dtype=dtype)


def convnext():
    weights = {"c.norm.weight": random(1024), "c.norm.bias": random(1024), "c.gamma": random(1024)}
    weights |= {"c.dwconv.conv.weight": random(1024, 1, 7), "c.dwconv.conv.bias": random(1024)}
    weights |= {"c.pwconv1.weight": random(4096, 1024), "c.pwconv1.bias": random(4096)}
    weights |= {"c.pwconv2.weight": random(1024, 4096), "c.pwconv2.bias": random(1024)}
    return ConvNeXt(weights, "c", columns=2)


def transposed(inputs, kernel):
    return {"t.weight": random(inputs, inputs // 2, kernel), "t.bias": random(inputs // 2)}


LAYERS = {
    "first convolution": (lambda: StreamConv(random(1536, 1024, 7), random(1536), columns=4), 1024, 4),
    "repeat": (lambda: Repeat({"t.weight": random(1024, 1024, 2), "t.bias": random(1024)}, "t", rate=2), 1024, 1),
    "ConvNeXt": (convnext, 1024, 2),
    "first upsampling": (lambda: Upsample(transposed(1536, 16), "t", rate=8, columns=4), 1536, 4),
    "last upsampling": (lambda: Upsample(transposed(192, 6), "t", rate=3, columns=640), 192, 640),
    "768 channels": (lambda: residual_unit(768, 32), 768, 32),
    "192 channels": (lambda: residual_unit(192, 640), 192, 640),
    "96 channels": (lambda: residual_unit(96, 1920), 96, 1920),
}
if bfloat16_runs():
    LAYERS |= {
        "first convolution, bfloat16": (
            lambda: StreamConv(random(1536, 1024, 7), random(1536), columns=4, dtype=torch.bfloat16),
            1024,
            4,
        ),
        "first upsampling, bfloat16": (
            lambda: Upsample(transposed(1536, 16), "t", rate=8, columns=4, dtype=torch.bfloat16),
            1536,
            4,
        ),
        "768 channels, bfloat16": (lambda: residual_unit(768, 32, torch.bfloat16), 768, 32),
        "96 channels, bfloat16": (lambda: residual_unit(96, 1920, torch.bfloat16), 96, 1920),
    }


def run(layer, pieces):
    """Run the layer over the pieces of a new stream."""
    state = [torch.zeros((len(pieces[0]), *each.shape), dtype=each.dtype) for each in layer.states]
    outputs = []
    for piece in pieces:
        stream = StreamState(state)
        outputs.append(layer(piece, stream))
        state = stream.next or state
    return torch.cat(outputs, 1)


@pytest.fixture(params=[1, 2], ids=["one thread", "two threads"])
def threads(request):
    torch.set_num_threads(request.param)
    yield
    torch.set_num_threads(1)


@pytest.mark.parametrize("name", LAYERS)
@torch.inference_mode()
def test_the_output_of_a_layer_does_not_depend_on_the_chunks(name, threads):
    make, channels, columns = LAYERS[name]
    layer, x = make(), random(2, columns * FRAMES, channels)
    whole = run(layer, [x])
    for frames in CHUNKINGS:
        sizes = [columns * count for count in frames]
        assert torch.equal(run(layer, x.split(sizes, 1)), whole), frames
        assert torch.equal(run(layer, x[:1].split(sizes, 1)), whole[:1]), frames


@torch.inference_mode()
def test_the_output_of_the_transformer_does_not_depend_on_the_chunks(threads):
    layer, x = transformer(), random(2, 90, 1024)
    whole = run(layer, [x])
    for sizes in ([1] * 90, [5] * 18, [1, 2, 4, 8, 16, 32, 27]):
        assert torch.equal(run(layer, x.split(sizes, 1)), whole), sizes
        assert torch.equal(run(layer, x[:1].split(sizes, 1)), whole[:1]), sizes
