"""Talkers on vLLM's CPU backend, which ``make test-vllm`` installs; without it, nothing is collected.

With TEST_DEVICE=cuda, they use the installed vLLM and the GPU.
"""

from collections.abc import Callable, Iterator
from importlib.metadata import PackageNotFoundError, version

import pytest
import torch

from engine.checkpoint.folder import Checkpoint, open_checkpoint
from engine.config import TalkerConfig, VllmConfig
from engine.talker.vllm.talker import VllmTalker, load_vllm_talker
from tests.support.talkers import DEVICE
from tests.vllm import cpu_backend

try:
    version(cpu_backend.DISTRIBUTION if DEVICE.type == "cpu" else "vllm")
except PackageNotFoundError:
    collect_ignore_glob = ["test_*.py"]
else:
    if DEVICE.type == "cpu":
        cpu_backend.install()

CONTEXT = 512
SLOTS = 8
PREFILL_ROWS = 24
"""Prompts of the tests are longer, so they are prefilled in pieces."""


@pytest.fixture(scope="session")
def opened(checkpoints) -> Callable[[str], Checkpoint]:
    """variant -> checkpoint."""
    known: dict[str, Checkpoint] = {}

    def open_variant(variant: str) -> Checkpoint:
        if variant not in known:
            known[variant] = open_checkpoint(str(checkpoints[variant]))
        return known[variant]

    return open_variant


@pytest.fixture(scope="module")
def vllm_talker() -> Iterator[Callable[..., VllmTalker]]:
    """(checkpoint, settings of VllmConfig and TalkerConfig) -> a talker, closed at the end of the module."""
    talkers: list[VllmTalker] = []

    def make(
        checkpoint: Checkpoint,
        *,
        context: int = CONTEXT,
        slots: int = SLOTS,
        dtype: torch.dtype = torch.float32,
        **settings,
    ) -> VllmTalker:
        config = TalkerConfig(
            slots=slots, context=context, prefill_chunk=PREFILL_ROWS, vllm=VllmConfig.model_validate(settings)
        )
        talkers.append(load_vllm_talker(checkpoint, config, DEVICE, dtype))
        return talkers[-1]

    yield make
    for talker in talkers:
        talker.close()
