"""What only a GPU can show: ``TEST_DEVICE=cuda python -m pytest tests/gpu``. Elsewhere there is nothing to run."""

from tests.support.talkers import DEVICE

if DEVICE.type != "cuda":
    collect_ignore_glob = ["test_*.py"]
