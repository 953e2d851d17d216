"""Compiles the GPU kernels of an engine into their caches.

    python -m engine.precompile CONFIG PARENT_PID INDEX NUMBER

The engine runs up to ``_MAX_PROCESSES`` of these processes while it imports vLLM, which takes as long and holds the
interpreter lock. Triton also holds that lock for most of a compilation, so each process compiles a share of the
kernels. They load no weights. If one fails, the engine compiles what is missing.
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
from engine.system.cores import available_cores
from engine.system.process import exit_immediately, prepare_process
from engine.talker.fused.compilations import compile_triton_kernels, talker_compilations
from engine.talker.gpu_step.graphs import batch_sizes
from engine.talker.loading import runs_on_vllm

_MAX_PROCESSES = 4
_CORES_PER_PROCESS = 4
_WAIT_S = 60.0
_KILL_S = 5.0
_log = logging.getLogger(__name__)


@contextlib.contextmanager
def precompiling(config: EngineConfig, *, ahead: bool) -> Iterator[None]:
    """Compile the kernels until the end of the ``with`` block, or find them in the caches.

    ahead: in other processes during the block. They are killed when the block raises, or ``_WAIT_S`` seconds after its
    end. Otherwise, without a cache, and if one of them fails: in this process, at the end of the block. Call this in
    the main thread (``die_with_parent``).
    """
    started, processes = time.monotonic(), _start(config) if ahead and cache_folder() is not None else []
    try:
        yield
        deadline = time.monotonic() + _WAIT_S
        complete = [_wait(process, deadline) for process in processes]
    finally:
        for process in processes:
            process.kill()
        for process in processes:
            with contextlib.suppress(subprocess.TimeoutExpired):  # a process can be stuck in the driver
                process.wait(_KILL_S)
    if len(complete) < _number_of_processes() or not all(complete):
        _compile(config)
    seconds = time.monotonic() - started
    _log.info("compiled kernels, or found them in the caches, in %.1f s with %d processes", seconds, len(processes))


def _number_of_processes() -> int:
    return min(_MAX_PROCESSES, max(1, available_cores() // _CORES_PER_PROCESS))


def _start(config: EngineConfig) -> list[subprocess.Popen[bytes]]:
    """Start the processes. Fewer than intended, or none, if they cannot be started."""
    number = _number_of_processes()
    command = [sys.executable, "-m", "engine.precompile", config.model_dump_json(), str(os.getpid())]
    processes = []
    try:
        for index in range(number):
            processes.append(subprocess.Popen([*command, str(index), str(number)], stdin=subprocess.DEVNULL))
    except OSError as error:
        _log.info("not all kernels are compiled ahead: %s", error)
    return processes


def _wait(process: subprocess.Popen[bytes], deadline: float) -> bool:
    """Return whether the process ends by ``deadline`` without an error."""
    try:
        return process.wait(max(0.0, deadline - time.monotonic())) == 0
    except subprocess.TimeoutExpired:
        _log.info("a process that compiles kernels ahead is not done after another %.0f s", _WAIT_S)
        return False


def main() -> bool:
    """Compile a share of the kernels that the engine with this configuration needs. Return whether that succeeded."""
    config_json, parent, index, number = sys.argv[1:]
    config = EngineConfig.model_validate_json(config_json)
    prepare_process(config.log_format, int(parent))
    torch.set_num_threads(1)  # idle threads spin, and the pools of four processes would occupy all cores
    return _compile(config, (int(index), int(number)))


def _compile(config: EngineConfig, share: tuple[int, int] = (0, 1)) -> bool:
    """Compile a share of the kernels. Return whether that succeeded; log the error otherwise."""
    try:
        compile_ahead(open_checkpoint(config.model), config, choose_device(config), share)
    except Exception as error:
        _log.info("not all kernels are compiled ahead: %s", error)
        return False
    return True


def compile_ahead(
    checkpoint: Checkpoint, config: EngineConfig, device: torch.device, share: tuple[int, int] = (0, 1)
) -> None:
    """Compile a share of the kernels of Code2Wav, and then of a talker on vLLM in bfloat16.

    Of the talker: the sampler of codebook 0, and on Hopper the layers and the code predictor for up to
    ``batched.MAX_ROWS`` rows, not in fp8. share: see ``CompileOnly``. Raises the first error of the compilers.
    """
    backend = choose_backend(config.code2wav, config.code2wav_streams, device, checkpoint.codec.decoder)
    talker, slots = checkpoint.model.talker, config.talker.slots
    reproducible = config.talker.vllm.reproducible
    fused = runs_on_vllm(config, device) and choose_dtype(config, device) == torch.bfloat16
    hopper = UnitKernels.supported(device)  # the talker's kernels need the same capability
    layers = hopper and not reproducible
    compilations: list[Callable[[], bytes]] = []
    if backend.graphed and hopper:
        compilations += codec_compilations()
        if fused:
            compilations += talker_compilations(talker, batch_sizes(slots, single=reproducible), layers=layers)
    index, number = share
    compilations = compilations[index::number]
    with ThreadPoolExecutor(len(compilations) or 1) as pool:
        compiling = [pool.submit(each) for each in compilations]
        if backend.graphed:
            shared = shared_bytes(device)
            compile_kernels(checkpoint.codec, backend.dtype, backend.sizes, shared, load=True, share=share)
            if fused:
                with ThreadPoolExecutor() as triton_pool, CompileOnly(triton_pool, load=True, share=share) as launch:
                    compile_triton_kernels(talker, slots, launch, layers=layers)
        for each in compiling:
            each.result()


if __name__ == "__main__":
    exit_immediately(0 if main() else 1)
