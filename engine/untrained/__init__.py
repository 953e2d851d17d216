"""Small random checkpoints in the published layout: they run every task, and make noise."""

from engine.untrained.checkpoint import VARIANTS, write_checkpoint

__all__ = ["VARIANTS", "write_checkpoint"]
