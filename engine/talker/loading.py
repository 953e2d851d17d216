"""Selects and loads the talker backend for a checkpoint, and warms it up."""

from __future__ import annotations

import gc
import importlib
import logging
import time
from dataclasses import replace

import numpy as np
import torch

from engine.checkpoint.folder import Checkpoint
from engine.config import EngineConfig
from engine.device.memory import GpuMemory
from engine.device.selection import choose_dtype
from engine.errors import SetupError
from engine.models.code_predictor import CodePredictor
from engine.models.talker import CodecSide, TalkerModel
from engine.models.weights import Weights
from engine.prompt.builder import NO_TOKEN, Prompt
from engine.protocol.request import FRAME_MS
from engine.talker.base import Sampling, Talker
from engine.talker.native.layers import PlainTalkerLayers, TalkerLayers
from engine.talker.native.talker import NativeTalker
from engine.talker.vllm.installation import prepare_environment, require, usable
from engine.talker.vllm.talker import load_vllm_talker

_WARM_UP_ROWS = 16
_WARM_UP_FRAMES = 3
_log = logging.getLogger(__name__)


def warm_up(talker: Talker, *, text_pad: int, sampling: Sampling) -> float | None:
    """Run a prompt of padding and a few frames, sampled with ``sampling``, on ``talker``, which must be idle.

    Return the real-time factor of the fastest step: its time, without the time in which other processes had the core,
    by the time of a frame. None if no step made a frame.
    """
    prompt = Prompt(
        text=np.full(_WARM_UP_ROWS, text_pad, np.int64),
        codec=np.full(_WARM_UP_ROWS, NO_TOKEN, np.int64),
        embedding=None,
        embedding_row=NO_TOKEN,
        codes=None,
        codes_row=NO_TOKEN,
        trailing=[],
        input_tokens=0,
    )
    talker.admit(0, prompt, replace(sampling, max_new_tokens=_WARM_UP_FRAMES + 1))
    fastest: float | None = None
    while talker.runnable(()):
        began = time.thread_time()
        if talker.step(()).streams:  # the last step makes no frame
            seconds = time.thread_time() - began
            fastest = seconds if fastest is None else min(fastest, seconds)
    return None if fastest is None else 1000 * fastest / FRAME_MS


def load_talker(
    checkpoint: Checkpoint, config: EngineConfig, device: torch.device, memory: GpuMemory | None = None
) -> Talker:
    """Load the checkpoint's talker on the backend that ``talker.engine`` selects.

    memory: determines the size of vLLM's KV cache. Raises SetupError when the backend cannot be used.
    """
    if not runs_on_vllm(config, device):
        return load_native_talker(checkpoint, config, device)
    _log.info("the talker runs on vLLM")
    return load_vllm_talker(checkpoint, config.talker, device, choose_dtype(config, device), memory)


def import_ahead(config: EngineConfig, device: torch.device) -> None:
    """Import what both stages or loading need. Importing vLLM takes seconds: call it in parallel with other loading."""
    if runs_on_vllm(config, device):
        require()
        prepare_environment()
        gc.disable()  # a collection traverses the objects of all modules, which are no garbage
        try:
            importlib.import_module("engine.talker.vllm.core")
        finally:
            gc.freeze()  # vLLM collects several times while it loads
            gc.enable()
    if _compiled(config, device):
        importlib.import_module("engine.kernels.compiled.team")


def runs_on_vllm(config: EngineConfig, device: torch.device) -> bool:
    """Return whether the talker runs on vLLM.

    Raises SetupError when vLLM is configured but there is no GPU, or when vLLM is not used but the configuration has
    an option that needs it.
    """
    on_gpu = device.type == "cuda"
    if config.talker.engine == "vllm" and not on_gpu:
        raise SetupError(
            f"talker.engine: vllm needs a GPU, but the device is {device}: set talker.engine to native or auto",
            code="no_device",
        )
    on_vllm = config.talker.engine == "vllm" or (config.talker.engine == "auto" and on_gpu and usable())
    if not on_vllm:
        _check_vllm_options(config, on_gpu)
    return on_vllm


def _check_vllm_options(config: EngineConfig, on_gpu: bool) -> None:
    """Raise SetupError if an option is set that only vLLM supports."""
    options, native = config.talker.vllm, config.talker.engine == "native"
    why = "talker.engine is native" if native else "no supported vLLM is installed"
    if options.reproducible and on_gpu:
        raise SetupError(f"talker.vllm.reproducible needs vLLM on a GPU, but {why}")
    if options.fp8_predictor:
        raise SetupError(f"talker.vllm.fp8_predictor needs vLLM on a GPU, but {why if on_gpu else 'there is no GPU'}")


@torch.inference_mode()
def load_native_talker(checkpoint: Checkpoint, config: EngineConfig, device: torch.device) -> NativeTalker:
    """Load the checkpoint's talker and code predictor: in plain PyTorch or in compiled kernels.

    ``talker.weights`` must be a format that runs here (``engine.cpu.plan``). ``auto`` is the format of a packed
    checkpoint, and exact for another one.
    """
    shape, packing = checkpoint.model.talker, checkpoint.model.packing
    slots, context = config.talker.slots, config.talker.context
    with checkpoint.stream("talker.") as tensors:
        weights = Weights(tensors, device, choose_dtype(config, device), release=True)
        residual, codec = weights.under("code_predictor."), CodecSide(weights, shape)
        if not _compiled(config, device):
            predictor = CodePredictor(residual, shape, code_tables=codec.tables, rows=slots)
            model = TalkerModel(weights, shape, positions=context, codec=codec)
            layers: TalkerLayers = PlainTalkerLayers(model, slots, context)
        else:
            # Imported here, because it imports numba.
            from engine.talker.native.compiled import load_compiled

            name = config.talker.weights
            if name == "auto":
                name = "exact" if packing is None else packing.weights
            model, layers, predictor = load_compiled(weights, shape, name, codec, slots=slots, context=context)
    return NativeTalker(model, layers, predictor, config.talker, text_pad=checkpoint.model.text_ids.tts_pad)


def _compiled(config: EngineConfig, device: torch.device) -> bool:
    """Return whether the talker's layers run in compiled kernels."""
    return device.type == "cpu" and choose_dtype(config, device) == torch.float32
