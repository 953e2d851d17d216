"""Writes random checkpoints with the published sizes and layout. They are useful only for timing.

    python -m benchmarks.lib.fullsize OUT [--size 1.7b] [--kind custom_voice]

Every tensor has its published shape. In addition to the published kinds there is ``both``, with named voices and
cloning. The tokenizer is small, but each word of the load client's sentences is one token, as in the published one, so
prompts have the same length. The eos row of the codec head is zero. The logits have a spread like real ones, so top-k
50 never samples eos, and only ``max_new_tokens`` determines the length of an utterance. The files have 2.5 GB (0.6b)
and 4.5 GB (1.7b). They are generated on the GPU in seconds, or on the CPU in a minute, with different random numbers.
"""

from __future__ import annotations

import argparse
import time
from pathlib import Path
from typing import Any, NamedTuple

import torch

from engine.checkpoint.config import read_codec, read_model
from engine.checkpoint.layout import codec_shapes, model_shapes
from engine.protocol.request import SAMPLE_RATE
from server.bench.workload import SENTENCES
from tests.support.random_checkpoint.codec_configs import CODEC, FEATURE_EXTRACTOR, MODELSCOPE
from tests.support.random_checkpoint.configs import CODEBOOK, GENERATION, PROCESSOR, model_config
from tests.support.random_checkpoint.files import write_json
from tests.support.random_checkpoint.tokenizer import write_tokenizer
from tests.support.random_checkpoint.weights import write_weights

KINDS = ("custom_voice", "base", "both")


class _Size(NamedTuple):
    """A model size. name: in config.json. hidden, intermediate: widths of the talker."""

    name: str
    hidden: int
    intermediate: int


_SIZES = {"0.6b": _Size("0b6", 1024, 3072), "1.7b": _Size("1b7", 2048, 6144)}
SIZES = tuple(_SIZES)
_CODEBOOK = 2048
_ATTENTION = {"num_attention_heads": 16, "num_key_value_heads": 8, "head_dim": 128}
_PREDICTOR = _ATTENTION | {
    "hidden_size": 1024,
    "intermediate_size": 3072,
    "num_hidden_layers": 5,
    "layer_types": ["full_attention"] * 5,
    "vocab_size": _CODEBOOK,
}
_TALKER = _ATTENTION | {
    "num_hidden_layers": 28,
    "vocab_size": _CODEBOOK + 1024,
    "text_hidden_size": 2048,
    "text_vocab_size": 151936,
}
_MROPE_SECTION = [24, 20, 20]
_CODEC_DECODER = {
    "codebook_dim": 512,
    "codebook_size": _CODEBOOK,
    "decoder_dim": 1536,
    "head_dim": 64,
    "hidden_size": 512,
    "intermediate_size": 1024,
    "latent_dim": 1024,
    "num_attention_heads": 16,
    "num_hidden_layers": 8,
    "num_key_value_heads": 16,
    "semantic_codebook_size": 2 * _CODEBOOK,
    "sliding_window": 72,
    "vector_quantization_hidden_dimension": 512,
}
_CODEC_ENCODER = {
    "codebook_dim": 256,
    "codebook_size": _CODEBOOK,
    "head_dim": 64,
    "hidden_size": 512,
    "intermediate_size": 2048,
    "num_attention_heads": 8,
    "num_filters": 64,
    "num_hidden_layers": 8,
    "num_key_value_heads": 8,
    "upsample_groups": 512,
    "vector_quantization_hidden_dimension": 256,
}
_LAST_CONV = "decoder.decoder.6.conv.weight"


def full_size_model(tokens: dict[str, int], size: str = "0.6b", kind: str = "custom_voice") -> dict[str, Any]:
    """Return the config.json for one of ``SIZES`` and of ``KINDS``, for a tokenizer with ``tokens``."""
    name, hidden, intermediate = _SIZES[size]
    published = "base" if kind == "base" else "custom_voice"
    config = model_config(name, published, clones=kind != "custom_voice", marked=True, tokens=tokens)
    talker = _with_published_ids(config["talker_config"]) | _TALKER
    talker |= {"hidden_size": hidden, "intermediate_size": intermediate}
    talker["rope_scaling"] |= {"mrope_section": _MROPE_SECTION}
    talker["code_predictor_config"] |= _PREDICTOR
    if kind != "custom_voice":
        config["speaker_encoder_config"] = {"enc_dim": hidden, "sample_rate": SAMPLE_RATE}
    return config | {"talker_config": talker}


def full_size_codec() -> dict[str, Any]:
    """Return the published speech_tokenizer/config.json."""
    return CODEC | {
        "decoder_config": CODEC["decoder_config"] | _CODEC_DECODER,
        "encoder_config": CODEC["encoder_config"] | _CODEC_ENCODER,
    }


def write_full_size(folder: Path, size: str = "0.6b", kind: str = "custom_voice") -> None:
    """Write the checkpoint. config.json is written last, so it marks a complete checkpoint."""
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    (folder / "speech_tokenizer").mkdir(parents=True, exist_ok=True)
    _write_codec(folder / "speech_tokenizer", device)
    config = full_size_model(write_tokenizer(folder, words_of=SENTENCES), size, kind)
    model = read_model(config, folder / "config.json")
    weights, eos = folder / "model.safetensors", model.talker.ids.eos
    write_weights(weights, model_shapes(model), "full-size", torch.bfloat16, eos=eos, eos_gain=0.0, device=device)
    write_json(folder / "generation_config.json", GENERATION)
    write_json(folder / "preprocessor_config.json", PROCESSOR)
    write_json(folder / "config.json", config)


def _write_codec(folder: Path, device: torch.device) -> None:
    config = full_size_codec()
    shapes = codec_shapes(read_codec(config, folder / "config.json"))
    weights = folder / "model.safetensors"
    write_weights(weights, shapes, "full-size codec", torch.float32, last_conv=_LAST_CONV, device=device)
    write_json(folder / "config.json", config)
    write_json(folder / "configuration.json", MODELSCOPE)
    write_json(folder / "preprocessor_config.json", FEATURE_EXTRACTOR)


def _with_published_ids(talker: dict[str, Any]) -> dict[str, Any]:
    """Shift the token ids of the small configuration, which follow its codebook, to follow the published codebook."""

    def shift(value: Any) -> Any:
        if isinstance(value, dict):
            return {name: shift(each) for name, each in value.items()}
        return value + _CODEBOOK - CODEBOOK

    return {
        key: shift(value) if key.startswith("codec_") or key == "spk_id" else value for key, value in talker.items()
    }


def main() -> None:
    """Write a checkpoint and print its size and the time it took."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("out", type=Path, help="the folder to write")
    parser.add_argument("--size", choices=SIZES, default="1.7b")
    parser.add_argument("--kind", choices=KINDS, default="custom_voice")
    args = parser.parse_args()
    began = time.perf_counter()
    write_full_size(args.out, args.size, args.kind)
    size = sum(file.stat().st_size for file in args.out.rglob("*") if file.is_file())
    print(f"{args.out}: {args.size} {args.kind}, {size / 1e9:.2f} GB, {time.perf_counter() - began:.1f} s")


if __name__ == "__main__":
    main()
