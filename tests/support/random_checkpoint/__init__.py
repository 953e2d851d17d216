"""Small random checkpoints in the published layout: they run every task, and make noise."""

from tests.support.random_checkpoint.checkpoint import VARIANTS, write_checkpoint

__all__ = ["VARIANTS", "write_checkpoint"]
