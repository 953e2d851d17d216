"""Small random checkpoints in the published layout. They run every task; the audio is noise."""

from tests.support.random_checkpoint.checkpoint import VARIANTS, write_checkpoint

__all__ = ["VARIANTS", "write_checkpoint"]
