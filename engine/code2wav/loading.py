"""Selects and loads the Code2Wav backend for the device, and compiles its kernels."""

from __future__ import annotations

import gc
import importlib.util
import logging
from collections.abc import Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

import torch
from torch import Tensor

from engine.checkpoint.architecture import CodecArchitecture, DecoderArchitecture
from engine.checkpoint.folder import Checkpoint, open_checkpoint
from engine.checkpoint.layout import codec_shapes
from engine.code2wav.base import Decoder
from engine.code2wav.cpu import StreamDecoder
from engine.code2wav.gpu import GraphedDecoder, captured_sizes
from engine.code2wav.in_compute_thread import ComputeThreadDecoder
from engine.code2wav.precision import choose_dtype
from engine.code2wav.schedule import batch_limit, urgent_shapes
from engine.config import Code2WavConfig, EngineConfig
from engine.device.compute_thread import ComputeThread
from engine.device.selection import choose_device, prepare_torch
from engine.device.streams import CudaStream
from engine.device.timing import torch_threads
from engine.errors import SetupError
from engine.kernels.codec_tiles import H200_SHARED_BYTES
from engine.kernels.codec_units import UnitKernels
from engine.kernels.fallback import reason_for_fallback
from engine.kernels.nvrtc import KernelError
from engine.kernels.triton_launch import CompileOnly
from engine.models.code2wav import Code2WavModel
from engine.models.code2wav_gpu import RowDecoder, RowWeights, StreamMemory, Workspace
from engine.protocol.request import CODEBOOKS, SAMPLES_PER_FRAME
from engine.system.cores import available_cores

_MAX_THREADS = 16
_MIN_HALF_CHANNELS = 16
"""Minimum channels of half a head that the attention kernel is tested with."""
_MIN_SPIN_CORES = 4
"""Minimum cores for busy-waiting on a batch. The talker, Code2Wav and the HTTP process use one core each."""
_META = torch.device("meta")
_log = logging.getLogger(__name__)


def shared_bytes(device: torch.device) -> int:
    """Return the bytes of shared memory that a block may use on the GPU."""
    properties = torch.cuda.get_device_properties(device)
    return getattr(properties, "shared_memory_per_block_optin", H200_SHARED_BYTES)


def compile_kernels(
    codec: CodecArchitecture,
    dtype: torch.dtype,
    sizes: Iterable[tuple[int, int]],
    shared: int = H200_SHARED_BYTES,
    *,
    load: bool = False,
    share: tuple[int, int] = (0, 1),
) -> None:
    """Compile the kernels for batches of (streams, frames), in parallel.

    Without ``load``, it uses no GPU memory. shared: see ``TritonOps``. load, share: see ``CompileOnly``.
    """
    from engine.kernels.codec_triton import TritonOps

    weights = _zero_weights(codec, dtype)
    memory, threads = StreamMemory(weights, 1), min(_MAX_THREADS, available_cores())
    with (
        ThreadPoolExecutor(threads) as pool,
        CompileOnly(pool, load=load, share=share) as launch,
        torch.inference_mode(),
    ):
        decoder = RowDecoder(weights, TritonOps(launch, shared))
        for size in sizes:
            _decode(decoder, weights, memory, *size)


def _zero_weights(codec: CodecArchitecture, dtype: torch.dtype) -> RowWeights:
    """Return weights of zeros on the CPU.

    The first arithmetic with meta tensors would import torch._dynamo, which takes seconds.
    """
    prefix = "decoder."
    tensors = {
        name.removeprefix(prefix): torch.zeros(()).expand(shape)
        for name, shape in codec_shapes(codec).items()
        if name.startswith(prefix)
    }
    return RowWeights(tensors, codec.decoder, device=torch.device("cpu"), dtype=dtype)


def _decode(decoder: RowDecoder, weights: RowWeights, memory: StreamMemory, streams: int, frames: int) -> None:
    work = torch.empty(Workspace.size(weights, streams, frames), dtype=weights.dtype, device=_META)
    codes = torch.empty(streams, frames, CODEBOOKS, dtype=torch.int64, device=_META)
    rows = torch.empty(streams, dtype=torch.int64, device=_META)
    samples = torch.empty(streams, frames * SAMPLES_PER_FRAME, dtype=torch.int16, device=_META)
    decoder.decode(codes, rows, memory, Workspace(weights, streams, frames, work), samples)


@dataclass(frozen=True)
class Backend:
    """How Code2Wav runs on this device.

    dtype: of the operands of matrix products in Triton. fallback_reason: why plain PyTorch is used instead of Triton
    kernels in CUDA graphs, or None when the kernels are used. sizes: (streams, frames) of the captured graphs.
    """

    dtype: torch.dtype
    fallback_reason: str | None
    sizes: list[tuple[int, int]]

    @property
    def graphed(self) -> bool:
        """Whether Code2Wav runs as Triton kernels in CUDA graphs."""
        return self.fallback_reason is None


def choose_backend(config: Code2WavConfig, streams: int, device: torch.device, decoder: DecoderArchitecture) -> Backend:
    """Choose for at most ``streams`` streams. Raises SetupError when the configured dtype is unavailable here."""
    fallback_reason = _fallback_reason(device, decoder)
    if fallback_reason is not None:
        return plain_backend(config, fallback_reason)
    if config.dtype in ("bfloat16", "int16"):
        raise SetupError(f"engine.code2wav.dtype: {config.dtype} needs a CPU, but the device is cuda: set it to auto")
    dtype = torch.float32 if config.dtype == "float32" else torch.float16
    sizes = captured_sizes(streams, config.max_chunk_frames, batch_limit(config, padded=True))
    return Backend(dtype, None, sizes)


def plain_backend(config: Code2WavConfig, reason: str) -> Backend:
    """Return the plain PyTorch backend. Raises SetupError when float16 is configured, which it does not support."""
    if config.dtype == "float16":
        raise SetupError(f"engine.code2wav.dtype is float16, which needs Triton on a GPU: {reason}; set it to auto")
    return Backend(torch.float32, reason, [])


def _fallback_reason(device: torch.device, decoder: DecoderArchitecture) -> str | None:
    if device.type != "cuda":
        return "there is no GPU"
    if importlib.util.find_spec("triton") is None:
        return "Triton is not installed"
    if decoder.transformer.head_dim < 2 * _MIN_HALF_CHANNELS:
        return (
            f"the codec's heads have {decoder.transformer.head_dim} channels, and the kernels need at least "
            f"{2 * _MIN_HALF_CHANNELS}"
        )
    return None


def load_decoder(config: EngineConfig, compute: ComputeThread | None = None) -> Decoder:
    """Load and warm up the decoder of the configured checkpoint. Raises CheckpointError.

    compute: on a CPU, the thread to compute in.
    Falls back to plain PyTorch when the kernels cannot be compiled or captured, and logs the reason.
    """
    prepare_torch(config)
    checkpoint, device = open_checkpoint(config.model, verify=config.verify_checksums), choose_device(config)
    backend = choose_backend(config.code2wav, config.code2wav_streams, device, checkpoint.codec.decoder)
    if backend.graphed:
        tensors = checkpoint.codec_tensors("decoder.")
        try:
            if config.code2wav.placement == "process":  # as a thread, its kernels are compiled by engine.precompile
                compile_kernels(checkpoint.codec, backend.dtype, backend.sizes, shared_bytes(device))
            return graphed_decoder(checkpoint.codec, tensors, backend, device, config.code2wav_streams)
        except Exception as error:
            backend = plain_backend(config.code2wav, reason_for_fallback(error))
        gc.collect()
        torch.cuda.empty_cache()
    if device.type == "cuda":
        _log.info("Code2Wav runs in plain torch: %s", backend.fallback_reason)
    if compute is None:
        return _warmed_up(_load_plain(checkpoint, device, config), config)
    with ThreadPoolExecutor(1, "loading") as loading:  # the talker loads in the compute thread at the same time
        decoder = loading.submit(_load_plain, checkpoint, device, config, compute.threads).result()
    return ComputeThreadDecoder(compute.run(_warmed_up, decoder, config), compute)


def _warmed_up(decoder: StreamDecoder, config: EngineConfig) -> StreamDecoder:
    max_batch_frames = batch_limit(config.code2wav, padded=False)
    decoder.warm_up(urgent_shapes(config.code2wav_streams, config.code2wav.max_chunk_frames, max_batch_frames))
    return decoder


def _load_plain(
    checkpoint: Checkpoint, device: torch.device, config: EngineConfig, threads: int | None = None
) -> StreamDecoder:
    """Load the decoder in plain PyTorch.

    threads: with which it will run, if not those of this thread. oneDNN packs weights for a number of threads.
    """
    architecture = checkpoint.codec.decoder
    with torch_threads(threads or torch.get_num_threads()):
        dtype = choose_dtype(config.code2wav, architecture, device)  # may measure, so before the file is read
        with checkpoint.codec_stream("decoder.") as tensors:
            model = Code2WavModel(tensors, architecture, device=device, dtype=dtype, release=True)
    return StreamDecoder(model, config.code2wav_streams)


def _unit_kernels(device: torch.device) -> UnitKernels | None:
    """Return the CUDA kernels for large batches, or None where they are unavailable; log why."""
    if not UnitKernels.supported(device):
        return None
    try:
        return UnitKernels(device)
    except KernelError as error:
        _log.info("Code2Wav uses no CUDA kernels for large batches: %s", error)
        return None


@torch.inference_mode()
def graphed_decoder(
    codec: CodecArchitecture, tensors: Mapping[str, Tensor], backend: Backend, device: torch.device, rows: int
) -> GraphedDecoder:
    """Return the decoder for a GPU. Raises the errors of Triton or CUDA when its kernels cannot be built.

    tensors: from speech_tokenizer/model.safetensors, without their ``decoder.`` prefix.
    """
    from engine.kernels.codec_triton import TritonOps

    device_stream = CudaStream(device, blocking=available_cores() < _MIN_SPIN_CORES, high_priority=True)
    with device_stream.context():
        weights = RowWeights(tensors, codec.decoder, device=device, dtype=backend.dtype)
    ops = TritonOps(shared=shared_bytes(device), units=_unit_kernels(device))
    decoder = GraphedDecoder(weights, ops, device_stream, rows=rows, sizes=backend.sizes)
    torch.cuda.empty_cache()
    return decoder
