"""The names and shapes of every tensor that a checkpoint must hold (SPEC 1.2, 7, 8, 9)."""

from __future__ import annotations

from engine.checkpoint.architecture import (
    CodecArchitecture,
    DecoderArchitecture,
    ModelArchitecture,
    SpeakerEncoderArchitecture,
    SpeechEncoderArchitecture,
    TalkerArchitecture,
    Transformer,
)
from engine.checkpoint.packing import packed_shapes

Shapes = dict[str, tuple[int, ...]]


def model_shapes(model: ModelArchitecture) -> Shapes:
    """Return the tensors of model.safetensors: talker, code predictor and, if there is one, speaker encoder."""
    shapes = _with_prefix("talker", _talker(model.talker) | _with_prefix("code_predictor", _predictor(model.talker)))
    if model.speaker_encoder is not None:
        shapes |= _with_prefix("speaker_encoder", _speaker_encoder(model.speaker_encoder))
    return shapes if model.packing is None else packed_shapes(shapes, model.packing.weights)


def codec_shapes(codec: CodecArchitecture) -> Shapes:
    """Return the tensors of speech_tokenizer/model.safetensors: Code2Wav and, if there is one, speech encoder."""
    shapes = _with_prefix("decoder", _decoder(codec.decoder))
    if codec.encoder is not None:
        shapes |= _with_prefix("encoder", _speech_encoder(codec.encoder))
    return shapes


def _talker(talker: TalkerArchitecture) -> Shapes:
    hidden, text_hidden = talker.transformer.hidden, talker.text_hidden
    shapes: Shapes = {
        "model.text_embedding.weight": (talker.text_vocab, text_hidden),
        "model.codec_embedding.weight": (talker.vocab, hidden),
        "model.norm.weight": (hidden,),
        "codec_head.weight": (talker.vocab, hidden),
    }
    shapes |= _with_prefix("text_projection.linear_fc1", _linear(text_hidden, text_hidden))
    shapes |= _with_prefix("text_projection.linear_fc2", _linear(hidden, text_hidden))
    return shapes | _with_prefix("model.layers", _qwen3_layers(talker.transformer))


def _predictor(talker: TalkerArchitecture) -> Shapes:
    hidden, vocab = talker.transformer.hidden, talker.predictor.vocab
    transformer = talker.predictor.transformer
    shapes = _with_prefix("model.layers", _qwen3_layers(transformer))
    shapes["model.norm.weight"] = (transformer.hidden,)
    for i in range(talker.codebooks - 1):
        shapes[f"model.codec_embedding.{i}.weight"] = (vocab, hidden)
        shapes[f"lm_head.{i}.weight"] = (vocab, transformer.hidden)
    if hidden != transformer.hidden:
        shapes |= _with_prefix("small_to_mtp_projection", _linear(transformer.hidden, hidden))
    return shapes


def _speaker_encoder(encoder: SpeakerEncoderArchitecture) -> Shapes:
    channels, kernels, last = encoder.channels, encoder.kernel_sizes, encoder.channels[-1]
    shapes = _with_prefix("blocks.0.conv", _conv(channels[0], encoder.mel_dim, kernels[0]))
    for b in range(1, len(channels) - 1):
        wide, narrow = channels[b], channels[b] // encoder.res2net_scale
        block = _with_prefix("tdnn1.conv", _conv(wide, channels[b - 1], 1))
        for j in range(encoder.res2net_scale - 1):
            block |= _with_prefix(f"res2net_block.blocks.{j}.conv", _conv(narrow, narrow, kernels[b]))
        block |= _with_prefix("tdnn2.conv", _conv(wide, wide, 1))
        block |= _with_prefix("se_block.conv1", _conv(encoder.se_channels, wide, 1))
        block |= _with_prefix("se_block.conv2", _conv(wide, encoder.se_channels, 1))
        shapes |= _with_prefix(f"blocks.{b}", block)
    shapes |= _with_prefix("mfa.conv", _conv(last, sum(channels[1:-1]), kernels[-1]))
    shapes |= _with_prefix("asp.tdnn.conv", _conv(encoder.attention_channels, 3 * last, 1))
    shapes |= _with_prefix("asp.conv", _conv(last, encoder.attention_channels, 1))
    return shapes | _with_prefix("fc", _conv(encoder.width, 2 * last, 1))


def _decoder(decoder: DecoderArchitecture) -> Shapes:
    hidden, latent = decoder.transformer.hidden, decoder.latent
    shapes = _with_prefix("quantizer.rvq_first", _decoder_codebooks(decoder, 1))
    shapes |= _with_prefix("quantizer.rvq_rest", _decoder_codebooks(decoder, decoder.quantizers - 1))
    shapes |= _with_prefix("pre_conv.conv", _conv(latent, decoder.codebook_dim, 3))
    shapes |= _with_prefix("pre_transformer.input_proj", _linear(hidden, latent))
    shapes |= _with_prefix("pre_transformer.output_proj", _linear(latent, hidden))
    shapes["pre_transformer.norm.weight"] = (hidden,)
    shapes |= _with_prefix("pre_transformer.layers", _decoder_layers(decoder.transformer))
    for i, ratio in enumerate(decoder.upsampling_ratios):
        shapes |= _with_prefix(f"upsample.{i}.0.conv", _transposed_conv(latent, latent, ratio))
        shapes |= _with_prefix(f"upsample.{i}.1", _convnext(latent))
    return shapes | _with_prefix("decoder", _waveform_blocks(decoder))


def _decoder_codebooks(decoder: DecoderArchitecture, count: int) -> Shapes:
    wide, narrow = decoder.codebook_dim, decoder.codebook_dim // 2
    shapes: Shapes = {"input_proj.weight": (narrow, wide, 1), "output_proj.weight": (wide, narrow, 1)}
    for i in range(count):
        shapes[f"vq.layers.{i}._codebook.cluster_usage"] = (decoder.codebook_size,)
        shapes[f"vq.layers.{i}._codebook.embedding_sum"] = (decoder.codebook_size, narrow)
    return shapes


def _convnext(width: int) -> Shapes:
    shapes: Shapes = {"gamma": (width,), "norm.weight": (width,), "norm.bias": (width,)}
    shapes |= _with_prefix("dwconv.conv", _conv(width, 1, 7))
    shapes |= _with_prefix("pwconv1", _linear(4 * width, width))
    return shapes | _with_prefix("pwconv2", _linear(width, 4 * width))


def _waveform_blocks(decoder: DecoderArchitecture) -> Shapes:
    """Return block 0, one block per upsample rate, the last activation and the last convolution."""
    width = decoder.decoder_dim
    shapes = _with_prefix("0.conv", _conv(width, decoder.latent, 7))
    for b, rate in enumerate(decoder.upsample_rates, start=1):
        wide, width = width, width // 2
        block = _with_prefix("0", _snake(wide)) | _with_prefix("1.conv", _transposed_conv(wide, width, 2 * rate))
        for unit in ("2", "3", "4"):
            block |= _with_prefix(unit, _residual_unit(width))
        shapes |= _with_prefix(f"{b}.block", block)
    last = len(decoder.upsample_rates) + 1
    return shapes | _with_prefix(str(last), _snake(width)) | _with_prefix(f"{last + 1}.conv", _conv(1, width, 7))


def _residual_unit(width: int) -> Shapes:
    shapes = _with_prefix("act1", _snake(width)) | _with_prefix("act2", _snake(width))
    shapes |= _with_prefix("conv1.conv", _conv(width, width, 7))
    return shapes | _with_prefix("conv2.conv", _conv(width, width, 1))


def _speech_encoder(encoder: SpeechEncoderArchitecture) -> Shapes:
    """Return SEANet, transformer, downsampling and two quantizer stacks, named as in transformers' MimiModel."""
    hidden = encoder.transformer.hidden
    shapes = _with_prefix("encoder.layers", _seanet(encoder))
    shapes |= _with_prefix("encoder_transformer.layers", _mimi_layers(encoder.transformer))
    shapes["downsample.conv.weight"] = (hidden, hidden, 4)
    acoustic = encoder.quantizers - encoder.semantic_quantizers
    for name, count in (("semantic", encoder.semantic_quantizers), ("acoustic", acoustic)):
        shapes |= _with_prefix(f"quantizer.{name}_residual_vector_quantizer", _encoder_codebooks(encoder, count))
    return shapes


def _seanet(encoder: SpeechEncoderArchitecture) -> Shapes:
    """Return the convolutional layers. The layer numbers also count the activations between the convolutions."""
    width = encoder.filters
    shapes = _with_prefix("0.conv", _conv(width, 1, encoder.kernel))
    layer = 1
    for ratio in reversed(encoder.ratios):
        narrow = width // encoder.compress
        shapes |= _with_prefix(f"{layer}.block.1.conv", _conv(narrow, width, encoder.residual_kernel))
        shapes |= _with_prefix(f"{layer}.block.3.conv", _conv(width, narrow, 1))
        shapes |= _with_prefix(f"{layer + 2}.conv", _conv(2 * width, width, 2 * ratio))
        layer, width = layer + 3, 2 * width
    return shapes | _with_prefix(f"{layer + 1}.conv", _conv(encoder.transformer.hidden, width, encoder.last_kernel))


def _encoder_codebooks(encoder: SpeechEncoderArchitecture, count: int) -> Shapes:
    hidden, narrow, size = encoder.transformer.hidden, encoder.codebook_dim, encoder.codebook_size
    shapes: Shapes = {"input_proj.weight": (narrow, hidden, 1), "output_proj.weight": (hidden, narrow, 1)}
    for i in range(count):
        shapes[f"layers.{i}.codebook.cluster_usage"] = (size,)
        shapes[f"layers.{i}.codebook.embed_sum"] = (size, narrow)
        shapes[f"layers.{i}.codebook.initialized"] = (1,)
    return shapes


def _qwen3_layers(transformer: Transformer) -> Shapes:
    norms: Shapes = {"self_attn.q_norm.weight": (transformer.head_dim,)}
    norms["self_attn.k_norm.weight"] = (transformer.head_dim,)
    return _layers(transformer, _attention(transformer) | _gated_mlp(transformer) | norms)


def _decoder_layers(transformer: Transformer) -> Shapes:
    layer = _attention(transformer) | _gated_mlp(transformer) | _layer_scales(transformer)
    return _layers(transformer, layer)


def _mimi_layers(transformer: Transformer) -> Shapes:
    hidden, inner = transformer.hidden, transformer.intermediate
    layer: Shapes = {"mlp.fc1.weight": (inner, hidden), "mlp.fc2.weight": (hidden, inner)}
    layer |= {"input_layernorm.bias": (hidden,), "post_attention_layernorm.bias": (hidden,)}
    return _layers(transformer, _attention(transformer) | layer | _layer_scales(transformer))


def _layers(transformer: Transformer, layer: Shapes) -> Shapes:
    hidden = transformer.hidden
    layer = layer | {"input_layernorm.weight": (hidden,), "post_attention_layernorm.weight": (hidden,)}
    return {f"{i}.{name}": shape for i in range(transformer.layers) for name, shape in layer.items()}


def _attention(transformer: Transformer) -> Shapes:
    hidden = transformer.hidden
    queries, keys = transformer.heads * transformer.head_dim, transformer.kv_heads * transformer.head_dim
    return {
        "self_attn.q_proj.weight": (queries, hidden),
        "self_attn.k_proj.weight": (keys, hidden),
        "self_attn.v_proj.weight": (keys, hidden),
        "self_attn.o_proj.weight": (hidden, queries),
    }


def _gated_mlp(transformer: Transformer) -> Shapes:
    hidden, inner = transformer.hidden, transformer.intermediate
    return {
        "mlp.gate_proj.weight": (inner, hidden),
        "mlp.up_proj.weight": (inner, hidden),
        "mlp.down_proj.weight": (hidden, inner),
    }


def _layer_scales(transformer: Transformer) -> Shapes:
    scale = (transformer.hidden,)
    return {"self_attn_layer_scale.scale": scale, "mlp_layer_scale.scale": scale}


def _linear(outputs: int, inputs: int) -> Shapes:
    return {"weight": (outputs, inputs), "bias": (outputs,)}


def _conv(outputs: int, inputs: int, kernel: int) -> Shapes:
    return {"weight": (outputs, inputs, kernel), "bias": (outputs,)}


def _transposed_conv(inputs: int, outputs: int, kernel: int) -> Shapes:
    return {"weight": (inputs, outputs, kernel), "bias": (outputs,)}


def _snake(width: int) -> Shapes:
    return {"alpha": (width,), "beta": (width,)}


def _with_prefix(prefix: str, shapes: Shapes) -> Shapes:
    return {f"{prefix}.{name}": shape for name, shape in shapes.items()}
