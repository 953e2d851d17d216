"""The complete codec, and its tensors with their published names."""

from __future__ import annotations

from collections.abc import Mapping

import torch
from torch import Tensor, nn

from engine.checkpoint.architecture import CodecArchitecture
from engine.checkpoint.layout import codec_shapes
from scripts.train_pocket.codec.decoder import Code2Wav
from scripts.train_pocket.codec.encoder import SpeechEncoder
from scripts.train_pocket.codec.quantizer import Quantized, ResidualStack, SplitQuantizer

_STACKS = {
    "semantic": ("encoder.quantizer.semantic_residual_vector_quantizer", "decoder.quantizer.rvq_first"),
    "acoustic": ("encoder.quantizer.acoustic_residual_vector_quantizer", "decoder.quantizer.rvq_rest"),
}
"""The two prefixes with which each stack is published: for the encoder and for the decoder."""


class Codec(nn.Module):
    """Speech encoder, quantizer and Code2Wav."""

    def __init__(self, sizes: CodecArchitecture) -> None:
        super().__init__()
        if sizes.encoder is None:
            raise ValueError("the codec to train must have a speech encoder")
        self.sizes = sizes
        self.encoder = SpeechEncoder(sizes.encoder)
        self.quantizer = SplitQuantizer(
            sizes.encoder.transformer.hidden,
            sizes.decoder.codebook_dim,
            sizes.decoder.quantizers,
            sizes.decoder.codebook_size,
            sizes.encoder.codebook_dim,
        )
        self.decoder = Code2Wav(sizes.decoder)

    def forward(self, samples: Tensor) -> Quantized:
        """Quantize samples [batch, frames * 1920]."""
        quantized: Quantized = self.quantizer(self.encoder(samples))
        return quantized

    def published(self) -> dict[str, Tensor]:
        """Return the tensors of speech_tokenizer/model.safetensors in float32. Raises ValueError for a wrong shape."""
        tensors = _under("encoder", self.encoder.state_dict()) | _under("decoder", self.decoder.state_dict())
        for name, (encoder, decoder) in _STACKS.items():
            stack: ResidualStack = getattr(self.quantizer, name)
            tensors |= _under(encoder, _encoder_side(stack)) | _under(decoder, _decoder_side(stack))
        expected = codec_shapes(self.sizes)
        actual = {name: tuple(tensor.shape) for name, tensor in tensors.items()}
        if actual != expected:
            raise ValueError(
                f"tensors that differ from the published names or shapes: {sorted(actual.items() ^ expected.items())}"
            )
        return {name: tensor.detach().float().cpu().contiguous() for name, tensor in tensors.items()}

    def load_published(self, tensors: Mapping[str, Tensor]) -> None:
        """Load tensors that ``published`` returned."""
        tensors = {name: tensor.float() for name, tensor in tensors.items()}
        quantizer = ".quantizer."
        for name, module in (("encoder", self.encoder), ("decoder", self.decoder)):
            module_tensors = {n.removeprefix(f"{name}."): t for n, t in tensors.items() if n.startswith(f"{name}.")}
            module.load_state_dict({n: t for n, t in module_tensors.items() if not f".{n}".startswith(quantizer)})
        for name, (encoder, decoder) in _STACKS.items():
            stack: ResidualStack = getattr(self.quantizer, name)
            prefix = f"{encoder}."
            module_tensors = {n.removeprefix(prefix): t for n, t in tensors.items() if n.startswith(prefix)}
            module_tensors["output_proj.weight"] = tensors[f"{decoder}.output_proj.weight"]
            stack.load_state_dict(module_tensors)


def _encoder_side(stack: ResidualStack) -> dict[str, Tensor]:
    """Return the encoder's tensors. Its output projection is unused and exists only for the layout."""
    tensors = dict(stack.state_dict())
    hidden, width = tensors["input_proj.weight"].shape[1], tensors["input_proj.weight"].shape[0]
    tensors["output_proj.weight"] = torch.zeros(hidden, width, 1)
    return tensors


def _decoder_side(stack: ResidualStack) -> dict[str, Tensor]:
    outputs, width, _ = stack.output_proj.weight.shape
    tensors = {"output_proj.weight": stack.output_proj.weight, "input_proj.weight": torch.zeros(width, outputs, 1)}
    for index, book in enumerate(stack.books()):
        tensors[f"vq.layers.{index}._codebook.cluster_usage"] = book.cluster_usage
        tensors[f"vq.layers.{index}._codebook.embedding_sum"] = book.embed_sum
    return tensors


def _under(prefix: str, tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
    return {f"{prefix}.{name}": tensor for name, tensor in tensors.items()}
