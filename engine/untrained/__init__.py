"""Small random checkpoints in the published layout: they run every task, and make noise."""

from engine.untrained.checkpoint import VARIANTS, write_checkpoint
from engine.untrained.ensure import ensure_checkpoint

__all__ = ["VARIANTS", "ensure_checkpoint", "write_checkpoint"]
