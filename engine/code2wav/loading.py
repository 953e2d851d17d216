"""A checkpoint's decoder, on the device that is there."""

from __future__ import annotations

import gc
import logging
from collections.abc import Mapping

import torch
from torch import Tensor

from engine.architecture import CodecArchitecture
from engine.checkpoint import Checkpoint, open_checkpoint
from engine.code2wav.base import Decoder
from engine.code2wav.compiling import compile_kernels
from engine.code2wav.decoder import StreamDecoder
from engine.code2wav.form import Form, choose_form, without_kernels
from engine.code2wav.graphs import GraphedDecoder
from engine.code2wav.schedule import batch_limit, urgent_shapes
from engine.config import Code2WavConfig, EngineConfig
from engine.cores import available_cores
from engine.device import choose_device, prepare_torch
from engine.kernels.codec_tiles import AMPLE
from engine.kernels.fallback import reason_for_plain
from engine.lane import CudaLane
from engine.models.code2wav import Code2WavModel
from engine.models.code2wav_row_weights import RowWeights

_CORES_TO_SPARE = 4
"""With so many one can watch a batch: the talker, Code2Wav and the HTTP process have one each."""
_log = logging.getLogger(__name__)


def load_decoder(config: EngineConfig) -> Decoder:
    """The decoder of the configured checkpoint, ready for every batch. Raises CheckpointError."""
    prepare_torch(config)
    checkpoint, device = open_checkpoint(config.model, verify=config.verify_checksums), choose_device(config)
    form = choose_form(config.code2wav, config.code2wav_streams, device, checkpoint.codec.decoder)
    if form.graphed:
        tensors = checkpoint.codec_tensors("decoder.")
        try:
            return graphed_decoder(checkpoint.codec, tensors, form, device, config.code2wav_streams)
        except Exception as error:
            form = without_kernels(config.code2wav, reason_for_plain(error))
        gc.collect()
        torch.cuda.empty_cache()
    if device.type == "cuda":
        _log.info("Code2Wav runs in plain torch: %s", form.plain)
    return _plain(checkpoint, device, config.code2wav, config.code2wav_streams)


def _plain(checkpoint: Checkpoint, device: torch.device, limits: Code2WavConfig, streams: int) -> StreamDecoder:
    model = Code2WavModel(checkpoint.codec_tensors("decoder."), checkpoint.codec.decoder, device=device)
    decoder = StreamDecoder(model, streams)
    most = batch_limit(limits, padded=False)
    decoder.warm_up(urgent_shapes(streams, limits.max_chunk_frames, most))
    return decoder


@torch.inference_mode()
def graphed_decoder(
    codec: CodecArchitecture, tensors: Mapping[str, Tensor], form: Form, device: torch.device, rows: int
) -> GraphedDecoder:
    """The decoder of a GPU. Raises whatever Triton and CUDA do where its kernels cannot be had.

    tensors: of speech_tokenizer/model.safetensors, without their ``decoder.`` prefix.
    """
    from engine.kernels.codec_triton import TritonOps

    shared = getattr(torch.cuda.get_device_properties(device), "shared_memory_per_block_optin", AMPLE)
    compile_kernels(codec, form.dtype, form.sizes, shared)
    lane = CudaLane(device, sleeping=available_cores() < _CORES_TO_SPARE, urgent=True)
    with lane.inside():
        weights = RowWeights(tensors, codec.decoder, device=device, dtype=form.dtype)
    decoder = GraphedDecoder(weights, TritonOps(shared=shared), lane, rows=rows, sizes=form.sizes)
    torch.cuda.empty_cache()
    return decoder
