"""Tests that need a GPU: ``TEST_DEVICE=cuda python -m pytest tests/gpu``. Without one, nothing is collected."""

from tests.support.talkers import DEVICE

if DEVICE.type != "cuda":
    collect_ignore_glob = ["test_*.py"]
