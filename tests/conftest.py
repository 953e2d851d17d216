"""What tests of every kind share."""

from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest
import torch
from hypothesis import settings

from tests.support.random_checkpoint import VARIANTS, write_checkpoint

settings.register_profile("thorough", max_examples=1000)

torch.backends.cudnn.allow_tf32 = False
torch.set_num_threads(1)  # two teams of threads on two cores wait for each other more than they work


class UntrainedCheckpoints(Mapping[str, Path]):
    """Variant -> folder, written when first asked for. Tests must not change them."""

    def __init__(self, root: Path) -> None:
        self._root = root

    def __getitem__(self, variant: str) -> Path:
        folder = self._root / variant
        if not (folder / "config.json").exists():
            write_checkpoint(folder, variant)
        return folder

    def __iter__(self) -> Iterator[str]:
        return iter(VARIANTS)

    def __len__(self) -> int:
        return len(VARIANTS)


@pytest.fixture(scope="session")
def checkpoints(tmp_path_factory: pytest.TempPathFactory) -> UntrainedCheckpoints:
    return UntrainedCheckpoints(tmp_path_factory.mktemp("checkpoints"))
