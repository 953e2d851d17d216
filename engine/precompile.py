"""Compiles the GPU kernels of an engine into their caches: ``python -m engine.precompile CONFIG PARENT_PID``.

The engine runs it as a process of its own while it imports vLLM, which takes as long and holds the interpreter lock. It
loads no weights. What it does not compile, the engine compiles later.
"""

from __future__ import annotations

import contextlib
import logging
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor

import torch

from engine.checkpoint.folder import Checkpoint, open_checkpoint
from engine.code2wav.loading import choose_backend, compile_kernels, shared_bytes
from engine.config import EngineConfig
from engine.device.selection import choose_device, choose_dtype
from engine.kernels.codec_units import UnitKernels
from engine.kernels.codec_units import compilations as codec_compilations
from engine.kernels.triton_launch import CompileOnly
from engine.system.cache_folder import cache_folder
from engine.system.process import exit_immediately, prepare_process
from engine.talker.fused.compilations import compile_triton_kernels, talker_compilations
from engine.talker.gpu_step.graphs import batch_sizes

_WAIT_S = 60.0
_KILL_S = 5.0
_log = logging.getLogger(__name__)


@contextlib.contextmanager
def precompiling(config: EngineConfig) -> Iterator[None]:
    """Compile the kernels in another process during the ``with`` block, and wait for it at the end of the block.

    The process is killed when the block raises, or ``_WAIT_S`` seconds after its end. Without a cache, nothing is
    compiled. Call it in the main thread (``die_with_parent``).
    """
    if cache_folder() is None:
        yield
        return
    command = [sys.executable, "-m", "engine.precompile", config.model_dump_json(), str(os.getpid())]
    try:
        process = subprocess.Popen(command, stdin=subprocess.DEVNULL)
    except OSError as error:
        _log.info("kernels are not compiled ahead: %s", error)
        yield
        return
    try:
        yield
        _wait(process)
    finally:
        process.kill()
        with contextlib.suppress(subprocess.TimeoutExpired):  # a process can be stuck in the driver
            process.wait(_KILL_S)


def _wait(process: subprocess.Popen[bytes]) -> None:
    try:
        if process.wait(_WAIT_S):
            _log.info("the process that compiles kernels ahead ended with status %d", process.returncode)
    except subprocess.TimeoutExpired:
        _log.info("the process that compiles kernels ahead is not done after another %.0f s", _WAIT_S)


def main() -> None:
    """Compile the kernels that the engine with this configuration needs."""
    config_json, parent = sys.argv[1:]
    config = EngineConfig.model_validate_json(config_json)
    prepare_process(config.log_format, int(parent))
    started = time.monotonic()
    try:
        compile_ahead(open_checkpoint(config.model), config, choose_device(config))
    except Exception as error:
        _log.info("not all kernels are compiled ahead: %s", error)
    else:
        _log.info("compiled kernels ahead, or found them in the caches, in %.1f s", time.monotonic() - started)


def compile_ahead(checkpoint: Checkpoint, config: EngineConfig, device: torch.device) -> None:
    """Compile the kernels of Code2Wav and of a talker in bfloat16, in that order.

    Of the talker: the sampler of codebook 0, and on Hopper the layers and the code predictor for up to
    ``batched.MAX_ROWS`` rows, not in fp8. Raises the first error of the compilers.
    """
    backend = choose_backend(config.code2wav, config.code2wav_streams, device, checkpoint.codec.decoder)
    talker, slots = checkpoint.model.talker, config.talker.slots
    reproducible, bfloat16 = config.talker.vllm.reproducible, choose_dtype(config, device) == torch.bfloat16
    hopper = UnitKernels.supported(device)  # the talker's kernels need the same capability
    layers = hopper and not reproducible
    compilations: list[Callable[[], bytes]] = []
    if backend.graphed and hopper:
        compilations += codec_compilations()
        if bfloat16:
            compilations += talker_compilations(talker, batch_sizes(slots, single=reproducible), layers=layers)
    with ThreadPoolExecutor(len(compilations) or 1) as pool:
        compiling = [pool.submit(each) for each in compilations]
        if backend.graphed:
            compile_kernels(checkpoint.codec, backend.dtype, backend.sizes, shared_bytes(device), load=True)
            if bfloat16:
                with ThreadPoolExecutor() as triton_pool, CompileOnly(triton_pool, load=True) as launch:
                    compile_triton_kernels(talker, slots, launch, layers=layers)
        for each in compiling:
            each.result()


if __name__ == "__main__":
    main()
    exit_immediately()
