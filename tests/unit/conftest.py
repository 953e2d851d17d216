"""Fixtures for unit tests."""

import pytest

from engine.checkpoint.folder import Checkpoint, open_checkpoint


@pytest.fixture(scope="session")
def opened(checkpoints) -> dict[str, Checkpoint]:
    """Every random checkpoint, opened: variant -> checkpoint."""
    return {variant: open_checkpoint(str(checkpoints[variant])) for variant in checkpoints}
