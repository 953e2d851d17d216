"""Small random checkpoints in the published layout. They run every task; the audio is noise."""

from tests.support.random_checkpoint.checkpoint import VARIANTS, RandomCheckpoints, write_checkpoint

__all__ = ["VARIANTS", "RandomCheckpoints", "write_checkpoint"]
