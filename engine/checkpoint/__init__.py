"""Checkpoint folders: configuration, layout, tensors."""
